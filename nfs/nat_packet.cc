// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_packet.h"

#include <algorithm>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;
using Byte = const std::byte;

Bytes L4(Bytes frame, const ParsedPacket& headers) {
  return frame.subspan(headers.l4_offset, headers.l4_bytes());
}

void ReadAddresses(Bytes frame, const ParsedPacket& headers, NatView& view) {
  const auto ip = Ipv4Header<Byte>::At(frame, headers.l3_offset);
  view.source.address = ip.source();
  view.destination.address = ip.destination();
  view.protocol = headers.l4_protocol;
}

bool IsBroadcastFrame(const Packet& packet) {
  constexpr size_t kAddressBytes = 6;
  return packet.link() == LinkType::kEthernet &&
         std::ranges::all_of(
             packet.bytes().first(kAddressBytes),
             [](std::byte byte) { return byte == std::byte{0xff}; });
}

// Returns why a router must not forward between these ends (RFC 1812 §4.2.3.1,
// §5.3.4, §5.3.5, §5.3.7). The broadcast address of a network is not known, but
// its packets come in broadcast frames.
NatDrop CheckEnds(const Packet& packet, const NatView& view) {
  constexpr uint32_t kLimitedBroadcast = 0xffff'ffff;
  constexpr uint32_t kMulticast = 0xe;  // the first four bits
  const be32 to = view.destination.address;
  if (to.host() == kLimitedBroadcast || to.host() >> 28 == kMulticast ||
      IsBroadcastFrame(packet)) {
    return NatDrop::kNotUnicast;
  }
  if (!IsHostAddress(view.source.address) || !IsHostAddress(to)) {
    return NatDrop::kMartian;
  }
  // From the outside it may be hairpinned, between two external ends.
  const bool is_own =
      view.source.address == to && packet.side() == Side::kInside;
  return is_own ? NatDrop::kMartian : NatDrop::kNone;
}

// Reads the ports of TCP and UDP, or the identifier of a query of ICMP or
// ICMPv6. Returns false if they are not there.
bool ReadPorts(Bytes l4, IpProtocol protocol, NatView& view) {
  if (IsIcmp(protocol)) {
    const auto icmp = IcmpHeader<Byte>::At(l4, 0, protocol);
    if (!icmp || !icmp.is_query()) return false;
    view.source.port = view.destination.port = icmp.identifier();
    // Echo, timestamp, address mask, extended echo; echo, extended echo.
    const uint8_t type = icmp.type();
    view.is_icmp_request =
        protocol == IpProtocol::kIcmp
            ? type == 8 || type == 13 || type == 17 || type == 42
            : type == 128 || type == 160;
    return true;
  }
  const auto ports = PortsView<Byte>::At(l4, 0);
  if (!ports) return false;
  view.source.port = ports.source_port();
  view.destination.port = ports.destination_port();
  return true;
}

// Returns true for source quench, information request and reply (RFC 5508
// REQ-10c).
bool IsOutdated(uint8_t icmp_type) {
  return icmp_type == 4 || icmp_type == 15 || icmp_type == 16;
}

bool IsTranslated(IpProtocol protocol) {
  return protocol == IpProtocol::kTcp || protocol == IpProtocol::kUdp ||
         protocol == IpProtocol::kIcmp;
}

// Returns true if the checksum of the ICMP message is correct, or cannot be
// verified because the message is not whole.
bool HasGoodIcmpChecksum(Bytes frame, const ParsedPacket& headers) {
  const auto ip = Ipv4Header<Byte>::At(frame, headers.l3_offset);
  const bool is_whole =
      headers.fragment == Fragment::kNone &&
      headers.end_offset - headers.l3_offset == uint32_t{ip.total_bytes()};
  return !is_whole || InternetChecksum(L4(frame, headers)) == be16(0);
}

}  // namespace

NatDrop ReadPacket(const Packet& packet, NatView& view) {
  const ParsedPacket& headers = packet.headers();
  const Bytes frame = packet.bytes();
  if (headers.l3 != L3::kIpv4) return NatDrop::kNotIpv4;
  ReadAddresses(frame, headers, view);
  if (const NatDrop drop = CheckEnds(packet, view); drop != NatDrop::kNone) {
    return drop;
  }
  return ReadLayer4(packet, view);
}

NatDrop ReadLayer4(const Packet& packet, NatView& view) {
  const ParsedPacket& headers = packet.headers();
  const Bytes frame = packet.bytes();
  if (!IsTranslated(view.protocol)) return NatDrop::kProtocol;
  if (headers.fragment == Fragment::kLater) {
    view.is_later_fragment = true;
    return NatDrop::kNone;
  }
  if (headers.result == ParseResult::kL4Malformed) return NatDrop::kMalformed;
  const bool is_cut = packet.original_length() > frame.size();
  if (headers.result == ParseResult::kL4Truncated && !is_cut) {
    return NatDrop::kTruncated;
  }
  const Bytes l4 = L4(frame, headers);
  const IpProtocol protocol = headers.l4_protocol;
  if (IsIcmp(protocol)) {
    const auto icmp = IcmpHeader<Byte>::At(l4, 0, protocol);
    if (!icmp) return NatDrop::kTruncated;
    if (protocol == IpProtocol::kIcmp && IsOutdated(icmp.type())) {
      return NatDrop::kIcmpType;
    }
    view.is_icmp_error = icmp.is_error();
    if (view.is_icmp_error) return NatDrop::kNone;
    return ReadPorts(l4, protocol, view) ? NatDrop::kNone : NatDrop::kIcmpType;
  }
  if (protocol == IpProtocol::kTcp) {
    constexpr size_t kFlagsOffset = 13;
    if (l4.size() <= kFlagsOffset) return NatDrop::kTruncated;
    view.tcp_flags = std::to_integer<uint8_t>(l4[kFlagsOffset]);
  }
  return ReadPorts(l4, view.protocol, view) ? NatDrop::kNone
                                            : NatDrop::kTruncated;
}

NatDrop ReadQuoted(const Packet& packet, NatView& quoted) {
  const ParsedPacket& outer = packet.headers();
  const Bytes frame = packet.bytes();
  if (!HasGoodIcmpChecksum(frame, outer)) return NatDrop::kIcmpChecksum;
  if (outer.icmp_inner_offset == 0) return NatDrop::kQuotedNotOurs;
  const ParsedPacket inner = ParseInner(frame, outer);
  if (inner.l3 != L3::kIpv4 || !IsTranslated(inner.l4_protocol)) {
    return NatDrop::kQuotedNotOurs;
  }
  const auto ip = Ipv4Header<Byte>::At(frame, inner.l3_offset);
  if (InternetChecksum(ip.header()) != be16(0)) return NatDrop::kIcmpChecksum;
  ReadAddresses(frame, inner, quoted);
  quoted.is_later_fragment = inner.fragment == Fragment::kLater;
  if (quoted.is_later_fragment) return NatDrop::kNone;
  return ReadPorts(L4(frame, inner), quoted.protocol, quoted)
             ? NatDrop::kNone
             : NatDrop::kQuotedNotOurs;
}

}  // namespace snf
