// SPDX-License-Identifier: Apache-2.0
#include "base/answers/answers.h"

#include <algorithm>
#include <optional>

#include "base/answers/ip_writing.h"
#include "base/packet/checksum.h"
#include "base/packet/flow_key.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const std::byte>;
using Tcp = TcpHeader<const Byte>;

constexpr size_t kIpv4Bytes = Ipv4Header<Byte>::kMinBytes;
constexpr size_t kIpv6Bytes = Ipv6Header<Byte>::kBytes;
constexpr size_t kIcmpBytes = IcmpHeader<Byte>::kBytes;

size_t IpBytesOf(const ParsedPacket& headers) {
  return headers.l3 == L3::kIpv6 ? kIpv6Bytes : kIpv4Bytes;
}

bool IsHost(const IpAddress& address, bool is_ipv6) {
  if (!is_ipv6) return IsHostAddress(address.ipv4());
  IpAddress loopback;
  loopback.bytes[15] = Byte{1};
  return address != IpAddress{} && address != loopback &&
         address.bytes[0] != Byte{0xff};
}

bool IsGroup(const IpAddress& address, bool is_ipv6) {
  return is_ipv6 ? address.bytes[0] == Byte{0xff}
                 : address.ipv4().host() >= 0xe000'0000;
}

bool MayBeAnswered(const ParsedPacket& headers, const FlowKey& ends) {
  const bool is_ipv6 = headers.l3 == L3::kIpv6;
  return headers.has_ip() && headers.fragment != Fragment::kLater &&
         IsHost(ends.source, is_ipv6) && !IsGroup(ends.destination, is_ipv6);
}

// Returns true for messages that no error may be about (RFC 1122 §3.2.2, RFC
// 4443 §2.4): errors, and ICMPv6 redirects.
bool IsIcmpErrorOrRedirect(Bytes frame, const ParsedPacket& headers) {
  if (!IsIcmp(headers.l4_protocol)) return false;
  const Bytes packet = frame.first(headers.end_offset);
  const auto icmp = IcmpHeader<const Byte>::At(packet, headers.l4_offset,
                                               headers.l4_protocol);
  constexpr uint8_t kRedirect = 137;
  const bool is_ipv6 = headers.l4_protocol == IpProtocol::kIcmpv6;
  return !icmp || icmp.is_error() || (is_ipv6 && icmp.type() == kRedirect);
}

// Writes the IP header of an answer to the source of `ends`. `ip` is the whole
// packet, and its header is zeros.
void WriteIp(Bytes frame, const ParsedPacket& headers, IpProtocol protocol,
             const IpAddress& from, const IpAddress& to, std::span<Byte> ip) {
  constexpr uint8_t kDiffserv = 0xfc;  // the rest is ECN
  if (headers.l3 == L3::kIpv6) {
    const auto packet = Ipv6Header<const Byte>::At(frame, headers.l3_offset);
    WriteIpv6Header(ip, packet.traffic_class() & kDiffserv, 0, protocol, from,
                    to);
    Ipv6Header<Byte>::At(ip, 0).set_payload_bytes(
        static_cast<uint16_t>(ip.size() - kIpv6Bytes));
    return;
  }
  const auto packet = Ipv4Header<const Byte>::At(frame, headers.l3_offset);
  WriteIpv4Header(ip, packet.traffic_class() & kDiffserv, protocol, from, to);
  const auto header = Ipv4Header<Byte>::At(ip, 0);
  header.set_total_bytes(static_cast<uint16_t>(ip.size()));
  FillIpv4Checksum(header);
}

// Returns the bytes behind the TCP header as sent, of which a capture may have
// kept fewer.
uint32_t SegmentBytes(Bytes frame, const ParsedPacket& headers) {
  const size_t l3 = headers.l3_offset;
  const uint32_t stated =
      headers.l3 == L3::kIpv6
          ? Ipv6Header<const Byte>::At(frame, l3).payload_bytes() + 40u
          : Ipv4Header<const Byte>::At(frame, l3).total_bytes();
  const auto in_front = static_cast<uint32_t>(headers.payload_offset - l3);
  return std::max(headers.payload_bytes(),
                  stated > in_front ? stated - in_front : 0);
}

}  // namespace

TcpReset::TcpReset(LinkType link, Bytes frame, const ParsedPacket& headers) {
  if (headers.l4_protocol != IpProtocol::kTcp) return;
  const auto tcp = Tcp::At(frame.first(headers.end_offset), headers.l4_offset);
  if (!tcp || (tcp.flags() & Tcp::kRst) != 0) return;
  const FlowKey ends = FiveTuple(frame, headers, false);
  if (!MayBeAnswered(headers, ends)) return;
  const auto link_bytes = ReverseLinkHeader(link, frame, headers, bytes_);
  if (!link_bytes.has_value()) return;
  const size_t ip_bytes = IpBytesOf(headers);
  const std::span<Byte> ip =
      std::span(bytes_).subspan(*link_bytes, ip_bytes + Tcp::kMinBytes);
  WriteIp(frame, headers, IpProtocol::kTcp, ends.destination, ends.source, ip);
  const std::span<Byte> l4 = ip.subspan(ip_bytes);
  constexpr size_t kSequence = 4, kAck = 8, kWords = 12, kFlags = 13;
  Store(&l4[0], ends.destination_port);
  Store(&l4[2], ends.source_port);
  l4[kWords] = Byte{5 << 4};
  if ((tcp.flags() & Tcp::kAck) != 0) {
    Store(&l4[kSequence], be32(tcp.acknowledgement()));
    l4[kFlags] = Byte{Tcp::kRst};
  } else {
    const uint32_t counted = ((tcp.flags() & Tcp::kSyn) != 0 ? 1 : 0) +
                             ((tcp.flags() & Tcp::kFin) != 0 ? 1 : 0);
    Store(&l4[kAck],
          be32(tcp.sequence() + SegmentBytes(frame, headers) + counted));
    l4[kFlags] = Byte{Tcp::kRst | Tcp::kAck};
  }
  Store(&l4[Tcp::kChecksumOffset],
        L4Checksum(ends.destination, ends.source, IpProtocol::kTcp, l4));
  size_ = *link_bytes + ip.size();
}

IcmpError IcmpError::Prohibited(LinkType link, Bytes frame,
                                const ParsedPacket& headers) {
  return Prohibited(link, frame, headers,
                    FiveTuple(frame, headers, false).destination);
}

IcmpError IcmpError::Prohibited(LinkType link, Bytes frame,
                                const ParsedPacket& headers,
                                const IpAddress& from) {
  const Message message = headers.l3 == L3::kIpv6
                              ? Message{.type = 1, .code = 1}
                              : Message{.type = 3, .code = 13};
  return {link, frame, headers, from, message};
}

IcmpError IcmpError::TooBig(LinkType link, Bytes frame,
                            const ParsedPacket& headers, uint32_t mtu) {
  return TooBig(link, frame, headers, mtu,
                FiveTuple(frame, headers, false).destination);
}

IcmpError IcmpError::TooBig(LinkType link, Bytes frame,
                            const ParsedPacket& headers, uint32_t mtu,
                            const IpAddress& from) {
  const Message message =
      headers.l3 == L3::kIpv6
          ? Message{.type = 2, .code = 0, .rest = mtu}
          : Message{.type = 3, .code = 4, .rest = mtu & 0xffff};
  return {link, frame, headers, from, message};
}

IcmpError IcmpError::TimeExceeded(LinkType link, Bytes frame,
                                  const ParsedPacket& headers,
                                  const IpAddress& from) {
  const Message message = headers.l3 == L3::kIpv6
                              ? Message{.type = 3, .code = 0}
                              : Message{.type = 11, .code = 0};
  return {link, frame, headers, from, message};
}

IcmpError IcmpError::Unreachable(LinkType link, Bytes frame,
                                 const ParsedPacket& headers,
                                 const IpAddress& from, Unreached what) {
  constexpr std::array<uint8_t, 3> kCodes4 = {0, 1, 3}, kCodes6 = {0, 3, 4};
  const auto at = static_cast<size_t>(what);
  const Message message = headers.l3 == L3::kIpv6
                              ? Message{.type = 1, .code = kCodes6[at]}
                              : Message{.type = 3, .code = kCodes4[at]};
  return {link, frame, headers, from, message};
}

IcmpError::IcmpError(LinkType link, Bytes frame, const ParsedPacket& headers,
                     const IpAddress& from, const Message& message) {
  const FlowKey ends = FiveTuple(frame, headers, false);
  if (!MayBeAnswered(headers, ends) || IsIcmpErrorOrRedirect(frame, headers)) {
    return;
  }
  const auto link_bytes = ReverseLinkHeader(link, frame, headers, bytes_);
  if (!link_bytes.has_value()) return;
  const bool is_ipv6 = headers.l3 == L3::kIpv6;
  const size_t own_bytes = IpBytesOf(headers) + kIcmpBytes;
  const Bytes packet =
      frame.subspan(headers.l3_offset, headers.end_offset - headers.l3_offset);
  const Bytes quoted = packet.first(std::min(
      packet.size(), (is_ipv6 ? kMaxIpv6Bytes : kMaxIpv4Bytes) - own_bytes));
  const std::span<Byte> ip =
      std::span(bytes_).subspan(*link_bytes, own_bytes + quoted.size());
  std::ranges::fill(ip.first(own_bytes), Byte{0});
  std::ranges::copy(quoted, ip.subspan(own_bytes).begin());
  const IpProtocol protocol = is_ipv6 ? IpProtocol::kIcmpv6 : IpProtocol::kIcmp;
  WriteIp(frame, headers, protocol, from, ends.source, ip);
  const std::span<Byte> l4 = ip.subspan(own_bytes - kIcmpBytes);
  l4[0] = Byte{message.type};
  l4[1] = Byte{message.code};
  Store(&l4[4], be32(message.rest));
  Store(&l4[IcmpHeader<Byte>::kChecksumOffset],
        is_ipv6 ? L4Checksum(from, ends.source, protocol, l4)
                : InternetChecksum(l4));
  size_ = *link_bytes + ip.size();
}

}  // namespace snf
