// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_packet.h"

#include <algorithm>
#include <cstring>
#include <optional>

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

// Reads the ports of TCP and UDP, or the identifier of an ICMP query. Returns
// false if they are not there.
bool ReadPorts(Bytes l4, IpProtocol protocol, NatView& view) {
  if (protocol == IpProtocol::kIcmp) {
    const auto icmp = IcmpHeader<Byte>::At(l4, 0, protocol);
    if (!icmp || !icmp.is_query()) return false;
    view.source.port = view.destination.port = icmp.identifier();
    // Echo, timestamp, address mask, extended echo.
    const uint8_t type = icmp.type();
    view.is_icmp_request = type == 8 || type == 13 || type == 17 || type == 42;
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

// Returns true if the sender of this packet may get an answer (RFC 1812
// §4.3.2.7).
bool MayBeAnswered(Ipv4Header<Byte> ip) {
  const uint32_t source = ip.source().host() >> 24;
  const uint32_t destination = ip.destination().host();
  return source != 0 && source != 127 && source < 224 &&
         destination < 0xe000'0000;
}

// Returns the size of a link header that serves for the way back as it is, or
// with its addresses exchanged; nothing for other link types.
std::optional<size_t> LinkHeaderBytes(LinkType link) {
  switch (link) {
    case LinkType::kEthernet:
      return 14;
    case LinkType::kRawIp:
      return 0;
    case LinkType::kLinuxSll:
      return 16;
    case LinkType::kLinuxSll2:
      return 20;
    case LinkType::kNull:
    case LinkType::kLoop:
      return 4;
  }
  return std::nullopt;
}

}  // namespace

NatDrop ReadPacket(const Packet& packet, NatView& view) {
  const ParsedPacket& headers = packet.headers();
  const Bytes frame = packet.bytes();
  if (headers.l3 != L3::kIpv4) return NatDrop::kNotIpv4;
  if (!IsTranslated(headers.l4_protocol)) return NatDrop::kProtocol;
  ReadAddresses(frame, headers, view);
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
  if (headers.l4_protocol == IpProtocol::kIcmp) {
    const auto icmp = IcmpHeader<Byte>::At(l4, 0, headers.l4_protocol);
    if (!icmp) return NatDrop::kTruncated;
    if (IsOutdated(icmp.type())) return NatDrop::kIcmpType;
    view.is_icmp_error = icmp.is_error();
    if (view.is_icmp_error) return NatDrop::kNone;
    return ReadPorts(l4, view.protocol, view) ? NatDrop::kNone
                                              : NatDrop::kIcmpType;
  }
  if (headers.l4_protocol == IpProtocol::kTcp) {
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

NatRefusal::NatRefusal(LinkType link, std::span<const std::byte> frame,
                       const ParsedPacket& headers, be32 source) {
  if (headers.l3 != L3::kIpv4) return;
  const auto refused = Ipv4Header<Byte>::At(frame, headers.l3_offset);
  const std::optional<size_t> base = LinkHeaderBytes(link);
  const size_t link_bytes = headers.l3_offset;
  if (!MayBeAnswered(refused) || !base.has_value() ||
      link_bytes != *base + size_t{4} * headers.vlan_tags) {
    return;
  }
  std::memcpy(bytes_.data(), frame.data(), link_bytes);
  if (link == LinkType::kEthernet) {
    constexpr auto kGroup = std::byte{1};
    if ((frame[0] & kGroup) != std::byte{0}) return;  // a group address
    std::swap_ranges(&bytes_[0], &bytes_[6], &bytes_[6]);
  }
  constexpr size_t kIpBytes = Ipv4Header<Byte>::kMinBytes;
  constexpr size_t kIcmpBytes = IcmpHeader<Byte>::kBytes;
  const size_t quoted_bytes =
      std::min<size_t>(headers.end_offset - headers.l3_offset,
                       kMaxIpBytes - kIpBytes - kIcmpBytes);
  // Version 4 and 5 words, TTL 64.
  constexpr std::array<uint8_t, kIpBytes> kIp = {0x45, 0, 0, 0,  0,
                                                 0,    0, 0, 64, 1};
  constexpr std::array<uint8_t, kIcmpBytes> kIcmp = {3, 13};
  const std::span<std::byte> ip_packet = std::span(bytes_).subspan(
      link_bytes, kIpBytes + kIcmpBytes + quoted_bytes);
  const std::span<std::byte> icmp = ip_packet.subspan(kIpBytes);
  std::memcpy(ip_packet.data(), kIp.data(), kIpBytes);
  constexpr size_t kDsOffset = 1;
  constexpr auto kDiffserv = std::byte{0xfc};  // the rest is ECN
  ip_packet[kDsOffset] = frame[link_bytes + kDsOffset] & kDiffserv;
  std::memcpy(icmp.data(), kIcmp.data(), kIcmpBytes);
  std::memcpy(icmp.data() + kIcmpBytes, &frame[headers.l3_offset],
              quoted_bytes);
  const auto ip = Ipv4Header<std::byte>::At(ip_packet, 0);
  ip.set_total_bytes(static_cast<uint16_t>(ip_packet.size()));
  ip.set_source(source);
  ip.set_destination(refused.source());
  FillIpv4Checksum(ip);
  IcmpHeader<std::byte>::At(icmp, 0, IpProtocol::kIcmp)
      .set_checksum(InternetChecksum(icmp));
  size_ = link_bytes + ip_packet.size();
}

}  // namespace snf
