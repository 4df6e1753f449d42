// SPDX-License-Identifier: Apache-2.0
#include "base/packet/flow_key.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = const std::byte;
using Frame = std::span<const std::byte>;

// A key as five numbers. Keys are written and read in these units only: a
// narrow store before a wide load would stall the load, which costs more than
// all else here.
struct Numbers {
  uint64_t source_high = 0;
  uint64_t source_low = 0;
  uint64_t destination_high = 0;
  uint64_t destination_low = 0;
  uint64_t rest = 0;  // ports 16 and 16, VLAN 16, protocol 8, form 8
};

uint64_t LoadBig64(const std::byte* from) {
  return SwapToBigEndian(LoadAs<uint64_t>(from));
}

void SaveBig64(uint64_t value, std::byte* to) {
  value = SwapToBigEndian(value);
  std::memcpy(to, &value, sizeof value);
}

Numbers Load(const FlowKey& key) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&key);
  return {LoadBig64(bytes), LoadBig64(bytes + 8), LoadBig64(bytes + 16),
          LoadBig64(bytes + 24), LoadBig64(bytes + 32)};
}

void Save(const Numbers& n, FlowKey& key) {
  auto* bytes = reinterpret_cast<std::byte*>(&key);
  SaveBig64(n.source_high, bytes);
  SaveBig64(n.source_low, bytes + 8);
  SaveBig64(n.destination_high, bytes + 16);
  SaveBig64(n.destination_low, bytes + 24);
  SaveBig64(n.rest, bytes + 32);
}

uint32_t Ports(uint16_t source, uint16_t destination) {
  return uint32_t{source} << 16 | destination;
}

Numbers Swapped(const Numbers& n) {
  const auto ports = static_cast<uint32_t>(n.rest >> 32);
  return {n.destination_high, n.destination_low, n.source_high, n.source_low,
          uint64_t{std::rotl(ports, 16)} << 32 | (n.rest & 0xffff'ffff)};
}

bool FirstEndIsLarger(const Numbers& n) {
  if (n.source_high != n.destination_high) {
    return n.source_high > n.destination_high;
  }
  if (n.source_low != n.destination_low) {
    return n.source_low > n.destination_low;
  }
  return n.rest >> 48 > (n.rest >> 32 & 0xffff);
}

uint64_t Rest(uint32_t ports, uint16_t vlan, IpProtocol protocol,
              FlowKeyForm form) {
  return uint64_t{ports} << 32 | uint64_t{vlan} << 16 |
         uint64_t{static_cast<uint8_t>(protocol)} << 8 |
         static_cast<uint8_t>(form);
}

// Returns `rest` together with the addresses of the packet's IP header.
Numbers WithAddresses(Frame frame, const ParsedPacket& packet, uint64_t rest) {
  if (packet.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<Byte>::At(frame, packet.l3_offset);
    constexpr uint64_t kMapped = uint64_t{0xffff} << 32;
    return {0, kMapped | ip.source().host(), 0,
            kMapped | ip.destination().host(), rest};
  }
  const auto ip = Ipv6Header<Byte>::At(frame, packet.l3_offset);
  const IpAddress source = ip.source(), destination = ip.destination();
  return {LoadBig64(&source.bytes[0]), LoadBig64(&source.bytes[8]),
          LoadBig64(&destination.bytes[0]), LoadBig64(&destination.bytes[8]),
          rest};
}

// Returns the ports, or 0 if the packet has none or they were cut off.
uint32_t PortsOf(Frame frame, const ParsedPacket& packet) {
  if (packet.fragment == Fragment::kLater || !HasPorts(packet.l4_protocol)) {
    return 0;
  }
  const auto ports =
      PortsView<Byte>::At(frame.first(packet.end_offset), packet.l4_offset);
  if (!ports) return 0;
  return Ports(ports.source_port().host(), ports.destination_port().host());
}

uint32_t PortsOrIdentifierOf(Frame frame, const ParsedPacket& packet) {
  if (packet.fragment == Fragment::kLater || !IsIcmp(packet.l4_protocol)) {
    return PortsOf(frame, packet);
  }
  const auto icmp = IcmpHeader<Byte>::At(frame.first(packet.end_offset),
                                         packet.l4_offset, packet.l4_protocol);
  if (!icmp || !icmp.is_query()) return 0;
  return Ports(icmp.identifier().host(), icmp.identifier().host());
}

Numbers NumbersOf(Frame frame, const ParsedPacket& packet, uint32_t ports,
                  bool with_vlan) {
  const auto form =
      packet.l3 == L3::kIpv4 ? FlowKeyForm::kIpv4 : FlowKeyForm::kIpv6;
  const uint16_t vlan = with_vlan ? packet.outer_vlan : 0;
  return WithAddresses(frame, packet,
                       Rest(ports, vlan, packet.l4_protocol, form));
}

// Writes the numbers into `key` with the smaller end first. Returns true if the
// ends were swapped.
bool SaveCanonical(const Numbers& numbers, FlowKey& key) {
  const bool is_reverse = FirstEndIsLarger(numbers);
  Save(is_reverse ? Swapped(numbers) : numbers, key);
  return is_reverse;
}

uint64_t LoadLittle64(const std::byte* from) {
  return __builtin_bswap64(LoadBig64(from));
}

uint64_t SeedOfProcess() {
  static const uint64_t seed = SecretSeed();
  return seed;
}

}  // namespace

FlowKeyHash::FlowKeyHash() : hash_(SeedOfProcess()) {}

uint64_t FlowKeyHash::operator()(const FlowKey& key) const {
  const auto* bytes = reinterpret_cast<const std::byte*>(&key);
  const uint64_t words[] = {LoadLittle64(bytes), LoadLittle64(bytes + 8),
                            LoadLittle64(bytes + 16), LoadLittle64(bytes + 24),
                            LoadLittle64(bytes + 32)};
  return hash_(words, std::size(words));
}

uint64_t Hash(const FlowKey& key) {
  // Odd numbers from the fractional digits of pi.
  constexpr uint64_t kPi[] = {0x243f'6a88'85a3'08d3, 0x1319'8a2e'0370'7345,
                              0xa409'3822'299f'31d1, 0x082e'fa98'ec4e'6c89,
                              0x4528'21e6'38d0'1377, 0xbe54'66cf'34e9'0c6d};
  const auto* bytes = reinterpret_cast<const std::byte*>(&key);
  const uint64_t source =
      Fold(LoadLittle64(bytes) ^ kPi[0], LoadLittle64(bytes + 8) ^ kPi[1]);
  const uint64_t destination = Fold(LoadLittle64(bytes + 16) ^ kPi[2],
                                    LoadLittle64(bytes + 24) ^ kPi[3]);
  const uint64_t rest = LoadLittle64(bytes + 32);
  const uint64_t all = Fold(source ^ rest ^ kPi[4], destination ^ kPi[5]);
  return Fold(all ^ kPi[1], kPi[3]);
}

FlowKey Reversed(const FlowKey& key) {
  FlowKey reversed;
  Save(Swapped(Load(key)), reversed);
  return reversed;
}

bool Canonicalize(FlowKey& key) { return SaveCanonical(Load(key), key); }

void SplitEnds(const FlowKey& connection, FlowKeyForm form, FlowKey& source,
               FlowKey& destination) {
  const Numbers n = Load(connection);
  const uint64_t other = (n.rest & 0xffff'ff00) | static_cast<uint8_t>(form);
  constexpr uint64_t kPort = 0xffff;
  Save({n.source_high, n.source_low, 0, 0, (n.rest & kPort << 48) | other},
       source);
  Save({n.destination_high, n.destination_low, 0, 0,
        (n.rest << 16 & kPort << 48) | other},
       destination);
}

void FiveTuple(std::span<const std::byte> frame, const ParsedPacket& packet,
               bool with_vlan, FlowKey& key) {
  Save(NumbersOf(frame, packet, PortsOf(frame, packet), with_vlan), key);
}

bool ConnectionKey(std::span<const std::byte> frame, const ParsedPacket& packet,
                   bool with_vlan, FlowKey& key) {
  return SaveCanonical(
      NumbersOf(frame, packet, PortsOrIdentifierOf(frame, packet), with_vlan),
      key);
}

bool Ipv4ConnectionKey(Ipv4End source, Ipv4End destination, IpProtocol protocol,
                       FlowKey& key) {
  const auto number = [](Ipv4End end) {
    return uint64_t{end.address.host()} << 16 | end.port.host();
  };
  const uint64_t from = number(source), to = number(destination);
  const uint64_t smaller = std::min(from, to), larger = std::max(from, to);
  constexpr uint64_t kMapped = uint64_t{0xffff} << 32;
  Save({0, kMapped | smaller >> 16, 0, kMapped | larger >> 16,
        Rest(static_cast<uint32_t>(smaller << 16 | (larger & 0xffff)), 0,
             protocol, FlowKeyForm::kIpv4)},
       key);
  return from > to;
}

bool HostPairKey(std::span<const std::byte> frame, const ParsedPacket& packet,
                 bool with_vlan, FlowKey& key) {
  return SaveCanonical(NumbersOf(frame, packet, 0, with_vlan), key);
}

FlowKey FragmentKey(std::span<const std::byte> frame,
                    const ParsedPacket& packet, bool with_vlan) {
  const uint16_t vlan = with_vlan ? packet.outer_vlan : 0;
  const uint64_t rest = packet.l3 == L3::kIpv4
                            ? Rest(packet.fragment_id, vlan, packet.l4_protocol,
                                   FlowKeyForm::kIpv4Fragment)
                            : Rest(packet.fragment_id, vlan, IpProtocol{0},
                                   FlowKeyForm::kIpv6Fragment);
  FlowKey key;
  Save(WithAddresses(frame, packet, rest), key);
  return key;
}

}  // namespace snf
