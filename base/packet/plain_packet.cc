// SPDX-License-Identifier: Apache-2.0
#include "base/packet/plain_packet.h"

#include <algorithm>
#include <memory>

#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = const std::byte;
using Ethernet = EthernetHeader<Byte>;
using Ipv4 = Ipv4Header<Byte>;

constexpr size_t kL3 = Ethernet::kBytes;
constexpr size_t kL4 = kL3 + Ipv4::kMinBytes;

// Returns the size of the layer-4 header at kL4, or 0 if the header is not
// whole or of another protocol.
size_t HeaderBytes(std::span<Byte> bytes, IpProtocol protocol) {
  if (protocol == IpProtocol::kTcp) {
    const auto tcp = TcpHeader<Byte>::At(bytes, kL4);
    return tcp ? tcp.header_bytes() : 0;
  }
  const bool is_udp =
      protocol == IpProtocol::kUdp && UdpHeader<Byte>::At(bytes, kL4);
  return is_udp ? UdpHeader<Byte>::kBytes : 0;
}

}  // namespace

std::optional<bool> PlainConnection(std::span<const std::byte> frame,
                                    ParsedPacket& packet, FlowKey& key) {
  if (frame.size() < kL4) return std::nullopt;
  constexpr std::byte kVersionAndLength{0x45};
  if (Ethernet::At(frame, 0).type() != EtherType::kIpv4 ||
      frame[kL3] != kVersionAndLength) {
    return std::nullopt;
  }
  const auto ip = Ipv4::At(frame, kL3);
  if (ip.is_fragment()) return std::nullopt;
  const size_t end = std::min(frame.size(), kL3 + ip.total_bytes());
  const IpProtocol protocol = ip.protocol();
  const size_t l4_bytes = HeaderBytes(frame.first(end), protocol);
  if (l4_bytes == 0) return std::nullopt;
  std::construct_at(
      &packet,
      ParsedPacket{.end_offset = static_cast<uint32_t>(end),
                   .fragment_id = ip.id(),
                   .l3_offset = kL3,
                   .l4_offset = kL4,
                   .payload_offset = static_cast<uint16_t>(kL4 + l4_bytes),
                   .l3 = L3::kIpv4,
                   .l4_protocol = protocol,
                   .result = ParseResult::kComplete});
  const auto ports = PortsView<Byte>::At(frame, kL4);
  return Ipv4ConnectionKey({ip.source(), ports.source_port()},
                           {ip.destination(), ports.destination_port()},
                           protocol, key);
}

}  // namespace snf
