// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/router_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/answers/answers.h"
#include "base/packet/ip_address_text.h"

namespace snf {
namespace {

template <typename... Parts>
absl::Status Bad(fmt::format_string<Parts...> text, Parts&&... parts) {
  return absl::InvalidArgumentError(
      fmt::format(text, std::forward<Parts>(parts)...));
}

std::string TextOf(const IpPrefix& prefix) {
  return FormatPrefixes({&prefix, 1});
}

std::optional<IpAddress> AddressIn(std::string_view text) {
  const std::optional<IpAddress> ipv4 = ParseIpv4(text);
  return ipv4.has_value() ? ipv4 : ParseIpv6(text);
}

bool IsUnicast(const IpAddress& address) {
  if (IsIpv4(address)) return IsHostAddress(address.ipv4());
  IpAddress loopback;
  loopback.bytes[15] = std::byte{1};
  return address.bytes[0] != std::byte{0xff} && address != IpAddress{} &&
         address != loopback;
}

// Returns true for the first and the last address of an IPv4 network that has
// more than two (RFC 3021).
bool IsOfNetworkItself(const RouterConfig::Address& own) {
  if (!IsIpv4(own.address) || own.length > 126) return false;
  const uint32_t hosts = 0xffff'ffff >> (own.length - kMappedBits);
  const uint32_t host = own.address.ipv4().host() & hosts;
  return host == 0 || host == hosts;
}

absl::StatusOr<MacAddress> MacIn(std::string_view text) {
  constexpr size_t kLength = 17;
  MacAddress mac{};
  bool is_right = text.size() == kLength;
  for (size_t i = 0; i < mac.size() && is_right; ++i) {
    uint32_t byte = 0;
    is_right = absl::SimpleHexAtoi(std::string(text.substr(3 * i, 2)), &byte) &&
               byte <= 0xff && (i == 5 || text[3 * i + 2] == ':');
    mac[i] = static_cast<std::byte>(byte);
  }
  const bool is_group = (mac[0] & std::byte{1}) != std::byte{};
  if (is_right && !is_group && mac != MacAddress{}) return mac;
  return Bad(
      "mac={}: want the address of one host, as in "
      "mac=02:00:00:00:00:01",
      text);
}

}  // namespace

std::string TextOf(const MacAddress& mac) {
  std::string text;
  for (const std::byte byte : mac) {
    text += fmt::format("{}{:02x}", text.empty() ? "" : ":",
                        std::to_integer<int>(byte));
  }
  return text;
}

std::string TextOf(const IpAddress& address) {
  return IsIpv4(address) ? Ipv4Text(address) : Ipv6Text(address);
}

bool IsIpv4(const IpAddress& address) {
  return address == IpAddress::FromIpv4(address.ipv4());
}

bool IsLinkLocal(const IpAddress& address) {
  return address.bytes[0] == std::byte{0xfe} &&
         (address.bytes[1] & std::byte{0xc0}) == std::byte{0x80};
}

absl::StatusOr<RouterConfig> RouterConfig::Parse(std::string_view options) {
  RouterConfig config;
  while (!options.empty()) {
    options.remove_prefix(1);  // the comma
    const std::string_view option = options.substr(0, options.find(','));
    options.remove_prefix(option.size());
    const size_t equals = std::min(option.find('='), option.size());
    const std::string_view value =
        option.substr(std::min(equals + 1, option.size()));
    if (absl::Status s = config.Add(option.substr(0, equals), value); !s.ok()) {
      return s;
    }
  }
  if (absl::Status s = config.Check(); !s.ok()) return s;
  return config;
}

absl::Status RouterConfig::Add(std::string_view key, std::string_view value) {
  if (key == "address") return AddAddress(value);
  if (key == "route") {
    const size_t at = std::min(value.find('@'), value.size());
    return AddRoute(value.substr(0, at),
                    value.substr(std::min(at + 1, value.size())));
  }
  if (key == "gateway") {
    const bool is_ipv4 = ParseIpv4(value).has_value();
    return AddRoute(is_ipv4 ? "0.0.0.0/0" : "::/0", value);
  }
  if (key == "proxy") {
    const auto prefixes = ParsePrefixes(value);
    if (!prefixes.ok()) {
      return Bad("proxy={}: {}", value,
                 std::string(prefixes.status().message()));
    }
    proxied.insert(proxied.end(), prefixes->begin(), prefixes->end());
    return absl::OkStatus();
  }
  if (key == "mac") {
    const auto parsed = MacIn(value);
    if (!parsed.ok()) return parsed.status();
    if (mac.has_value()) return Bad("mac={}: it is given twice", value);
    mac = *parsed;
    return absl::OkStatus();
  }
  if (key == "routes") return AddTable(value);
  if (key == "ra") {
    if (value != "on" && value != "off") {
      return Bad("ra={}: want on or off", value);
    }
    advertises = value == "on";
    return absl::OkStatus();
  }
  if (key == "dns") return AddDns(value);
  return Bad(
      "\"{}\": want address=IP/LENGTH, gateway=IP, route=PREFIX@IP, "
      "routes=main, routes=rules, proxy=PREFIX, mac=MAC, ra=on or dns=IP",
      key);
}

absl::Status RouterConfig::AddAddress(std::string_view value) {
  const size_t slash = std::min(value.find('/'), value.size());
  const auto address = AddressIn(value.substr(0, slash));
  const int bits = address.has_value() && IsIpv4(*address) ? 32 : 128;
  int length = 0;
  if (!address.has_value() || slash == value.size() ||
      !absl::SimpleAtoi(std::string(value.substr(slash + 1)), &length) ||
      length < 1 || length > bits) {
    return Bad(
        "address={}: want an address and the length of its network, "
        "as in address=10.1.0.1/24",
        value);
  }
  const Address own = {.address = *address,
                       .length = static_cast<uint8_t>(length + 128 - bits)};
  if (!IsUnicast(own.address) || IsOfNetworkItself(own)) {
    return Bad("address={}: no host can have that address", value);
  }
  addresses.push_back(own);
  return absl::OkStatus();
}

absl::Status RouterConfig::AddRoute(std::string_view to,
                                    std::string_view gateway) {
  const auto address = AddressIn(gateway);
  const auto prefixes = ParsePrefixes(to);
  if (!prefixes.ok()) {
    return Bad("route={}: {}", to, std::string(prefixes.status().message()));
  }
  if (!address.has_value() || prefixes->size() != 1 || !IsUnicast(*address)) {
    return Bad("\"{}\" is not the address of a gateway", gateway);
  }
  if (IsIpv4(*address) != prefixes->front().is_ipv4()) {
    return Bad("route={}@{}: one is IPv4, the other IPv6", to, gateway);
  }
  routes.push_back({.to = prefixes->front(), .gateway = *address});
  return absl::OkStatus();
}

absl::Status RouterConfig::AddTable(std::string_view value) {
  const bool is_by_rules = value == "rules";
  uint32_t table = value == "main" || is_by_rules ? kMainTable : 0;
  if (table == 0 &&
      (!absl::SimpleAtoi(std::string(value), &table) || table == 0)) {
    return Bad(
        "routes={}: want main, rules, or the number of a routing table of the "
        "kernel",
        value);
  }
  if (kernel_table != 0) return Bad("routes={}: it is given twice", value);
  kernel_table = table;
  follows_rules = is_by_rules;
  return absl::OkStatus();
}

absl::Status RouterConfig::AddDns(std::string_view value) {
  const auto address = AddressIn(value);
  if (!address.has_value() || IsIpv4(*address) || !IsUnicast(*address)) {
    return Bad("dns={}: want the IPv6 address of a DNS server", value);
  }
  if (std::ranges::count(dns, *address) != 0) {
    return Bad("dns={}: it is given twice", value);
  }
  dns.push_back(*address);
  return absl::OkStatus();
}

bool RouterConfig::IsNeighbour(const IpAddress& address) const {
  bool is_near = false;
  for (const Address& own : addresses) {
    if (own.address == address) return false;
    if (IsIpv4(own.address) != IsIpv4(address)) continue;
    is_near |= own.network().Contains(address) || IsLinkLocal(address);
  }
  return is_near;
}

absl::Status RouterConfig::Check() const {
  if (addresses.empty()) {
    return Bad(
        "want an address for a port that routes, as in "
        "address=10.1.0.1/24");
  }
  if (addresses.size() > kMostAddresses || routes.size() > kMostRoutes ||
      proxied.size() > kMostRoutes) {
    return Bad("more than {} addresses, {} routes or {} proxied networks",
               size_t{kMostAddresses}, size_t{kMostRoutes},
               size_t{kMostRoutes});
  }
  if (advertises && std::ranges::all_of(addresses, [](const Address& own) {
        return IsIpv4(own.address) || IsLinkLocal(own.address);
      })) {
    return Bad("ra=on: want an IPv6 network to advertise, as in {}",
               "address=fd00:1::1/64");
  }
  if (!dns.empty() && !advertises) {
    return Bad("dns={}: only with ra=on, which tells hosts of it",
               TextOf(dns.front()));
  }
  if (dns.size() > kMostDns) {
    return Bad("more than {} DNS servers", size_t{kMostDns});
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (addresses[i].address != addresses[j].address) continue;
      return Bad("address={}: it is given twice", TextOf(addresses[i].address));
    }
  }
  for (size_t i = 0; i < routes.size(); ++i) {
    const IpAddress& gateway = routes[i].gateway;
    if (std::ranges::count(addresses, gateway, &Address::address) != 0) {
      return Bad("gateway {}: it is this port's own address", TextOf(gateway));
    }
    if (!IsNeighbour(gateway)) {
      return Bad("gateway {}: it is in no network of this port's addresses",
                 TextOf(gateway));
    }
    for (size_t j = 0; j < i; ++j) {
      if (routes[i].to != routes[j].to) continue;
      return Bad("two gateways to {}", TextOf(routes[i].to));
    }
  }
  return absl::OkStatus();
}

std::string RouterConfig::text() const {
  std::string text;
  for (const Address& own : addresses) {
    const int length = own.length - (IsIpv4(own.address) ? kMappedBits : 0);
    text += fmt::format(",address={}/{}", TextOf(own.address), length);
  }
  for (const Route& route : routes) {
    const uint8_t everything = IsIpv4(route.gateway) ? kMappedBits : 0;
    if (route.to.length == everything) {
      text += fmt::format(",gateway={}", TextOf(route.gateway));
    } else {
      text +=
          fmt::format(",route={}@{}", TextOf(route.to), TextOf(route.gateway));
    }
  }
  if (follows_rules) {
    text += ",routes=rules";
  } else if (kernel_table == kMainTable) {
    text += ",routes=main";
  } else if (kernel_table != 0) {
    text += fmt::format(",routes={}", kernel_table);
  }
  for (const IpPrefix& prefix : proxied) {
    text += fmt::format(",proxy={}", TextOf(prefix));
  }
  if (mac.has_value()) text += fmt::format(",mac={}", TextOf(*mac));
  if (advertises) text += ",ra=on";
  for (const IpAddress& server : dns) {
    text += fmt::format(",dns={}", TextOf(server));
  }
  return text;
}

void RouterConfig::AddBeside(const RouterConfig& other,
                             std::string_view interface) {
  if (other.mac.has_value()) {
    macs_beside.push_back(*other.mac);
  } else {
    interfaces_beside.emplace_back(interface);
  }
  for (const Address& own : other.addresses) {
    if (IsLinkLocal(own.address)) continue;  // of its link alone
    addresses_beside.push_back(own.address);
    networks_beside.push_back(own.network());
  }
  for (const Route& route : other.routes) {
    const uint8_t everything = IsIpv4(route.gateway) ? kMappedBits : 0;
    if (route.to.length > everything) networks_beside.push_back(route.to);
  }
}

RouterConfig RouterConfig::Completed(const MacAddress& interface) const {
  RouterConfig completed = *this;
  if (!advertises || std::ranges::any_of(addresses, [](const Address& own) {
        return IsLinkLocal(own.address);
      })) {
    return completed;
  }
  const MacAddress& link = mac.value_or(interface);
  Address own = {.address = {}, .length = 64};
  auto& bytes = own.address.bytes;
  bytes[0] = std::byte{0xfe};
  bytes[1] = std::byte{0x80};
  bytes[8] = link[0] ^ std::byte{2};
  std::copy_n(&link[1], 2, &bytes[9]);
  bytes[11] = std::byte{0xff};
  bytes[12] = std::byte{0xfe};
  std::copy_n(&link[3], 3, &bytes[13]);
  completed.addresses.push_back(own);
  return completed;
}

absl::Status CheckApart(const RouterConfig& one, const RouterConfig& other) {
  for (const RouterConfig::Address& a : one.addresses) {
    for (const RouterConfig::Address& b : other.addresses) {
      const IpPrefix wider = a.length < b.length ? a.network() : b.network();
      const IpAddress& inner = a.length < b.length ? b.address : a.address;
      if (!wider.Contains(inner) || IsLinkLocal(inner)) continue;
      return Bad("{} is in the networks of two ports", TextOf(inner));
    }
  }
  return absl::OkStatus();
}

}  // namespace snf
