// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_ipv6.h"

#include <cstddef>
#include <optional>
#include <span>

#include "base/answers/answers.h"
#include "base/packet/endpoint.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

Ipv6Header<const std::byte> HeaderOf(const Packet& packet) {
  return Ipv6Header<const std::byte>::At(packet.bytes(),
                                         packet.headers().l3_offset);
}

// Returns true for an address that a host may send from.
bool IsSource(const IpAddress& address) {
  constexpr auto kMulticast = std::byte{0xff};
  const bool is_mapped = address == IpAddress::FromIpv4(address.ipv4());
  return address != IpAddress{} && address.bytes[0] != kMulticast && !is_mapped;
}

}  // namespace

be32 StandInOf(const IpAddress& address) {
  const FlowKey key =
      EndpointKey(address, be16(0), IpProtocol{}, FlowKeyForm::kIpv6Endpoint);
  const uint64_t hash = Hash(key);
  return be32(0xf000'0000 | (static_cast<uint32_t>(hash ^ hash >> 32) >> 4));
}

IpAddress Ipv6SourceOf(const Packet& packet) {
  return HeaderOf(packet).source();
}

bool GoesTo(const Ipv4InIpv6& prefix, const Packet& packet) {
  return packet.headers().l3 == L3::kIpv6 &&
         prefix.Extract(HeaderOf(packet).destination()).has_value();
}

NatDrop ReadIpv6(const Ipv4InIpv6& prefix, const Packet& packet,
                 NatView& view) {
  const auto ip = HeaderOf(packet);
  const ParsedPacket& h = packet.headers();
  const be32 to = *prefix.Extract(ip.destination());
  // The prefix is no host's, so nothing comes from there (RFC 6146 §3.5).
  if (!IsSource(ip.source()) || prefix.Extract(ip.source()).has_value() ||
      !IsHostAddress(to)) {
    return NatDrop::kMartian;
  }
  view.source.address = StandInOf(ip.source());
  view.destination.address = to;
  view.protocol = h.l4_protocol;
  if (h.l4_protocol == IpProtocol::kIcmpv6) view.protocol = IpProtocol::kIcmp;
  if (h.l4_protocol == IpProtocol::kIcmp) return NatDrop::kProtocol;
  return ReadLayer4(packet, view);
}

NatDrop DropOf(PacketResize outcome) {
  switch (outcome) {
    case PacketResize::kDone:
      return NatDrop::kNone;
    case PacketResize::kTooLong:
      return NatDrop::kTooLong;
    default:
      return NatDrop::kNoCounterpart;
  }
}

}  // namespace snf
