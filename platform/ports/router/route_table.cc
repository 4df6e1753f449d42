// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/route_table.h"

#include <algorithm>

namespace snf {
namespace {

constexpr uint8_t kTwoHosts = 127;  // networks without a broadcast address

}  // namespace

RouteTable::RouteTable(const RouterConfig& config,
                       std::span<const LearnedRoute> learned) {
  constexpr uint8_t kLinkLocalBits = 10;
  constexpr Way kNeighbours = {.gateway = std::nullopt,
                               .kind = RouteKind::kHere};
  for (const RouterConfig::Address& own : config.addresses) {
    Add(own.network(), kNeighbours);
    if (!IsIpv4(own.address)) {
      IpAddress any;
      any.bytes[0] = std::byte{0xfe};
      any.bytes[1] = std::byte{0x80};
      Add(IpPrefix::Of(any, kLinkLocalBits), kNeighbours);
    } else if (own.length < kTwoHosts) {
      const uint32_t hosts = 0xffff'ffff >> (own.length - kMappedBits);
      broadcasts_.push_back(
          IpAddress::FromIpv4(be32(own.address.ipv4().host() | hosts)));
    }
  }
  for (const RouterConfig::Route& route : config.routes) {
    Add(route.to, {.gateway = route.gateway, .kind = RouteKind::kHere});
  }
  for (const LearnedRoute& route : learned) {
    Add(route.to, {.gateway = route.gateway, .kind = route.kind});
  }
}

// The first route to a network stays.
void RouteTable::Add(const IpPrefix& to, const Way& way) {
  auto at = std::ranges::find_if(lengths_, [&to](const OfLength& each) {
    return each.length <= to.length;
  });
  while (at != lengths_.end() && at->length == to.length &&
         at->is_ipv4 != to.is_ipv4()) {
    ++at;
  }
  if (at == lengths_.end() || at->length != to.length) {
    at = lengths_.insert(
        at, {.length = to.length, .is_ipv4 = to.is_ipv4(), .ways = {}});
  }
  at->ways.try_emplace(to.address, way);
}

std::optional<RouteTable::Found> RouteTable::Find(const IpAddress& to) const {
  const bool is_ipv4 = IsIpv4(to);
  for (const OfLength& each : lengths_) {
    if (each.is_ipv4 != is_ipv4) continue;
    const auto found = each.ways.find(IpPrefix::Of(to, each.length).address);
    if (found != each.ways.end()) {
      const Way& way = found->second;
      return Found{.length = each.length,
                   .kind = way.kind,
                   .hop = way.gateway.value_or(to)};
    }
  }
  return std::nullopt;
}

bool RouteTable::IsBroadcast(const IpAddress& to) const {
  return std::ranges::find(broadcasts_, to) != broadcasts_.end();
}

}  // namespace snf
