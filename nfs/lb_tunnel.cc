// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_tunnel.h"

#include "base/answers/ip_writing.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;

constexpr size_t kIpv4Bytes = Ipv4Header<Byte>::kMinBytes;
constexpr size_t kIpv6Bytes = Ipv6Header<Byte>::kBytes;
constexpr size_t kUdpBytes = UdpHeader<Byte>::kBytes;
constexpr IpProtocol kIpv4InIp{4}, kIpv6InIp{41};

uint8_t ClassOf(const Packet& packet) {
  const size_t l3 = packet.headers().l3_offset;
  if (packet.headers().l3 == L3::kIpv4) {
    return Ipv4Header<Byte>::At(packet.bytes(), l3).traffic_class();
  }
  return Ipv6Header<Byte>::At(packet.bytes(), l3).traffic_class();
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
  const IpProtocol protocol = is_gue ? IpProtocol::kUdp
                              : packet.headers().l3 == L3::kIpv6 ? kIpv6InIp
                                                                 : kIpv4InIp;
  const std::span<Byte> ip = std::span(bytes_).first(size_);
  const uint8_t traffic_class = ClassOf(packet);
  if (server.is_ipv6) {
    WriteIpv6Header(ip, traffic_class, static_cast<uint32_t>(entropy >> 32),
                    protocol, *options.outer_ipv6, server.address);
  } else {
    WriteIpv4Header(ip, traffic_class, protocol, *options.outer_ipv4,
                    server.address);
  }
  if (!is_gue) return;
  const std::span<Byte> udp = ip.last(kUdpBytes);
  constexpr uint16_t kEphemeral = 0xc000;
  Store(&udp[0], be16(static_cast<uint16_t>(kEphemeral | (entropy & 0x3fff))));
  Store(&udp[2], be16(options.gue_port));
}

}  // namespace snf
