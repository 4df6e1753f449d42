// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_PACKET_H_
#define SNF_NFS_NAT_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.h"
#include "base/packet/l4_headers.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_parser.h"
#include "base/packet/protocol_numbers.h"
#include "runtime/sdk/packet.h"

namespace snf {

// Tells why a packet is not translated.
enum class NatDrop : uint8_t {
  kNone,
  kNotIpv4,
  kProtocol,        // neither TCP, UDP nor ICMP
  kTruncated,       // it ends within the header of layer 4
  kMalformed,       // a TCP data offset below 5
  kIcmpType,        // neither query nor error, or an outdated one
  kIcmpChecksum,    // wrong in an error, or in the IP header that it quotes
  kQuotedNotOurs,   // an error about a packet that its mapping did not send
  kSideUnknown,     // it comes from neither the inside nor the outside
  kFromExternal,    // it comes from inside with an external source address
  kNoMapping,       // it has none and makes none, or it came to another's
  kMappingExpired,  // it comes from outside, to a mapping that is over
  kFiltered,        // it comes from outside, and the filter refuses it
  kPortsExhausted,
  kCount,
};
inline constexpr std::array<std::string_view,
                            static_cast<size_t>(NatDrop::kCount)>
    kNatDropNames = {"none",
                     "not_ipv4",
                     "protocol_not_translated",
                     "l4_truncated",
                     "l4_malformed",
                     "icmp_type",
                     "icmp_checksum",
                     "quoted_not_ours",
                     "side_unknown",
                     "source_is_external",
                     "no_mapping",
                     "mapping_expired",
                     "filtered",
                     "ports_exhausted"};

// Names one end of a packet. The port of an ICMP query is its identifier, at
// both ends; the port of a later fragment is 0.
struct NatEnd {
  be32 address;
  be16 port;
  friend bool operator==(const NatEnd&, const NatEnd&) = default;
};

// Holds what a NAT looks at in a packet.
struct NatView {
  NatEnd source;
  NatEnd destination;
  IpProtocol protocol{};
  uint8_t tcp_flags = 0;
  bool is_later_fragment = false;
  bool is_icmp_request = false;
  bool is_icmp_error = false;  // then the view has addresses alone

  bool is_reset() const {
    return (tcp_flags & TcpHeader<const std::byte>::kRst) != 0;
  }
};

// Reads a packet into `view`, or returns why it cannot be translated. Bytes
// beyond the capture's snap length are taken as right if the ports, the TCP
// flags or the eight bytes of ICMP were captured; a packet that its sender cut
// off is refused. Budget: ≤ 10 ns.
NatDrop ReadPacket(const Packet& packet, NatView& view);

// Reads the packet that an ICMP error quotes into `quoted`, or returns why not.
// It must be of TCP or UDP, or an ICMP query, with both ends readable, and the
// error's checksums must be right as far as they can be verified (RFC 5508
// REQ-3).
NatDrop ReadQuoted(const Packet& packet, NatView& quoted);

// Builds an ICMP error to the source of a packet that lies in `frame`:
// "destination unreachable, communication administratively prohibited" (RFC
// 5508 REQ-8). It is framed like the packet, has its diffserv class (RFC 5508
// §7.7), and quotes as much of it as 576 bytes hold (RFC 1812 §4.3.2.3).
// frame() is empty if there must be no answer (RFC 1812 §4.3.2.7) or if the
// link header cannot be turned around; it is valid as long as this object.
class NatRefusal {
 public:
  NatRefusal(LinkType link, std::span<const std::byte> frame,
             const ParsedPacket& headers, be32 source);
  std::span<const std::byte> frame() const {
    return std::span(bytes_).first(size_);
  }

 private:
  static constexpr size_t kMaxLinkBytes = 36;
  static constexpr size_t kMaxIpBytes = 576;
  std::array<std::byte, kMaxLinkBytes + kMaxIpBytes> bytes_;
  size_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_NFS_NAT_PACKET_H_
