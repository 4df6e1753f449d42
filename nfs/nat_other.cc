// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_other.h"

#include <cstddef>
#include <span>

#include "base/packet/classifier.h"
#include "base/packet/endpoint.h"
#include "base/packet/ip_address.h"
#include "base/packet/l4_headers.h"

namespace snf {
namespace {

bool IsMapped(const IpAddress& address) {
  return address == IpAddress::FromIpv4(address.ipv4());
}

// Returns true for an address that a packet may be sent to and come from.
bool IsHost(const IpAddress& address) {
  constexpr auto kMulticast = std::byte{0xff};
  return address != IpAddress{} && address.bytes[0] != kMulticast;
}

}  // namespace

NatDrop ReadOther(const Packet& packet, NatOtherView& view) {
  const ParsedPacket& headers = packet.headers();
  if (headers.l3 != L3::kIpv6) return NatDrop::kNotIpv4;
  const std::span<const std::byte> frame = packet.bytes();
  FlowKey connection;
  const bool is_swapped = ConnectionKey(frame, headers, false, connection);
  if (IsMapped(connection.source) || IsMapped(connection.destination)) {
    return NatDrop::kMartian;
  }
  if (headers.fragment == Fragment::kLater || headers.icmp_inner_offset != 0) {
    return NatDrop::kNone;
  }
  const Endpoints ends = EndpointsOf(
      connection, is_swapped ? Direction::kReverse : Direction::kForward);
  if (!IsHost(ends.from.source)) return NatDrop::kNone;
  view.from = ends.from;
  constexpr size_t kFlagsOffset = 13;
  if (headers.l4_protocol == IpProtocol::kTcp &&
      headers.l4_bytes() > kFlagsOffset) {
    view.tcp_flags =
        std::to_integer<uint8_t>(frame[headers.l4_offset + kFlagsOffset]);
  }
  return NatDrop::kNone;
}

}  // namespace snf
