// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_VPN_TUNNELS_H_
#define SNF_NFS_VPN_TUNNELS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_order.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/packet_parser.h"
#include "nfs/esp/esp_cipher.h"

namespace snf {

// A tunnel to one peer: a security association each way, and what goes through.
struct VpnTunnel {
  std::string name;
  IpAddress local;  // the ends of the outer headers
  IpAddress peer;
  bool is_ipv6 = false;  // of the outer headers
  uint32_t spi_in = 0;
  uint32_t spi_out = 0;
  EspKey key_in;
  EspKey key_out;
  std::vector<IpPrefix> inside;  // addresses on our side of the tunnel
  std::vector<IpPrefix> remote;  // addresses behind the peer
  uint16_t udp_port = 0;         // of the peer (RFC 3948); 0: ESP alone
  bool has_esn = false;          // sequence numbers of 64 bits
  uint64_t first = 1;            // sequence number to the peer

  uint64_t last() const { return has_esn ? ~uint64_t{0} : 0xffff'ffff; }

  size_t outer_bytes() const;  // IP and UDP, in front of ESP
  // The key of the flow that the association is: SPI and receiver.
  FlowKey FlowIn() const;
  FlowKey FlowOut() const;
};

// The addresses of a packet.
struct VpnEnds {
  IpAddress source;
  IpAddress destination;
  bool is_ipv6 = false;

  static VpnEnds Of(std::span<const std::byte> frame,
                    const ParsedPacket& headers);
};

// All tunnels of an NF, read from a file. A value.
class VpnTunnels {
 public:
  static constexpr size_t kMaxTunnels = 256;
  static constexpr uint16_t kUdpPort = 4'500;  // RFC 3948

  // Reads a file with a tunnel a line (nfs/vpn.md). Errors name file and line,
  // but never quote a key.
  static absl::StatusOr<VpnTunnels> Load(const std::string& file);

  std::span<const VpnTunnel> all() const { return tunnels_; }

  // The role of a packet for the NF.
  enum class Way : uint8_t {
    kOther,        // nothing to the tunnels
    kOut,          // to be sent through `tunnel`
    kIn,           // ESP of `tunnel`, from `esp_offset` on
    kFragment,     // of a packet with ESP for an end of tunnels
    kShort,        // for an end of tunnels, and too short to have an SPI
    kUnknownSpi,   // for an end of tunnels, and of none of them
    kKeepalive,    // of a peer behind a NAT
    kUnprotected,  // should have come through a tunnel
  };
  struct Found {
    Way way = Way::kOther;
    uint32_t tunnel = 0;
    uint32_t esp_offset = 0;
  };
  // A pure function of the packet. Budget: ≤ 20 ns with 8 tunnels.
  Found Find(std::span<const std::byte> frame,
             const ParsedPacket& headers) const;

  // Returns true if the ends may stand in a packet that `tunnel` brought.
  static bool Selects(const VpnTunnel& tunnel, const VpnEnds& inner);

 private:
  absl::StatusOr<VpnTunnel> ParseTunnel(
      std::span<const std::string> words) const;
  std::string WrongWith(const VpnTunnel& tunnel) const;
  std::optional<Found> FindEsp(std::span<const std::byte> frame,
                               const ParsedPacket& headers,
                               const VpnEnds& ends) const;
  bool IsLocal(const VpnEnds& ends, bool with_udp) const;

  std::vector<VpnTunnel> tunnels_;
  std::vector<std::pair<uint32_t, uint32_t>> by_spi_;  // SPI in, tunnel
};

}  // namespace snf

#endif  // SNF_NFS_VPN_TUNNELS_H_
