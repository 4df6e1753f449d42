// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/route_table.h"

#include <algorithm>

namespace snf {
namespace {

constexpr uint8_t kMappedBits = 96;
constexpr uint8_t kTwoHosts = 127;  // networks without a broadcast address

}  // namespace

RouteTable::RouteTable(const RouterConfig& config) {
  constexpr uint8_t kLinkLocalBits = 10;
  for (const RouterConfig::Address& own : config.addresses) {
    entries_.push_back({.to = own.network(), .gateway = std::nullopt});
    if (!IsIpv4(own.address)) {
      IpAddress any;
      any.bytes[0] = std::byte{0xfe};
      any.bytes[1] = std::byte{0x80};
      entries_.push_back(
          {.to = IpPrefix::Of(any, kLinkLocalBits), .gateway = std::nullopt});
    } else if (own.length < kTwoHosts) {
      const uint32_t hosts = 0xffff'ffff >> (own.length - kMappedBits);
      broadcasts_.push_back(
          IpAddress::FromIpv4(be32(own.address.ipv4().host() | hosts)));
    }
  }
  for (const RouterConfig::Route& route : config.routes) {
    entries_.push_back({.to = route.to, .gateway = route.gateway});
  }
  // Hosts of the link itself come before a gateway to the same network.
  std::ranges::sort(entries_, [](const Entry& a, const Entry& b) {
    if (a.to.length != b.to.length) return a.to.length > b.to.length;
    return a.gateway.has_value() < b.gateway.has_value();
  });
}

const RouteTable::Entry* RouteTable::Find(const IpAddress& to) const {
  const bool is_ipv4 = IsIpv4(to);
  for (const Entry& entry : entries_) {
    if (entry.to.is_ipv4() == is_ipv4 && entry.to.Contains(to)) return &entry;
  }
  return nullptr;
}

std::optional<IpAddress> RouteTable::NextHop(const IpAddress& to) const {
  const Entry* const entry = Find(to);
  if (entry == nullptr) return std::nullopt;
  return entry->gateway.value_or(to);
}

bool RouteTable::IsNear(const IpAddress& to) const {
  const Entry* const entry = Find(to);
  if (entry == nullptr) return false;
  return entry->to.length > (IsIpv4(to) ? kMappedBits : 0);
}

bool RouteTable::IsBroadcast(const IpAddress& to) const {
  return std::ranges::find(broadcasts_, to) != broadcasts_.end();
}

}  // namespace snf
