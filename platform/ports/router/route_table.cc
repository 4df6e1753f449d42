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
  for (const RouterConfig::Address& own : config.addresses) {
    Add(own.network(), std::nullopt);
    if (!IsIpv4(own.address)) {
      IpAddress any;
      any.bytes[0] = std::byte{0xfe};
      any.bytes[1] = std::byte{0x80};
      Add(IpPrefix::Of(any, kLinkLocalBits), std::nullopt);
    } else if (own.length < kTwoHosts) {
      const uint32_t hosts = 0xffff'ffff >> (own.length - kMappedBits);
      broadcasts_.push_back(
          IpAddress::FromIpv4(be32(own.address.ipv4().host() | hosts)));
    }
  }
  for (const RouterConfig::Route& route : config.routes) {
    Add(route.to, route.gateway);
  }
  for (const LearnedRoute& route : learned) Add(route.to, route.gateway);
}

// The first route to a network stays.
void RouteTable::Add(const IpPrefix& to, const Gateway& gateway) {
  auto at = std::ranges::find_if(lengths_, [&to](const OfLength& each) {
    return each.length <= to.length;
  });
  while (at != lengths_.end() && at->length == to.length &&
         at->is_ipv4 != to.is_ipv4()) {
    ++at;
  }
  if (at == lengths_.end() || at->length != to.length) {
    at = lengths_.insert(
        at, {.length = to.length, .is_ipv4 = to.is_ipv4(), .gateways = {}});
  }
  at->gateways.try_emplace(to.address, gateway);
}

std::optional<RouteTable::Found> RouteTable::Find(const IpAddress& to) const {
  const bool is_ipv4 = IsIpv4(to);
  for (const OfLength& each : lengths_) {
    if (each.is_ipv4 != is_ipv4) continue;
    const auto found =
        each.gateways.find(IpPrefix::Of(to, each.length).address);
    if (found != each.gateways.end()) {
      return Found{.length = each.length, .gateway = &found->second};
    }
  }
  return std::nullopt;
}

std::optional<IpAddress> RouteTable::NextHop(const IpAddress& to) const {
  const auto found = Find(to);
  if (!found.has_value()) return std::nullopt;
  return found->gateway->value_or(to);
}

std::optional<uint8_t> RouteTable::LengthTo(const IpAddress& to) const {
  const auto found = Find(to);
  if (!found.has_value()) return std::nullopt;
  return found->length;
}

bool RouteTable::IsNear(const IpAddress& to) const {
  const auto found = Find(to);
  return found.has_value() && found->length > (IsIpv4(to) ? kMappedBits : 0);
}

bool RouteTable::IsBroadcast(const IpAddress& to) const {
  return std::ranges::find(broadcasts_, to) != broadcasts_.end();
}

}  // namespace snf
