// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_tunnel.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/packet/checksum.h"
#include "base/packet/flow_key.h"
#include "base/packet/headers.h"
#include "nfs/lb_packet.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const std::byte>;

constexpr size_t kIpv4Bytes = Ipv4Header<Byte>::kMinBytes;
constexpr size_t kIpv6Bytes = Ipv6Header<Byte>::kBytes;
constexpr size_t kUdpBytes = UdpHeader<Byte>::kBytes;
constexpr size_t kIcmpBytes = IcmpHeader<Byte>::kBytes;
constexpr uint8_t kHops = 64;
constexpr uint8_t kIpv4InIp = 4, kIpv6InIp = 41;

uint8_t ClassOf(const Packet& packet) {
  const size_t l3 = packet.headers().l3_offset;
  if (packet.headers().l3 == L3::kIpv4) {
    return Ipv4Header<Byte>::At(packet.bytes(), l3).traffic_class();
  }
  return Ipv6Header<Byte>::At(packet.bytes(), l3).traffic_class();
}

// Writes an IPv4 header without length and checksum, or an IPv6 header without
// length.
void WriteIpv4(std::span<Byte> ip, uint8_t traffic_class, uint8_t protocol,
               const IpAddress& from, const IpAddress& to) {
  ip[0] = Byte{0x45};
  ip[1] = Byte{traffic_class};
  ip[6] = Byte{0x40};  // DF
  ip[8] = Byte{kHops};
  ip[9] = Byte{protocol};
  const auto header = Ipv4Header<Byte>::At(ip, 0);
  header.set_source(from.ipv4());
  header.set_destination(to.ipv4());
}
void WriteIpv6(std::span<Byte> ip, uint8_t traffic_class, uint32_t label,
               uint8_t next, const IpAddress& from, const IpAddress& to) {
  Store(ip.data(), be32(uint32_t{6} << 28 | uint32_t{traffic_class} << 20 |
                        (label & 0x000f'ffff)));
  ip[6] = Byte{next};
  const auto header = Ipv6Header<Byte>::At(ip, 0);
  header.set_hop_limit(kHops);
  header.set_source(from);
  header.set_destination(to);
}

}  // namespace

size_t LbOuterBytes(const LbOptions& options, bool to_ipv6) {
  return (to_ipv6 ? kIpv6Bytes : kIpv4Bytes) +
         (options.forward == LbForward::kGue ? kUdpBytes : 0);
}

LbOuterHeaders::LbOuterHeaders(const LbOptions& options, const LbEnd& server,
                               const Packet& packet, uint64_t entropy)
    : size_(LbOuterBytes(options, server.is_ipv6)) {
  const bool is_gue = options.forward == LbForward::kGue;
  const uint8_t protocol = is_gue ? static_cast<uint8_t>(IpProtocol::kUdp)
                           : packet.headers().l3 == L3::kIpv6 ? kIpv6InIp
                                                              : kIpv4InIp;
  const std::span<Byte> ip = std::span(bytes_).first(size_);
  const uint8_t traffic_class = ClassOf(packet);
  if (server.is_ipv6) {
    WriteIpv6(ip, traffic_class, static_cast<uint32_t>(entropy >> 32), protocol,
              *options.outer_ipv6, server.address);
  } else {
    WriteIpv4(ip, traffic_class, protocol, *options.outer_ipv4, server.address);
  }
  if (!is_gue) return;
  const std::span<Byte> udp = ip.last(kUdpBytes);
  constexpr uint16_t kEphemeral = 0xc000;
  Store(&udp[0], be16(static_cast<uint16_t>(kEphemeral | (entropy & 0x3fff))));
  Store(&udp[2], be16(options.gue_port));
}

LbTooBig::LbTooBig(LinkType link, Bytes frame, const ParsedPacket& headers,
                   uint32_t mtu) {
  const bool is_ipv6 = headers.l3 == L3::kIpv6;
  const FlowKey ends = FiveTuple(frame, headers, false);
  if (headers.fragment == Fragment::kLater || headers.icmp_inner_offset != 0 ||
      !MayAnswer(ends.source, is_ipv6)) {
    return;
  }
  const auto link_bytes = ReverseLinkHeader(link, frame, headers, bytes_);
  if (!link_bytes.has_value()) return;
  const size_t ip_bytes = is_ipv6 ? kIpv6Bytes : kIpv4Bytes;
  const size_t most =
      (is_ipv6 ? kMaxIpv6Bytes : kMaxIpv4Bytes) - ip_bytes - kIcmpBytes;
  const Bytes packet =
      frame.subspan(headers.l3_offset, headers.end_offset - headers.l3_offset);
  const Bytes quoted = packet.first(std::min(packet.size(), most));
  const std::span<Byte> ip = std::span(bytes_).subspan(
      *link_bytes, ip_bytes + kIcmpBytes + quoted.size());
  std::ranges::fill(ip.first(ip_bytes + kIcmpBytes), Byte{0});
  std::ranges::copy(quoted, ip.subspan(ip_bytes + kIcmpBytes).begin());
  const std::span<Byte> l4 = ip.subspan(ip_bytes);
  const IpProtocol protocol = is_ipv6 ? IpProtocol::kIcmpv6 : IpProtocol::kIcmp;
  if (is_ipv6) {
    l4[0] = Byte{2};  // packet too big
    Store(&l4[4], be32(mtu));
    WriteIpv6(ip, 0, 0, static_cast<uint8_t>(protocol), ends.destination,
              ends.source);
    Ipv6Header<Byte>::At(ip, 0).set_payload_bytes(
        static_cast<uint16_t>(l4.size()));
  } else {
    l4[0] = Byte{3};  // unreachable
    l4[1] = Byte{4};  // fragmentation needed
    Store(&l4[6], be16(static_cast<uint16_t>(mtu)));
    WriteIpv4(ip, 0, static_cast<uint8_t>(protocol), ends.destination,
              ends.source);
    const auto header = Ipv4Header<Byte>::At(ip, 0);
    header.set_total_bytes(static_cast<uint16_t>(ip.size()));
    FillIpv4Checksum(header);
  }
  Store(&l4[IcmpHeader<Byte>::kChecksumOffset],
        is_ipv6 ? L4Checksum(ends.destination, ends.source, protocol, l4)
                : InternetChecksum(l4));
  size_ = *link_bytes + ip.size();
}

}  // namespace snf
