// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_PACKET_H_
#define SNF_NFS_NAT_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/answers/answers.h"
#include "base/byte_order.h"
#include "base/packet/l4_headers.h"
#include "base/packet/packet_parser.h"
#include "base/packet/protocol_numbers.h"
#include "runtime/sdk/packet.h"

namespace snf {

// The reason for which a packet is not translated.
enum class NatDrop : uint8_t {
  kNone,
  kNotIpv4,
  kProtocol,        // neither TCP, UDP nor ICMP
  kTruncated,       // ends inside the header of layer 4
  kMalformed,       // a TCP data offset below 5
  kNotUnicast,      // to a broadcast or multicast address, or in such a frame
  kMartian,         // an end that is no host's address, or sent to itself
  kIcmpType,        // neither query nor error, or an outdated one
  kIcmpChecksum,    // wrong in an error, or in the IP header that it quotes
  kQuotedNotOurs,   // an error about a packet that its mapping did not send
  kSideUnknown,     // neither from the inside nor from the outside
  kFromExternal,    // from the inside, with an external address as its source
  kNoMapping,       // there is none for it, and it cannot make one
  kMappingExpired,  // from the outside, to a mapping that is over
  kFiltered,        // from an outside endpoint that the mapping does not admit
  kPortsExhausted,
  kNoCounterpart,  // NAT64: there is no such packet in the other version
  kTooLong,        // NAT64: it would be longer than the MTU
  kNotSubscriber,  // with port_block, from an inside address without a block
  kCount,
};
inline constexpr std::array<std::string_view,
                            static_cast<size_t>(NatDrop::kCount)>
    kNatDropNames = {"none",
                     "not_ipv4",
                     "protocol_not_translated",
                     "l4_truncated",
                     "l4_malformed",
                     "not_unicast",
                     "martian_address",
                     "icmp_type",
                     "icmp_checksum",
                     "quoted_not_ours",
                     "side_unknown",
                     "source_is_external",
                     "no_mapping",
                     "mapping_expired",
                     "filtered",
                     "ports_exhausted",
                     "no_counterpart",
                     "too_long",
                     "not_subscriber"};

// One end of a packet. In ICMP queries the port is the identifier at both ends,
// in later fragments it is 0.
struct NatEnd {
  be32 address;
  be16 port;
  friend bool operator==(const NatEnd&, const NatEnd&) = default;
};

// The fields of a packet that a NAT looks at.
struct NatView {
  NatEnd source;
  NatEnd destination;
  IpProtocol protocol{};
  uint8_t tcp_flags = 0;
  bool is_later_fragment = false;
  bool is_icmp_request = false;
  // If true, only the addresses of the ICMP error are in the view.
  bool is_icmp_error = false;

  bool is_reset() const {
    return (tcp_flags & TcpHeader<const std::byte>::kRst) != 0;
  }
};

// Fills in the view of a packet, or returns why it is not translated. Bytes cut
// off by the capture's snap length are taken as correct, as long as ports, TCP
// flags and the eight bytes of ICMP are there; a packet cut off by its sender
// is refused. Budget: ≤ 10 ns.
NatDrop ReadPacket(const Packet& packet, NatView& view);

// The part of ReadPacket behind the addresses, for IPv4 and IPv6: `view` has
// addresses and protocol, and kIcmp as the protocol of ICMPv6.
NatDrop ReadLayer4(const Packet& packet, NatView& view);

// Fills in the view of the packet that an ICMP error quotes, or returns why the
// error is not translated. The quoted packet must be of TCP, UDP or an ICMP
// query and show its ends, and the error's checksums must be correct where they
// can be verified (RFC 5508 REQ-3).
NatDrop ReadQuoted(const Packet& packet, NatView& quoted);

}  // namespace snf

#endif  // SNF_NFS_NAT_PACKET_H_
