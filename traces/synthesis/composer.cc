// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/composer.h"

namespace snf {
namespace {

constexpr uint32_t kClients = 1 << 24;
constexpr uint32_t kServers = 1 << 17;
constexpr uint32_t kFirstClient = 0x0a00'0000;  // 10.0.0.0
constexpr uint32_t kFirstServer = 0xc612'0000;  // 198.18.0.0
constexpr IpAddress kFirstIpv6 = {
    {std::byte{0x20}, std::byte{0x01}, std::byte{0}, std::byte{2}}};
constexpr size_t kSubnetByte = 7;
constexpr size_t kLowBytes = 12;

IpAddress Ipv6Of(std::byte subnet, uint32_t host) {
  IpAddress address = kFirstIpv6;
  address.bytes[kSubnetByte] = subnet;
  Store(&address.bytes[kLowBytes], be32(host));
  return address;
}

}  // namespace

FreshEnds FreshEndsOf(uint64_t copy, L3 l3) {
  // The same client comes again after kClients copies, with the next server.
  const auto client = static_cast<uint32_t>(copy % kClients);
  const auto server =
      static_cast<uint32_t>((client + copy / kClients) % kServers);
  if (l3 == L3::kIpv6) {
    return {Ipv6Of(std::byte{1}, client), Ipv6Of(std::byte{2}, server)};
  }
  return {IpAddress::FromIpv4(be32(kFirstClient + client)),
          IpAddress::FromIpv4(be32(kFirstServer + server))};
}

bool Composer::Next(CapturedPacket& packet) {
  Overlay::Packet place;
  if (!overlay_.Next(place)) return false;
  const auto bytes = sources_.BytesOf(place.conversation, place.number);
  const auto& ends = sources_.EndsOf(place.conversation);
  const FreshEnds fresh = FreshEndsOf(place.copy, ends.l3);
  frame_.assign(bytes.begin(), bytes.end());
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame_);
  if (headers.has_ip()) {
    Readdress(frame_, headers,
              {.from = {ends.client, ends.server},
               .to = {fresh.client, fresh.server}});
  }
  packet = {.time = kWindowStart + place.time,
            .bytes = frame_,
            .original_bytes = sources_.conversations().WireBytes(
                place.conversation, place.number)};
  tally_.Take(place, packet.original_bytes);
  return true;
}

}  // namespace snf
