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

// A frame with more headers of one kind in a row than this is hostile or
// broken, and is not parsed further.
inline constexpr int kMaxVlanTags = 4;
inline constexpr int kMaxMplsLabels = 8;
inline constexpr int kMaxIpv6Extensions = 8;

enum class L3 : uint8_t { kNone, kIpv4, kIpv6 };

// The point that the parser reached, and why it went no further. Results up to
// kExtensionNotRead have an IP header. kComplete means that the layer-4 header
// is whole, if the protocol is one whose header is read (TCP, UDP, ICMP,
// ICMPv6).
enum class ParseResult : uint8_t {
  kComplete,
  kLaterFragment,      // a fragment without layer-4 header
  kL4Truncated,        // the bytes end inside the layer-4 header, or before it
  kL4Malformed,        // a TCP data offset below 5
  kTooManyExtensions,  // more than kMaxIpv6Extensions
  kExtensionNotRead,   // another header behind mobility, HIP or shim6
  kNotIp,              // a type that is not known: no IP was found
  kLinkControl,        // ARP, LLDP, STP …, which keep a segment alive
  kLinkTruncated,      // the bytes end inside the link header, tags or labels
  kTooManyTags,        // more than kMaxVlanTags or kMaxMplsLabels
  kIpTruncated,        // the bytes end inside the IP header
  kIpBadVersion,       // the version is not what the link header says
  kIpBadHeaderLength,  // IPv4: below 20 bytes, or above the total length
};
inline constexpr size_t kParseResults = 13;

// Returns "complete", "later_fragment" …, for reports.
std::string_view Name(ParseResult result);

// The kind of a fragment: kFirst has offset 0 and more fragments follow it;
// kLater has another offset. An IPv6 packet with a fragment header, offset 0
// and no more fragments is whole (RFC 6946) and counts as kNone.
enum class Fragment : uint8_t { kNone, kFirst, kLater };

// The places of the headers in a frame. All offsets count from the frame's
// first byte and never point behind its captured end. A plain value, 28 bytes.
struct ParsedPacket {
  // The end of the IP packet as captured: it excludes link-layer padding, and a
  // frame cut by a snap length ends where it was cut.
  uint32_t end_offset = 0;
  uint32_t fragment_id = 0;  // 16 bits in IPv4
  uint16_t fragment_offset_bytes = 0;
  uint16_t l3_offset = 0;       // IP header
  uint16_t l4_offset = 0;       // behind the IP header and its extensions
  uint16_t payload_offset = 0;  // behind the L4 header; else = l4_offset
  // The offset of the IP header quoted in an ICMP error; 0 if none is quoted or
  // it was not captured.
  uint16_t icmp_inner_offset = 0;
  uint16_t outer_vlan : 12 = 0;  // 0: no tag, or one with a priority only
  uint16_t vlan_tags : 4 = 0;
  uint16_t inner_vlan = 0;  // of the second tag
  // If the frame stands for several packets of TCP or UDP, which its sender has
  // left to a network card to cut (GSO): the payload bytes of each packet. Then
  // IP and UDP have the length of the whole frame, and the checksum of TCP or
  // UDP is not complete. 0: a single packet. The parser sets 0, as nothing in
  // the frame tells it; ports set it.
  uint16_t segment_bytes = 0;
  L3 l3 = L3::kNone;
  // The protocol of the header at l4_offset. In a later IPv6 fragment it is the
  // fragment header's next header, which may be an extension header.
  IpProtocol l4_protocol{};
  Fragment fragment = Fragment::kNone;
  ParseResult result = ParseResult::kNotIp;

  bool has_ip() const { return l3 != L3::kNone; }
  uint32_t l4_bytes() const { return end_offset - l4_offset; }
  uint32_t payload_bytes() const { return end_offset - payload_offset; }
  // Returns the number of packets that the frame stands for, at least 1.
  uint32_t packets() const {
    if (segment_bytes == 0 || payload_bytes() == 0) [[likely]]
      return 1;
    return (payload_bytes() + segment_bytes - 1) / segment_bytes;
  }

  friend bool operator==(const ParsedPacket&, const ParsedPacket&) = default;
};
static_assert(sizeof(ParsedPacket) == 28);

// Finds the first IP header of a frame and what stands behind it. VLAN tags,
// PPPoE sessions, MPLS labels and LLC/SNAP are unwrapped; IP tunnels (GRE,
// IP in IP, VXLAN …) are not: their outer header is the packet's.
//
// `frame` holds the captured bytes, which may be fewer than the packet has: no
// length field makes the parser look beyond them. Any bytes are allowed, and
// the result depends on nothing else. Reads no byte outside `frame`.
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

// Parses the packet quoted in an ICMP error, whose `outer.icmp_inner_offset`
// must not be 0. Its layer 4 is usually cut to eight bytes, so the result is
// kL4Truncated although the ports are there.
ParsedPacket ParseInner(std::span<const std::byte> frame,
                        const ParsedPacket& outer);

}  // namespace snf

#endif  // SNF_BASE_PACKET_PACKET_PARSER_H_
