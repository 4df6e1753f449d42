// SPDX-License-Identifier: Apache-2.0
#include "base/flow_key.h"

#include <utility>

#include "base/headers.h"

namespace snf {
namespace {

using Byte = const std::byte;

// Both halves of the 128-bit product, folded: one multiplication spreads every
// bit of both factors.
uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t LoadLittle64(const std::byte* from) {
  const auto raw = LoadAs<uint64_t>(from);
  return std::endian::native == std::endian::little ? raw
                                                    : __builtin_bswap64(raw);
}

// The larger of two ends by address and then port, without a branch a byte.
bool FirstIsLarger(const IpAddress& a, be16 a_port, const IpAddress& b,
                   be16 b_port) {
  for (const size_t half : {size_t{0}, size_t{8}}) {
    const uint64_t x = SwapToBigEndian(LoadAs<uint64_t>(&a.bytes[half]));
    const uint64_t y = SwapToBigEndian(LoadAs<uint64_t>(&b.bytes[half]));
    if (x != y) return x > y;
  }
  return a_port > b_port;
}

FlowKey Addresses(std::span<const std::byte> frame, const ParsedPacket& packet,
                  bool with_vlan) {
  FlowKey key;
  if (packet.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<Byte>::At(frame, packet.l3_offset);
    key.source = IpAddress::FromIpv4(ip->source());
    key.destination = IpAddress::FromIpv4(ip->destination());
    key.form = FlowKeyForm::kIpv4;
  } else {
    const auto ip = Ipv6Header<Byte>::At(frame, packet.l3_offset);
    key.source = ip->source();
    key.destination = ip->destination();
    key.form = FlowKeyForm::kIpv6;
  }
  key.protocol = packet.l4_protocol;
  if (with_vlan) key.vlan = be16(packet.outer_vlan);
  return key;
}

}  // namespace

uint64_t Hash(const FlowKey& key, uint64_t seed) {
  // Odd constants from the fractional digits of pi.
  constexpr uint64_t kPi[] = {0x243f'6a88'85a3'08d3, 0x1319'8a2e'0370'7345,
                              0xa409'3822'299f'31d1, 0x082e'fa98'ec4e'6c89,
                              0x4528'21e6'38d0'1377, 0xbe54'66cf'34e9'0c6d};
  const auto* bytes = reinterpret_cast<const std::byte*>(&key);
  const uint64_t source = Fold(LoadLittle64(bytes) ^ kPi[0] ^ seed,
                               LoadLittle64(bytes + 8) ^ kPi[1]);
  const uint64_t destination = Fold(LoadLittle64(bytes + 16) ^ kPi[2] ^ seed,
                                    LoadLittle64(bytes + 24) ^ kPi[3]);
  const uint64_t rest = LoadLittle64(bytes + 32);
  return Fold(source ^ rest ^ kPi[4],
              destination ^ std::rotl(seed, 32) ^ kPi[5]);
}

FlowKey Reversed(const FlowKey& key) {
  FlowKey reversed = key;
  std::swap(reversed.source, reversed.destination);
  std::swap(reversed.source_port, reversed.destination_port);
  return reversed;
}

bool Canonicalize(FlowKey& key) {
  if (!FirstIsLarger(key.source, key.source_port, key.destination,
                     key.destination_port)) {
    return false;
  }
  key = Reversed(key);
  return true;
}

FlowKey FiveTuple(std::span<const std::byte> frame, const ParsedPacket& packet,
                  bool with_vlan) {
  FlowKey key = Addresses(frame, packet, with_vlan);
  if (packet.fragment == Fragment::kLater || !HasPorts(packet.l4_protocol)) {
    return key;
  }
  const auto ports =
      PortsView<Byte>::At(frame.first(packet.end_offset), packet.l4_offset);
  if (ports) {
    key.source_port = ports->source_port();
    key.destination_port = ports->destination_port();
  }
  return key;
}

FlowKey FiveTupleOrQuery(std::span<const std::byte> frame,
                         const ParsedPacket& packet, bool with_vlan) {
  FlowKey key = FiveTuple(frame, packet, with_vlan);
  if (packet.fragment == Fragment::kLater || !IsIcmp(packet.l4_protocol)) {
    return key;
  }
  const auto icmp = IcmpHeader<Byte>::At(frame.first(packet.end_offset),
                                         packet.l4_offset, packet.l4_protocol);
  if (icmp && icmp->is_query()) {
    key.source_port = icmp->identifier();
    key.destination_port = icmp->identifier();
  }
  return key;
}

FlowKey FragmentKey(std::span<const std::byte> frame,
                    const ParsedPacket& packet, bool with_vlan) {
  FlowKey key = Addresses(frame, packet, with_vlan);
  if (packet.l3 == L3::kIpv4) {
    key.form = FlowKeyForm::kIpv4Fragment;
  } else {
    key.form = FlowKeyForm::kIpv6Fragment;
    key.protocol = IpProtocol{0};
  }
  key.source_port = be16(static_cast<uint16_t>(packet.fragment_id >> 16));
  key.destination_port = be16(static_cast<uint16_t>(packet.fragment_id));
  return key;
}

}  // namespace snf
