// SPDX-License-Identifier: Apache-2.0
#include "base/packet_parser.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/headers.h"

namespace snf {
namespace {

using Frame = std::span<const std::byte>;
using Byte = const std::byte;

void Stop(ParseResult why, ParsedPacket& packet) { packet.result = why; }

// Offsets fit 16 bits: the link headers are bounded by the limits above, and
// eight extension headers hold at most 8 × 2,048 bytes.
uint16_t Offset(size_t offset) { return static_cast<uint16_t>(offset); }

// `bytes` ends where the IP packet does.
void ParseIcmp(Frame bytes, ParsedPacket& packet) {
  const auto icmp =
      IcmpHeader<Byte>::At(bytes, packet.l4_offset, packet.l4_protocol);
  if (!icmp) return Stop(ParseResult::kL4Truncated, packet);
  packet.payload_offset = Offset(packet.l4_offset + IcmpHeader<Byte>::kBytes);
  if (icmp->is_error() && packet.payload_offset < bytes.size()) {
    packet.icmp_inner_offset = packet.payload_offset;
  }
}

void ParseTcp(Frame bytes, ParsedPacket& packet) {
  const size_t offset = packet.l4_offset;
  if (const auto tcp = TcpHeader<Byte>::At(bytes, offset)) {
    packet.payload_offset = Offset(offset + tcp->header_bytes());
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
      return;
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

// Sets where the IP packet ends: where its length says, or the capture.
void SetEnd(Frame frame, size_t ip_offset, size_t ip_bytes, bool has_length,
            ParsedPacket& packet) {
  const size_t captured = frame.size() - ip_offset;
  packet.end_offset = static_cast<uint32_t>(
      ip_offset + (has_length ? std::min(captured, ip_bytes) : captured));
}

void ParseIpv4(Frame frame, size_t offset, ParsedPacket& packet) {
  if (offset >= frame.size()) return Stop(ParseResult::kIpTruncated, packet);
  const int first = std::to_integer<int>(frame[offset]);
  if (first >> 4 != 4) return Stop(ParseResult::kIpBadVersion, packet);
  if ((first & 15) < 5) return Stop(ParseResult::kIpBadHeaderLength, packet);
  const auto ip = Ipv4Header<Byte>::At(frame, offset);
  if (!ip) return Stop(ParseResult::kIpTruncated, packet);
  const bool has_length = ip->total_bytes() != 0;
  if (has_length && ip->total_bytes() < ip->header_bytes()) {
    return Stop(ParseResult::kIpBadHeaderLength, packet);
  }
  packet.l3 = L3::kIpv4;
  packet.l3_offset = Offset(offset);
  SetEnd(frame, offset, ip->total_bytes(), has_length, packet);
  SetFragment(ip->id(), ip->fragment_offset_bytes(), ip->more_fragments(),
              packet);
  ParseL4(frame, offset + ip->header_bytes(), ip->protocol(), packet);
}

// Walks the chain from a header of kind `protocol` at `offset` to the first
// that is no extension, or to the fragment header of a later fragment.
void ParseIpv6Chain(Frame frame, size_t offset, IpProtocol protocol,
                    ParsedPacket& packet) {
  const Frame bytes = frame.first(packet.end_offset);
  ParseResult stop = ParseResult::kTooManyExtensions;
  for (int headers = 0; headers <= kMaxIpv6Extensions; ++headers) {
    if (!IsIpv6Extension(protocol) || packet.fragment == Fragment::kLater) {
      return ParseL4(frame, offset, protocol, packet);
    }
    if (headers == kMaxIpv6Extensions) break;
    if (protocol == IpProtocol::kFragment) {
      const auto header = Ipv6FragmentHeader<Byte>::At(bytes, offset);
      if (!header) {
        stop = ParseResult::kL4Truncated;
        break;
      }
      SetFragment(header->id(), header->fragment_offset_bytes(),
                  header->more_fragments(), packet);
      protocol = header->next_header();
      offset += Ipv6FragmentHeader<Byte>::kBytes;
    } else {
      const auto header =
          Ipv6ExtensionHeader<Byte>::At(bytes, offset, protocol);
      if (!header) {
        stop = ParseResult::kL4Truncated;
        break;
      }
      protocol = header->next_header();
      offset += header->header_bytes();
    }
  }
  packet.l4_offset = Offset(offset);
  packet.payload_offset = packet.l4_offset;
  packet.l4_protocol = protocol;
  Stop(stop, packet);
}

void ParseIpv6(Frame frame, size_t offset, ParsedPacket& packet) {
  if (offset >= frame.size()) return Stop(ParseResult::kIpTruncated, packet);
  if (std::to_integer<int>(frame[offset]) >> 4 != 6) {
    return Stop(ParseResult::kIpBadVersion, packet);
  }
  const auto ip = Ipv6Header<Byte>::At(frame, offset);
  if (!ip) return Stop(ParseResult::kIpTruncated, packet);
  constexpr size_t kHeader = Ipv6Header<Byte>::kBytes;
  packet.l3 = L3::kIpv6;
  packet.l3_offset = Offset(offset);
  SetEnd(frame, offset, kHeader + ip->payload_bytes(), ip->payload_bytes() != 0,
         packet);
  ParseIpv6Chain(frame, offset + kHeader, ip->next_header(), packet);
}

// Raw IP, MPLS, quoted packets: the version nibble alone tells which it is.
void ParseIpByVersion(Frame frame, size_t offset, ParseResult otherwise,
                      ParsedPacket& packet) {
  if (offset >= frame.size()) return Stop(ParseResult::kIpTruncated, packet);
  switch (std::to_integer<int>(frame[offset]) >> 4) {
    case 4:
      return ParseIpv4(frame, offset, packet);
    case 6:
      return ParseIpv6(frame, offset, packet);
    default:
      return Stop(otherwise, packet);
  }
}

// Behind the last label stands IP, or a pseudowire, whose first nibble is
// neither 4 nor 6 (RFC 4928).
void ParseMpls(Frame frame, size_t offset, ParsedPacket& packet) {
  for (int labels = 0; labels < kMaxMplsLabels; ++labels) {
    const auto entry = MplsEntry<Byte>::At(frame, offset);
    if (!entry) return Stop(ParseResult::kLinkTruncated, packet);
    offset += MplsEntry<Byte>::kBytes;
    if (entry->is_bottom()) {
      return ParseIpByVersion(frame, offset, ParseResult::kNotIp, packet);
    }
  }
  Stop(ParseResult::kTooManyTags, packet);
}

void ParsePppoe(Frame frame, size_t offset, ParsedPacket& packet) {
  const auto pppoe = PppoeHeader<Byte>::At(frame, offset);
  if (!pppoe) return Stop(ParseResult::kLinkTruncated, packet);
  if (!pppoe->is_session_data()) return Stop(ParseResult::kNotIp, packet);
  offset += PppoeHeader<Byte>::kBytes;
  switch (pppoe->protocol()) {
    case PppProtocol::kIpv4:
      return ParseIpv4(frame, offset, packet);
    case PppProtocol::kIpv6:
      return ParseIpv6(frame, offset, packet);
    case PppProtocol::kMpls:
      return ParseMpls(frame, offset, packet);
    default:
      return Stop(ParseResult::kNotIp, packet);
  }
}

// What stands at `offset`, behind an Ethernet type (or an 802.3 length) that is
// no VLAN tag's.
void ParseEtherType(Frame frame, size_t offset, EtherType type,
                    ParsedPacket& packet) {
  switch (type) {
    case EtherType::kIpv4:
      return ParseIpv4(frame, offset, packet);
    case EtherType::kIpv6:
      return ParseIpv6(frame, offset, packet);
    case EtherType::kMpls:
    case EtherType::kMplsMulticast:
      return ParseMpls(frame, offset, packet);
    case EtherType::kPppoeSession:
      return ParsePppoe(frame, offset, packet);
    default:
      return Stop(ParseResult::kNotIp, packet);
  }
}

void ParseTagged(Frame frame, size_t offset, EtherType type,
                 ParsedPacket& packet) {
  while (IsVlan(type)) {
    if (packet.vlan_tags == kMaxVlanTags) {
      return Stop(ParseResult::kTooManyTags, packet);
    }
    const auto tag = VlanTag<Byte>::At(frame, offset);
    if (!tag) return Stop(ParseResult::kLinkTruncated, packet);
    if (packet.vlan_tags == 0) packet.outer_vlan = tag->id();
    if (packet.vlan_tags == 1) packet.inner_vlan = tag->id();
    ++packet.vlan_tags;
    type = tag->type();
    offset += VlanTag<Byte>::kBytes;
  }
  if (type < EtherType::kSmallest) {
    const auto snap = SnapHeader<Byte>::At(frame, offset);
    if (!snap || !snap->has_type()) return Stop(ParseResult::kNotIp, packet);
    type = snap->type();
    offset += SnapHeader<Byte>::kBytes;
  }
  ParseEtherType(frame, offset, type, packet);
}

// The four link types that carry an Ethernet type differ in where it stands.
template <typename Header>
void ParseTyped(Frame frame, ParsedPacket& packet) {
  const auto header = Header::At(frame, 0);
  if (!header) return Stop(ParseResult::kLinkTruncated, packet);
  ParseTagged(frame, Header::kBytes, header->type(), packet);
}

void ParseLoopback(Frame frame, ParsedPacket& packet) {
  const auto header = LoopbackHeader<Byte>::At(frame, 0);
  if (!header) return Stop(ParseResult::kLinkTruncated, packet);
  constexpr size_t kHeader = LoopbackHeader<Byte>::kBytes;
  if (header->is_ipv4()) return ParseIpv4(frame, kHeader, packet);
  if (header->is_ipv6()) return ParseIpv6(frame, kHeader, packet);
  Stop(ParseResult::kNotIp, packet);
}

}  // namespace

ParsedPacket Parse(LinkType link, std::span<const std::byte> frame) {
  ParsedPacket packet;
  switch (link) {
    case LinkType::kEthernet:
      ParseTyped<EthernetHeader<Byte>>(frame, packet);
      break;
    case LinkType::kRawIp:
      ParseIpByVersion(frame, 0, ParseResult::kIpBadVersion, packet);
      break;
    case LinkType::kLinuxSll:
      ParseTyped<LinuxSllHeader<Byte>>(frame, packet);
      break;
    case LinkType::kLinuxSll2:
      ParseTyped<LinuxSll2Header<Byte>>(frame, packet);
      break;
    case LinkType::kNull:
    case LinkType::kLoop:
      ParseLoopback(frame, packet);
      break;
  }
  return packet;
}

ParsedPacket ParseInner(std::span<const std::byte> frame,
                        const ParsedPacket& outer) {
  ParsedPacket inner;
  inner.outer_vlan = outer.outer_vlan;
  inner.inner_vlan = outer.inner_vlan;
  inner.vlan_tags = outer.vlan_tags;
  ParseIpByVersion(frame.first(outer.end_offset), outer.icmp_inner_offset,
                   ParseResult::kIpBadVersion, inner);
  return inner;
}

std::string_view Name(ParseResult result) {
  constexpr std::array<std::string_view, kParseResults> kNames = {
      "complete",       "later_fragment",      "l4_truncated",
      "l4_malformed",   "too_many_extensions", "not_ip",
      "link_truncated", "too_many_tags",       "ip_truncated",
      "ip_bad_version", "ip_bad_header_length"};
  return kNames[static_cast<size_t>(result)];
}

}  // namespace snf
