// SPDX-License-Identifier: Apache-2.0
#include "base/packet/packet_parser.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/packet/headers.h"

namespace snf {
namespace {

using Frame = std::span<const std::byte>;
using Byte = const std::byte;

void Stop(ParseResult why, ParsedPacket& packet) { packet.result = why; }

// Offsets fit 16 bits: the link headers are bounded by limits, and eight
// extension headers hold at most 8 × 2,048 bytes.
uint16_t Offset(size_t offset) { return static_cast<uint16_t>(offset); }

// Parses the ICMP header; `bytes` ends where the IP packet does.
void ParseIcmp(Frame bytes, ParsedPacket& packet) {
  const auto icmp =
      IcmpHeader<Byte>::At(bytes, packet.l4_offset, packet.l4_protocol);
  if (!icmp) return Stop(ParseResult::kL4Truncated, packet);
  packet.payload_offset = Offset(packet.l4_offset + IcmpHeader<Byte>::kBytes);
  if (icmp.is_error() && packet.payload_offset < bytes.size()) {
    packet.icmp_inner_offset = packet.payload_offset;
  }
}

void ParseTcp(Frame bytes, ParsedPacket& packet) {
  const size_t offset = packet.l4_offset;
  if (const auto tcp = TcpHeader<Byte>::At(bytes, offset)) {
    packet.payload_offset = Offset(offset + tcp.header_bytes());
    return;
  }
  const bool short_header = packet.l4_bytes() >= TcpHeader<Byte>::kMinBytes &&
                            std::to_integer<int>(bytes[offset + 12]) < 5 << 4;
  Stop(short_header ? ParseResult::kL4Malformed : ParseResult::kL4Truncated,
       packet);
}

void ParseUdp(Frame bytes, ParsedPacket& packet) {
  if (!UdpHeader<Byte>::At(bytes, packet.l4_offset)) {
    return Stop(ParseResult::kL4Truncated, packet);
  }
  packet.payload_offset = Offset(packet.l4_offset + UdpHeader<Byte>::kBytes);
}

// Stops in front of a header that may hide another (IsHostIdentityHeader).
void ParseHostIdentity(Frame bytes, ParsedPacket& packet) {
  const auto header = Ipv6ExtensionHeader<Byte>::At(bytes, packet.l4_offset,
                                                    packet.l4_protocol);
  if (!header) return Stop(ParseResult::kL4Truncated, packet);
  packet.payload_offset = Offset(packet.l4_offset + header.header_bytes());
  if (header.next_header() != IpProtocol::kNoNextHeader) {
    Stop(ParseResult::kExtensionNotRead, packet);
  }
}

void ParseL4(Frame frame, size_t offset, IpProtocol protocol,
             ParsedPacket& packet) {
  packet.l4_offset = Offset(offset);
  packet.payload_offset = packet.l4_offset;
  packet.l4_protocol = protocol;
  packet.result = ParseResult::kComplete;
  if (packet.fragment == Fragment::kLater) {
    return Stop(ParseResult::kLaterFragment, packet);
  }
  const Frame bytes = frame.first(packet.end_offset);
  switch (protocol) {
    case IpProtocol::kTcp:
      return ParseTcp(bytes, packet);
    case IpProtocol::kUdp:
      return ParseUdp(bytes, packet);
    case IpProtocol::kIcmp:
    case IpProtocol::kIcmpv6:
      return ParseIcmp(bytes, packet);
    default:
      if (packet.l3 == L3::kIpv6 && IsHostIdentityHeader(protocol)) {
        ParseHostIdentity(bytes, packet);
      }
  }
}

void SetFragment(uint32_t id, uint16_t offset_bytes, bool more,
                 ParsedPacket& packet) {
  packet.fragment_id = id;
  packet.fragment_offset_bytes = offset_bytes;
  if (offset_bytes != 0) {
    packet.fragment = Fragment::kLater;
  } else if (more) {
    packet.fragment = Fragment::kFirst;
  }
}

// Returns the end of the IP packet at `offset`: that of its length field or
// that of the capture, whichever comes first.
uint32_t End(Frame frame, size_t offset, bool has_length, size_t ip_bytes) {
  const size_t captured = frame.size() - offset;
  return static_cast<uint32_t>(
      offset + (has_length ? std::min(captured, ip_bytes) : captured));
}

void ParseIpv4(Frame frame, size_t offset, ParsedPacket& packet) {
  const auto ip = Ipv4Header<Byte>::At(frame, offset);
  if (!ip) {
    const bool is_short = std::to_integer<int>(frame[offset]) % 16 < 5;
    return Stop(
        is_short ? ParseResult::kIpBadHeaderLength : ParseResult::kIpTruncated,
        packet);
  }
  const size_t header_bytes = ip.header_bytes();
  const size_t total_bytes = ip.total_bytes();
  if (total_bytes != 0 && total_bytes < header_bytes) {
    return Stop(ParseResult::kIpBadHeaderLength, packet);
  }
  packet.l3 = L3::kIpv4;
  packet.l3_offset = Offset(offset);
  packet.end_offset = End(frame, offset, total_bytes != 0, total_bytes);
  SetFragment(ip.id(), ip.fragment_offset_bytes(), ip.more_fragments(), packet);
  ParseL4(frame, offset + header_bytes, ip.protocol(), packet);
}

// Walks the chain from a header of kind `protocol` at `offset` to the first
// that is no extension, or to what is behind the fragment header of a later
// fragment.
void ParseIpv6Chain(Frame frame, size_t offset, IpProtocol protocol,
                    ParsedPacket& packet) {
  const Frame bytes = frame.first(packet.end_offset);
  int headers = 0;
  while (IsIpv6Extension(protocol) && packet.fragment != Fragment::kLater) {
    const auto header = Ipv6ExtensionHeader<Byte>::At(bytes, offset, protocol);
    if (!header || headers++ == kMaxIpv6Extensions) {
      packet.l4_offset = packet.payload_offset = Offset(offset);
      packet.l4_protocol = protocol;
      return Stop(
          header ? ParseResult::kTooManyExtensions : ParseResult::kL4Truncated,
          packet);
    }
    if (protocol == IpProtocol::kFragment) {
      if (const auto part = Ipv6FragmentHeader<Byte>::At(bytes, offset)) {
        SetFragment(part.id(), part.fragment_offset_bytes(),
                    part.more_fragments(), packet);
      }
    }
    protocol = header.next_header();
    offset += header.header_bytes();
  }
  ParseL4(frame, offset, protocol, packet);
}

void ParseIpv6(Frame frame, size_t offset, ParsedPacket& packet) {
  const auto ip = Ipv6Header<Byte>::At(frame, offset);
  if (!ip) return Stop(ParseResult::kIpTruncated, packet);
  constexpr size_t kHeader = Ipv6Header<Byte>::kBytes;
  const size_t payload_bytes = ip.payload_bytes();
  packet.l3 = L3::kIpv6;
  packet.l3_offset = Offset(offset);
  packet.end_offset =
      End(frame, offset, payload_bytes != 0, kHeader + payload_bytes);
  ParseIpv6Chain(frame, offset + kHeader, ip.next_header(), packet);
}

// The place of the IP header and its version, as the link header gives them;
// version kNone leaves the version to the IP header's first nibble.
struct IpPlace {
  size_t offset = 0;
  L3 version = L3::kNone;
};

void ParseIp(Frame frame, IpPlace place, ParsedPacket& packet) {
  if (place.offset >= frame.size()) {
    return Stop(ParseResult::kIpTruncated, packet);
  }
  const int nibble = std::to_integer<int>(frame[place.offset]) >> 4;
  if (nibble == 4 && place.version != L3::kIpv6) {
    return ParseIpv4(frame, place.offset, packet);
  }
  if (nibble == 6 && place.version != L3::kIpv4) {
    return ParseIpv6(frame, place.offset, packet);
  }
  Stop(ParseResult::kIpBadVersion, packet);
}

// The Find… functions walk from `place.offset` through the link layer. They
// return kComplete if they have set `place` to where IP stands.

// Behind the last label stands IP, or a pseudowire, whose first nibble is
// neither 4 nor 6 (RFC 4928).
ParseResult FindBehindMpls(Frame frame, IpPlace& place) {
  for (int labels = 0; labels < kMaxMplsLabels; ++labels) {
    const auto entry = MplsEntry<Byte>::At(frame, place.offset);
    if (!entry) return ParseResult::kLinkTruncated;
    place.offset += MplsEntry<Byte>::kBytes;
    if (!entry.is_bottom()) continue;
    if (place.offset == frame.size()) return ParseResult::kComplete;
    const int nibble = std::to_integer<int>(frame[place.offset]) >> 4;
    return nibble == 4 || nibble == 6 ? ParseResult::kComplete
                                      : ParseResult::kNotIp;
  }
  return ParseResult::kTooManyTags;
}

// `place.offset` is behind the number of the PPP protocol.
ParseResult FindBehindPppProtocol(Frame frame, PppProtocol protocol,
                                  IpPlace& place) {
  switch (protocol) {
    case PppProtocol::kIpv4:
      place.version = L3::kIpv4;
      return ParseResult::kComplete;
    case PppProtocol::kIpv6:
      place.version = L3::kIpv6;
      return ParseResult::kComplete;
    case PppProtocol::kMpls:
      return FindBehindMpls(frame, place);
    default:
      return IsLinkControl(protocol) ? ParseResult::kLinkControl
                                     : ParseResult::kNotIp;
  }
}

ParseResult FindBehindPppoe(Frame frame, IpPlace& place) {
  const auto pppoe = PppoeHeader<Byte>::At(frame, place.offset);
  if (!pppoe) return ParseResult::kLinkTruncated;
  if (!pppoe.is_session_data()) return ParseResult::kNotIp;
  place.offset += PppoeHeader<Byte>::kBytes;
  return FindBehindPppProtocol(frame, pppoe.protocol(), place);
}

// The protocol's number has one byte if its last bit is set (RFC 1661 §6.5).
ParseResult FindBehindPpp(Frame frame, IpPlace& place) {
  constexpr std::byte kAddress{0xff}, kControl{0x03};
  if (frame.size() >= 2 && frame[0] == kAddress && frame[1] == kControl) {
    place.offset = 2;
  }
  const auto byte_at = [&](size_t offset) {
    return std::to_integer<uint16_t>(frame[offset]);
  };
  if (place.offset >= frame.size()) return ParseResult::kLinkTruncated;
  uint16_t protocol = byte_at(place.offset++);
  if ((protocol & 1) == 0) {
    if (place.offset >= frame.size()) return ParseResult::kLinkTruncated;
    protocol = static_cast<uint16_t>(protocol << 8 | byte_at(place.offset++));
  }
  return FindBehindPppProtocol(frame, PppProtocol{protocol}, place);
}

// Walks the attributes to the packet; `frame` shrinks to that attribute.
ParseResult FindBehindNflog(Frame& frame, IpPlace& place) {
  constexpr size_t kMaxAttributesBytes = 4'096;  // offsets have 16 bits
  place.offset = NflogAttribute<Byte>::kFirst;
  while (const auto attribute = NflogAttribute<Byte>::At(frame, place.offset)) {
    if (attribute.is_packet()) {
      frame =
          frame.first(std::min(frame.size(), place.offset + attribute.bytes()));
      place.offset += NflogAttribute<Byte>::kBytes;
      return ParseResult::kComplete;
    }
    place.offset += attribute.padded_bytes();
    if (place.offset > kMaxAttributesBytes) return ParseResult::kTooManyTags;
  }
  return place.offset == frame.size() ? ParseResult::kNotIp
                                      : ParseResult::kLinkTruncated;
}

// Steps over VLAN tags and SNAP, and sets `type` to that of the bytes behind
// them.
ParseResult SkipTags(Frame frame, EtherType& type, IpPlace& place,
                     ParsedPacket& packet) {
  while (IsVlan(type)) {
    if (packet.vlan_tags == kMaxVlanTags) return ParseResult::kTooManyTags;
    const auto tag = VlanTag<Byte>::At(frame, place.offset);
    if (!tag) return ParseResult::kLinkTruncated;
    if (packet.vlan_tags == 0) packet.outer_vlan = tag.id() & 0x0fff;
    if (packet.vlan_tags == 1) packet.inner_vlan = tag.id();
    ++packet.vlan_tags;
    type = tag.type();
    place.offset += VlanTag<Byte>::kBytes;
  }
  if (type < EtherType::kSmallest) {
    const auto snap = SnapHeader<Byte>::At(frame, place.offset);
    if (!snap || !snap.has_type()) {
      const auto llc = LlcHeader<Byte>::At(frame, place.offset);
      return (llc && llc.is_control()) || (snap && snap.is_control())
                 ? ParseResult::kLinkControl
                 : ParseResult::kNotIp;
    }
    type = snap.type();
    place.offset += SnapHeader<Byte>::kBytes;
  }
  return ParseResult::kComplete;
}

ParseResult FindBehindType(Frame frame, EtherType type, IpPlace& place,
                           ParsedPacket& packet) {
  if (IsVlan(type) || type < EtherType::kSmallest) {
    const ParseResult result = SkipTags(frame, type, place, packet);
    if (result != ParseResult::kComplete) return result;
  }
  switch (type) {
    case EtherType::kIpv4:
      place.version = L3::kIpv4;
      return ParseResult::kComplete;
    case EtherType::kIpv6:
      place.version = L3::kIpv6;
      return ParseResult::kComplete;
    case EtherType::kMpls:
    case EtherType::kMplsMulticast:
      return FindBehindMpls(frame, place);
    case EtherType::kPppoeSession:
      return FindBehindPppoe(frame, place);
    default:
      return IsLinkControl(type) ? ParseResult::kLinkControl
                                 : ParseResult::kNotIp;
  }
}

// Finds IP behind a link header that carries an Ethernet type.
template <typename Header>
ParseResult FindBehind(Frame frame, IpPlace& place, ParsedPacket& packet) {
  const auto header = Header::At(frame, 0);
  if (!header) return ParseResult::kLinkTruncated;
  place.offset = Header::kBytes;
  return FindBehindType(frame, header.type(), place, packet);
}

ParseResult FindBehindLoopback(Frame frame, IpPlace& place) {
  const auto header = LoopbackHeader<Byte>::At(frame, 0);
  if (!header) return ParseResult::kLinkTruncated;
  place.offset = LoopbackHeader<Byte>::kBytes;
  if (header.is_ipv4()) {
    place.version = L3::kIpv4;
  } else if (header.is_ipv6()) {
    place.version = L3::kIpv6;
  } else {
    return ParseResult::kNotIp;
  }
  return ParseResult::kComplete;
}

// Link headers that say where the packet ends shorten `frame`.
ParseResult FindIp(LinkType link, Frame& frame, IpPlace& place,
                   ParsedPacket& packet) {
  switch (link) {
    case LinkType::kEthernet:
      return FindBehind<EthernetHeader<Byte>>(frame, place, packet);
    case LinkType::kRawIp:
      return ParseResult::kComplete;
    case LinkType::kLinuxSll:
      return FindBehind<LinuxSllHeader<Byte>>(frame, place, packet);
    case LinkType::kLinuxSll2:
      return FindBehind<LinuxSll2Header<Byte>>(frame, place, packet);
    case LinkType::kNull:
    case LinkType::kLoop:
      return FindBehindLoopback(frame, place);
    case LinkType::kPpp:
      return FindBehindPpp(frame, place);
    case LinkType::kNflog:
      return FindBehindNflog(frame, place);
  }
  return ParseResult::kNotIp;
}

}  // namespace

void Parse(LinkType link, std::span<const std::byte> frame,
           ParsedPacket& packet) {
  std::construct_at(&packet);
  IpPlace place;
  const ParseResult result = FindIp(link, frame, place, packet);
  if (result != ParseResult::kComplete) return Stop(result, packet);
  ParseIp(frame, place, packet);
}

ParsedPacket ParseInner(std::span<const std::byte> frame,
                        const ParsedPacket& outer) {
  ParsedPacket inner;
  inner.outer_vlan = outer.outer_vlan;
  inner.inner_vlan = outer.inner_vlan;
  inner.vlan_tags = outer.vlan_tags;
  ParseIp(frame.first(outer.end_offset), {.offset = outer.icmp_inner_offset},
          inner);
  return inner;
}

std::string_view Name(ParseResult result) {
  constexpr std::array<std::string_view, kParseResults> kNames = {
      "complete",
      "later_fragment",
      "l4_truncated",
      "l4_malformed",
      "too_many_extensions",
      "extension_not_read",
      "not_ip",
      "link_control",
      "link_truncated",
      "too_many_tags",
      "ip_truncated",
      "ip_bad_version",
      "ip_bad_header_length"};
  return kNames[static_cast<size_t>(result)];
}

}  // namespace snf
