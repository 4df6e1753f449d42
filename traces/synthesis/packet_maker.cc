// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/packet_maker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/packet/headers.h"
#include "traces/synthesis/readdress.h"

namespace snf {
namespace {

using Tcp = TcpHeader<std::byte>;
using Udp = UdpHeader<std::byte>;

constexpr size_t kEthernetBytes = 14;
constexpr size_t kTextBytes = 4 * size_t{FlowModel::kMostBytes};
constexpr uint32_t kFirstPort = 1'024;
constexpr uint32_t kPorts = 65'536 - kFirstPort;
constexpr size_t kMostTcpHeaderBytes = 60;
// A segment of no more than these is an acknowledgement with options.
constexpr size_t kBareTcpBytes = 32;
constexpr std::byte kNoOperation{1};
constexpr uint8_t kTtl = 64;

void Set(std::span<std::byte> bytes, size_t at, uint8_t value) {
  bytes[at] = std::byte{value};
}

// In front of `l4_bytes`; returns where they begin.
size_t PutIp(std::span<std::byte> frame, const FlowKind& kind,
             const IpAddress& source, const IpAddress& destination) {
  constexpr size_t kL3 = kEthernetBytes;
  const bool is_ipv4 = kind.l3 == L3::kIpv4;
  Store(&frame[12], be16(static_cast<uint16_t>(is_ipv4 ? EtherType::kIpv4
                                                       : EtherType::kIpv6)));
  const auto protocol = static_cast<uint8_t>(kind.protocol);
  if (is_ipv4) {
    Set(frame, kL3, 0x45);
    Set(frame, kL3 + 6, 0x40);  // do not fragment
    Set(frame, kL3 + 9, protocol);
    const auto ip = Ipv4Header<std::byte>::At(frame, kL3);
    ip.set_ttl(kTtl);
    ip.set_total_bytes(static_cast<uint16_t>(frame.size() - kL3));
    ip.set_source(source.ipv4());
    ip.set_destination(destination.ipv4());
    return kL3 + Ipv4Header<std::byte>::kMinBytes;
  }
  Set(frame, kL3, 0x60);
  Set(frame, kL3 + 6, protocol);
  const auto ip = Ipv6Header<std::byte>::At(frame, kL3);
  ip.set_hop_limit(kTtl);
  ip.set_payload_bytes(static_cast<uint16_t>(frame.size() - kL3 -
                                             Ipv6Header<std::byte>::kBytes));
  ip.set_source(source);
  ip.set_destination(destination);
  return kL3 + Ipv6Header<std::byte>::kBytes;
}

uint8_t FlagsOf(PacketMaker::Place place, bool has_payload) {
  switch (place) {
    case PacketMaker::Place::kBegin:
      return Tcp::kSyn;
    case PacketMaker::Place::kAnswer:
      return Tcp::kSyn | Tcp::kAck;
    case PacketMaker::Place::kEnd:
      return Tcp::kFin | Tcp::kAck;
    case PacketMaker::Place::kMiddle:
      break;
  }
  return has_payload ? Tcp::kPsh | Tcp::kAck : Tcp::kAck;
}

}  // namespace

PacketMaker::PacketMaker(Options options)
    : options_(std::move(options)), rng_(options_.seed), text_(kTextBytes) {
  for (std::byte& each : text_) {
    constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz ,;:.\n";
    each = static_cast<std::byte>(kLetters[rng_.Next() >> 59]);
  }
}

PacketMaker::Flow PacketMaker::Begin(uint64_t copy, const FlowKind& kind) {
  const auto number = static_cast<uint32_t>(rng_.Next());
  return {.kind = kind,
          .ends = FreshEndsOf(copy, kind.l3),
          .client_port = static_cast<uint16_t>(kFirstPort + number % kPorts),
          .sequence = {number, ~number}};
}

void PacketMaker::FillPayload(std::span<std::byte> payload) {
  if (payload.empty()) return;
  std::memcpy(payload.data(), &text_[rng_.Below(kTextBytes - payload.size())],
              payload.size());
  if (options_.strings.empty()) return;
  if (rng_.Below(kDensityOne) >= options_.string_density) return;
  const std::string& string =
      options_.strings[rng_.Below(options_.strings.size())];
  if (string.size() > payload.size()) return;
  const size_t at = rng_.Below(payload.size() - string.size() + 1);
  std::memcpy(&payload[at], string.data(), string.size());
  ++with_string_;
}

std::span<const std::byte> PacketMaker::Make(Flow& flow, Place place,
                                             bool from_server,
                                             uint32_t wire_bytes) {
  constexpr std::array<uint8_t, 12> kMacs = {2, 0, 0, 0, 0, 2,
                                             2, 0, 0, 0, 0, 1};
  frame_.assign(wire_bytes, std::byte{0});
  const std::span<std::byte> frame(frame_);
  std::memcpy(frame.data(), kMacs.data(), kMacs.size());
  const size_t l4 =
      PutIp(frame, flow.kind, from_server ? flow.ends.server : flow.ends.client,
            from_server ? flow.ends.client : flow.ends.server);
  const size_t l4_bytes = wire_bytes - l4;
  const auto ports = PortsView<std::byte>::At(frame, l4);
  const be16 client(flow.client_port);
  const be16 server(flow.kind.server_port);
  ports.set_source_port(from_server ? server : client);
  ports.set_destination_port(from_server ? client : server);
  if (flow.kind.protocol == IpProtocol::kTcp) {
    const bool opens = place == Place::kBegin || place == Place::kAnswer;
    const size_t header_bytes =
        opens || l4_bytes <= kBareTcpBytes
            ? std::min(l4_bytes, kMostTcpHeaderBytes) / 4 * 4
            : Tcp::kMinBytes;
    const size_t payload_bytes = l4_bytes - header_bytes;
    const uint8_t flags = FlagsOf(place, payload_bytes > 0);
    uint32_t& sequence = flow.sequence[from_server ? 1 : 0];
    Store(&frame[l4 + 4], be32(sequence));
    if ((flags & Tcp::kAck) != 0) {
      Store(&frame[l4 + 8], be32(flow.sequence[from_server ? 0 : 1]));
    }
    Set(frame, l4 + 12, static_cast<uint8_t>(header_bytes / 4 << 4));
    Set(frame, l4 + 13, flags);
    Store(&frame[l4 + 14], be16(0xffff));  // window
    std::ranges::fill(
        frame.subspan(l4 + Tcp::kMinBytes, header_bytes - Tcp::kMinBytes),
        kNoOperation);
    FillPayload(frame.subspan(l4 + header_bytes));
    sequence += static_cast<uint32_t>(payload_bytes) +
                ((flags & (Tcp::kSyn | Tcp::kFin)) != 0 ? 1 : 0);
  } else {
    const auto udp = Udp::At(frame, l4);
    udp.set_length_bytes(static_cast<uint16_t>(l4_bytes));
    udp.set_checksum(be16(0xffff));  // there is one: it is filled in
    FillPayload(frame.subspan(l4 + Udp::kBytes));
  }
  FillChecksums(frame, Parse(LinkType::kEthernet, frame));
  return frame;
}

}  // namespace snf
