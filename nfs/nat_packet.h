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

// Why a packet is not translated.
enum class NatDrop : uint8_t {
  kNone,
  kNotIpv4,
  kProtocol,        // neither TCP, UDP nor ICMP
  kTruncated,       // it ends inside the header of layer 4
  kMalformed,       // a TCP data offset below 5
  kIcmpType,        // neither query nor error, or an outdated one
  kIcmpChecksum,    // of an error, or of the IP header that it quotes
  kQuotedNotOurs,   // an error about a packet that its mapping did not send
  kSideUnknown,     // neither from the inside nor from the outside
  kFromExternal,    // from the inside, with an external address as its source
  kNoMapping,       // and it cannot make one, or came to another's address
  kMappingExpired,  // from the outside, to a mapping that is over
  kFiltered,        // from the outside, from one who may not
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

// One end of a packet. Of ICMP queries the port is the identifier at both ends,
// of later fragments it is 0.
struct NatEnd {
  be32 address;
  be16 port;
  friend bool operator==(const NatEnd&, const NatEnd&) = default;
};

// What a NAT looks at in a packet.
struct NatView {
  NatEnd source;
  NatEnd destination;
  IpProtocol protocol{};
  uint8_t tcp_flags = 0;
  bool is_later_fragment = false;
  bool is_icmp_request = false;
  // Of an ICMP error only addresses are in the view.
  bool is_icmp_error = false;

  bool is_reset() const {
    return (tcp_flags & TcpHeader<const std::byte>::kRst) != 0;
  }
};

// What was cut off by the capture's snap length is taken as right, so long as
// ports, TCP flags and the eight bytes of ICMP are there; what the sender cut
// off is not. Budget: ≤ 10 ns.
NatDrop ReadPacket(const Packet& packet, NatView& view);

// The packet that an ICMP error quotes, if it is one of TCP, UDP or an ICMP
// query of which the ends can be told, in an error whose checksums are right
// where they can be verified (RFC 5508 REQ-3).
NatDrop ReadQuoted(const Packet& packet, NatView& quoted);

// An ICMP error to the source of a packet that lies in `frame`: "destination
// unreachable, communication administratively prohibited" (RFC 5508 REQ-8),
// framed like it and of its diffserv class (RFC 5508 §7.7), with as much of it
// as 576 bytes hold (RFC 1812 §4.3.2.3).
// Empty where there must be no answer (RFC 1812 §4.3.2.7), or where the link
// header is one that cannot be turned around. Valid as long as this object.
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
