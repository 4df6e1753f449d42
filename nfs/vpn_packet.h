// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_VPN_PACKET_H_
#define SNF_NFS_VPN_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nfs/esp/esp_cipher.h"
#include "nfs/vpn_tunnels.h"
#include "runtime/sdk/packet.h"

namespace snf {

// ESP in tunnel mode (RFC 4303 §2, RFC 4106 §4): SPI, sequence number and IV;
// then encrypted the inner packet, padding, its length and the next header;
// then the tag.
inline constexpr size_t kEspHeaderBytes = 8 + EspCipher::kIvBytes;
inline constexpr size_t kEspTrailerBytes = 2;  // padding aside
inline constexpr size_t kEspAlignment = 4;

// Returns true if the frame holds the IP packet to its end.
bool IsWholePacket(const Packet& packet);

// Returns the longest inner packet that fits into an outer one of `mtu` bytes.
uint32_t VpnInnerMtu(const VpnTunnel& tunnel, uint32_t mtu);

// The number of a packet of an association, and its IV.
struct VpnNumber {
  uint64_t sequence = 0;  // the first packet has 1
  uint64_t iv = 0;
};

// Puts the packet into the tunnel. Anything but kDone leaves it as it was. The
// outer header has the packet's traffic class (RFC 6040 §4.1), 64 hops, DF, and
// no identification (RFC 6864).
PacketResize Encapsulate(const VpnTunnel& tunnel, const VpnNumber& number,
                         uint32_t mtu, EspCipher& cipher, Packet& packet);

// The data that the tag covers besides the encrypted bytes: with sequence
// numbers of 64 bits, these are whole (RFC 4106 §5).
class EspAssociated {
 public:
  EspAssociated(uint32_t spi, uint64_t sequence, bool has_esn);
  std::span<const std::byte> bytes() const {
    return std::span(bytes_).first(size_);
  }

 private:
  std::array<std::byte, 12> bytes_{};
  size_t size_;
};

// The contents of a decrypted text.
struct EspText {
  bool is_dummy = false;    // to be discarded (RFC 4303 §2.6)
  std::span<std::byte> ip;  // the inner packet, without padding
  VpnEnds ends;
};
// Returns nothing if the text is no padded IP packet.
std::optional<EspText> ReadEspText(std::span<std::byte> text);

// Brings a mark of congestion from the outer packet, `frame` at `headers`, to
// the inner one (RFC 6040 §4.2). Returns false if the inner packet must be
// dropped, since its ends do not know such marks.
bool BringCongestion(std::span<const std::byte> frame,
                     const ParsedPacket& headers, std::span<std::byte> inner);

}  // namespace snf

#endif  // SNF_NFS_VPN_PACKET_H_
