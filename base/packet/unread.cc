// SPDX-License-Identifier: Apache-2.0
#include "base/packet/unread.h"

#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = const std::byte;

// RFC 1858 §3: fragment offset 1, in units of 8 bytes, is in TCP's flags.
constexpr uint16_t kTcpFlagsOffset = 8;

// Layer 4 was reached, or its bytes ended.
Unread UnreadOfLayer4(const ParsedPacket& packet) {
  constexpr uint32_t kPortsBytes = 4;
  const IpProtocol protocol = packet.l4_protocol;
  const bool is_in_chain =
      packet.l3 == L3::kIpv6 &&
      (IsIpv6Extension(protocol) || IsHostIdentityHeader(protocol));
  const bool is_cut = packet.result == ParseResult::kL4Truncated;
  const bool has_none = (HasPorts(protocol) || IsIcmp(protocol)) &&
                        packet.l4_bytes() < kPortsBytes;
  const bool continues = packet.fragment == Fragment::kFirst;
  return has_none || (is_cut && (is_in_chain || continues))
             ? Unread::kUpperHeader
             : Unread::kNothing;
}

}  // namespace

Unread UnreadOf(const ParsedPacket& packet) {
  switch (packet.result) {
    case ParseResult::kLinkControl:
      return Unread::kNothing;
    case ParseResult::kNotIp:
      return Unread::kType;
    case ParseResult::kLinkTruncated:
    case ParseResult::kTooManyTags:
      return Unread::kLink;
    case ParseResult::kIpTruncated:
    case ParseResult::kIpBadVersion:
    case ParseResult::kIpBadHeaderLength:
      return Unread::kIp;
    case ParseResult::kTooManyExtensions:
      return Unread::kTooManyExtensions;
    case ParseResult::kExtensionNotRead:
      return Unread::kExtension;
    case ParseResult::kLaterFragment:
      return packet.l4_protocol == IpProtocol::kTcp &&
                     packet.fragment_offset_bytes == kTcpFlagsOffset
                 ? Unread::kOverlap
                 : Unread::kNothing;
    case ParseResult::kComplete:
    case ParseResult::kL4Truncated:
    case ParseResult::kL4Malformed:
      return UnreadOfLayer4(packet);
  }
  return Unread::kType;
}

bool IsNeighbourDiscovery(std::span<const std::byte> frame,
                          const ParsedPacket& packet) {
  constexpr uint8_t kNotForwarded = 255, kFirst = 133, kLast = 136;
  if (packet.l4_protocol != IpProtocol::kIcmpv6 || packet.l3 != L3::kIpv6 ||
      packet.result != ParseResult::kComplete ||
      packet.l4_offset != packet.l3_offset + Ipv6Header<Byte>::kBytes) {
    return false;
  }
  const auto ip = Ipv6Header<Byte>::At(frame, packet.l3_offset);
  const auto icmp =
      IcmpHeader<Byte>::At(frame, packet.l4_offset, packet.l4_protocol);
  return ip && icmp && ip.hop_limit() == kNotForwarded &&
         icmp.type() >= kFirst && icmp.type() <= kLast && icmp.code() == 0;
}

}  // namespace snf
