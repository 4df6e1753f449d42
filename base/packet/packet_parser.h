// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_PACKET_PARSER_H_
#define SNF_BASE_PACKET_PACKET_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/packet/link_type.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// More than this many headers of one kind in a row is somebody's test of us.
inline constexpr int kMaxVlanTags = 4;
inline constexpr int kMaxMplsLabels = 8;
inline constexpr int kMaxIpv6Extensions = 8;

enum class L3 : uint8_t { kNone, kIpv4, kIpv6 };

// How far the parser came, and why no further. Up to kTooManyExtensions there
// is an IP header; only kComplete has a whole layer-4 header where the protocol
// is one whose header is read (TCP, UDP, ICMP, ICMPv6).
enum class ParseResult : uint8_t {
  kComplete,
  kLaterFragment,      // a fragment without layer-4 header
  kL4Truncated,        // the bytes end inside the layer-4 header, or before it
  kL4Malformed,        // a TCP data offset below 5
  kTooManyExtensions,  // more than kMaxIpv6Extensions
  kNotIp,              // ARP, LLDP, …: no IP in this frame
  kLinkTruncated,      // the bytes end inside the link header, tags or labels
  kTooManyTags,        // more than kMaxVlanTags or kMaxMplsLabels
  kIpTruncated,        // the bytes end inside the IP header
  kIpBadVersion,       // the version is not what the link header says
  kIpBadHeaderLength,  // IPv4: below 20 bytes, or above the total length
};
inline constexpr size_t kParseResults = 11;

// "complete", "later_fragment" …: for reports.
std::string_view Name(ParseResult result);

// kFirst has offset 0 and more to come; kLater has an offset. An IPv6 packet
// with a fragment header and nothing more to come is whole (RFC 6946): kNone.
enum class Fragment : uint8_t { kNone, kFirst, kLater };

// Where things stand in a frame. All offsets count from the frame's first byte
// and never point behind its captured end. A plain value, 28 bytes.
struct ParsedPacket {
  // End of the IP packet as captured: link-layer padding is not in it, and a
  // frame cut by a snap length ends where it was cut.
  uint32_t end_offset = 0;
  uint32_t fragment_id = 0;  // 16 bits in IPv4
  uint16_t fragment_offset_bytes = 0;
  uint16_t l3_offset = 0;       // IP header
  uint16_t l4_offset = 0;       // behind the IP header and its extensions
  uint16_t payload_offset = 0;  // behind the L4 header; else = l4_offset
  // The IP header quoted in an ICMP error; 0: none (or none captured).
  uint16_t icmp_inner_offset = 0;
  uint16_t outer_vlan = 0;  // 0: no tag, or one with a priority only
  uint16_t inner_vlan = 0;  // of the second tag
  uint8_t vlan_tags = 0;
  L3 l3 = L3::kNone;
  // Of the header at l4_offset. In a later IPv6 fragment the fragment header's
  // next header, which may be an extension header.
  IpProtocol l4_protocol{};
  Fragment fragment = Fragment::kNone;
  ParseResult result = ParseResult::kNotIp;

  bool has_ip() const { return l3 != L3::kNone; }
  uint32_t l4_bytes() const { return end_offset - l4_offset; }
  uint32_t payload_bytes() const { return end_offset - payload_offset; }

  friend bool operator==(const ParsedPacket&, const ParsedPacket&) = default;
};
static_assert(sizeof(ParsedPacket) == 28);

// Finds the first IP header of a frame and what stands behind it. VLAN tags,
// PPPoE sessions, MPLS labels and LLC/SNAP are unwrapped; IP tunnels (GRE,
// IP in IP, VXLAN …) are not: their outer header is the packet's.
//
// `frame` is what was captured, which may be less than the packet: nothing is
// taken from a length field that the bytes do not hold. Any bytes are allowed;
// the answer depends on nothing else. Reads no byte outside `frame`.
//
// IPv4 with a total length of 0 and IPv6 with a payload length of 0 (segments
// captured before the card cut them, jumbograms) reach to the frame's end.
// Budget: ≤ 10 ns for Ethernet, IPv4, TCP; no allocation.
void Parse(LinkType link, std::span<const std::byte> frame,
           ParsedPacket& packet);

inline ParsedPacket Parse(LinkType link, std::span<const std::byte> frame) {
  ParsedPacket packet;
  Parse(link, frame, packet);
  return packet;
}

// The packet quoted in an ICMP error, `outer.icmp_inner_offset` being not 0.
// Its layer 4 is as a rule cut to eight bytes: kL4Truncated, with ports.
ParsedPacket ParseInner(std::span<const std::byte> frame,
                        const ParsedPacket& outer);

}  // namespace snf

#endif  // SNF_BASE_PACKET_PACKET_PARSER_H_
