// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/port_notes.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "platform/ports/interface/network_interface.h"
#include "platform/ports/router/router_config.h"

namespace snf {
namespace {

std::optional<IpAddress> AddressOf(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  const auto* const bytes = reinterpret_cast<const std::byte*>(address);
  if (address->sa_family == AF_INET) {
    return IpAddress::FromIpv4(
        LoadBe32(bytes + offsetof(sockaddr_in, sin_addr)));
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  return LoadAs<IpAddress>(bytes + offsetof(sockaddr_in6, sin6_addr));
}

// Returns how to take an address from the kernel, which makes the link-local
// address that Completed makes whenever the interface goes up.
std::string HowToTake(const PortSpec& spec, const IpAddress& address,
                      std::string_view interface) {
  const bool is_made = std::ranges::count(spec.router.addresses, address,
                                          &RouterConfig::Address::address) == 0;
  if (!is_made) return fmt::format("ip addr del … dev {}", interface);
  return fmt::format(
      "ip link set dev {0} addrgenmode none; ip addr flush dev {0} scope link",
      interface);
}

// Returns "192.0.2.5", or "192.0.2.5 and 3 more".
std::string Shortened(const std::vector<IpAddress>& addresses) {
  const std::string first = TextOf(addresses.front());
  if (addresses.size() == 1) return first;
  return fmt::format("{} and {} more", first, addresses.size() - 1);
}

bool IsProxied(const RouterConfig& router, const IpAddress& address) {
  return std::ranges::any_of(router.proxied, [&](const IpPrefix& prefix) {
    return prefix.is_ipv4() && prefix.Contains(address);
  });
}

// Returns the addresses for which the port does not answer, though hosts of its
// networks ask for them. `own` gets the port's own addresses.
std::vector<IpAddress> Unanswered(const RouterConfig& router,
                                  std::span<const be32> addresses,
                                  std::vector<IpAddress>& own) {
  std::vector<IpAddress> unanswered;
  for (const be32 one : addresses) {
    const IpAddress address = IpAddress::FromIpv4(one);
    if (IsProxied(router, address)) continue;
    if (std::ranges::count(router.addresses, address,
                           &RouterConfig::Address::address) > 0) {
      own.push_back(address);
    } else if (router.IsNeighbour(address)) {
      unanswered.push_back(address);
    }
  }
  return unanswered;
}

std::string WhyNotOpen(const PortSpec& port) {
  using Kind = PortSpec::Kind;
  if (port.kind == Kind::kTap) return "";
  if (port.kind == Kind::kCapture) {
    std::error_code error;
    if (std::filesystem::exists(port.interface, error)) return "";
    return fmt::format("port {}: {}: there is no such file", port.name(),
                       port.interface);
  }
  const absl::Status kernel = CheckKernel(port);
  if (!kernel.ok()) return std::string(kernel.message());
  const absl::Status state = NetworkInterface(port.interface).Check();
  if (state.ok()) return "";
  return fmt::format("port {}: {}", port.name(), std::string(state.message()));
}

}  // namespace

std::vector<std::string> NotesOnExternal(const std::vector<PortSpec>& ports,
                                         std::span<const be32> addresses) {
  std::vector<std::string> notes;
  for (const PortSpec& port : ports) {
    if (!port.router.is_routed() || port.side != Side::kOutside) continue;
    std::vector<IpAddress> own;
    const std::vector<IpAddress> others =
        Unanswered(port.router, addresses, own);
    if (!own.empty()) {
      notes.push_back(fmt::format(
          "port {}: {} is its own address, and the NAT's: packets to the NAT "
          "end at the port, unless the port has proxy={} as well",
          port.name(), Shortened(own), TextOf(own.front())));
    }
    if (!others.empty()) {
      notes.push_back(fmt::format(
          "port {}: {} is an address of the NAT in the port's "
          "network, where no host answers for it, unless the port has proxy={}",
          port.name(), Shortened(others), TextOf(others.front())));
    }
  }
  return notes;
}

absl::Status CheckKernel(const PortSpec& port) {
  const RouterConfig router =
      port.router.Completed(NetworkInterface(port.interface).mac());
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return absl::OkStatus();
  absl::Status status;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const std::optional<IpAddress> address = AddressOf(one->ifa_addr);
    if (!address.has_value() ||
        (IsLinkLocal(*address) && port.interface != one->ifa_name) ||
        std::ranges::count(router.addresses, *address,
                           &RouterConfig::Address::address) == 0) {
      continue;
    }
    status = absl::FailedPreconditionError(
        fmt::format("port {}: the kernel has the address {} at {} ({})",
                    port.name(), TextOf(*address), one->ifa_name,
                    HowToTake(port, *address, one->ifa_name)));
  }
  freeifaddrs(all);
  return status;
}

std::vector<std::string> NotesOnMachine(const std::vector<PortSpec>& ports) {
  std::vector<std::string> notes;
  for (const PortSpec& port : ports) {
    std::string why = WhyNotOpen(port);
    if (!why.empty()) notes.push_back(std::move(why));
  }
  return notes;
}

}  // namespace snf
