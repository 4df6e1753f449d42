// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTER_CONFIG_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTER_CONFIG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"

namespace snf {

using MacAddress = std::array<std::byte, 6>;
std::string TextOf(const MacAddress& mac);

// Returns "10.1.0.1" or "fd00::1".
std::string TextOf(const IpAddress& address);
// Bits in front of an IPv4 address that is mapped into IPv6.
inline constexpr uint8_t kMappedBits = 96;
// Returns true for an IPv4 address, which is mapped into IPv6.
bool IsIpv4(const IpAddress& address);
// Returns true for an address of fe80::/10.
bool IsLinkLocal(const IpAddress& address);

// The options that make a port a router of its hosts, as the text of --port has
// them behind the interface:
//
//   inside=lan0,address=10.1.0.1/24,address=fd00:1::1/64
//   outside=wan0,address=192.0.2.2/24,gateway=192.0.2.1,proxy=192.0.2.5
//   inside=lan0,address=10.1.0.1/24,route=10.8.0.0/16@10.1.0.254
//   inside=lan0,address=10.1.0.1/24,routes=main
//   outside=wan0,address=192.0.2.2/24,routes=rules
//   inside=lan0,address=fd00:1::1/64,ra=on,dns=fd00:1::53
struct RouterConfig {
  static constexpr size_t kMostAddresses = 16, kMostRoutes = 64;
  static constexpr size_t kMostDns = 8;
  static constexpr uint32_t kMainTable = 254;  // RT_TABLE_MAIN

  // An address of the port's own and its network.
  struct Address {
    IpAddress address;
    uint8_t length = 0;  // of the network, of 128 bits
    IpPrefix network() const { return IpPrefix::Of(address, length); }
    friend bool operator==(const Address&, const Address&) = default;
  };
  // The next hop to a network: a gateway that is a neighbour of the port.
  struct Route {
    IpPrefix to;
    IpAddress gateway;
    friend bool operator==(const Route&, const Route&) = default;
  };

  std::vector<Address> addresses;  // none: the port is no router's
  std::vector<Route> routes;       // of gateway= to everything
  std::vector<IpPrefix> proxied;   // also answered for: a NAT's addresses
  std::optional<MacAddress> mac;   // none: the interface's
  // The number of a routing table of the kernel, whose routes the port takes as
  // well; 0: none.
  uint32_t kernel_table = 0;
  // routes=rules: the port follows the kernel's rules (ip-rule(8)), which name
  // tables; `kernel_table` is the main one, to which its own networks belong.
  bool follows_rules = false;
  bool advertises = false;     // sends router advertisements (RFC 4861)
  std::vector<IpAddress> dns;  // the servers in these (RFC 8106), of IPv6
  // Addresses of other ports at the same side, and the networks of these and of
  // their routes, without the gateways to everything. Not part of the text.
  // AddBeside fills them.
  std::vector<IpAddress> addresses_beside;
  std::vector<IpPrefix> networks_beside;
  // The link addresses of these ports; and the interfaces of the ports with
  // their interface's address.
  std::vector<MacAddress> macs_beside;
  std::vector<std::string> interfaces_beside;
  // The interfaces of all ports at the other side. Not part of the text.
  std::vector<std::string> interfaces_across;

  // Parses ",KEY=VALUE…". Errors: InvalidArgument, which names the part.
  static absl::StatusOr<RouterConfig> Parse(std::string_view options);
  // Returns the text that Parse takes.
  std::string text() const;
  bool is_routed() const { return !addresses.empty(); }
  // Returns the config with a link-local address made of the link address
  // (RFC 4291, appendix A), if the port advertises and has none.
  RouterConfig Completed(const MacAddress& interface) const;
  // Adds what is beside: another port of the same side, at that interface. Its
  // link-local addresses are of its own link.
  void AddBeside(const RouterConfig& other, std::string_view interface);
  // Returns true if the address is in the network of one of the port's, or may
  // be a link-local address there, and is not the port's own.
  bool IsNeighbour(const IpAddress& address) const;

  friend bool operator==(const RouterConfig&, const RouterConfig&) = default;

 private:
  absl::Status Add(std::string_view key, std::string_view value);
  absl::Status AddAddress(std::string_view value);
  absl::Status AddRoute(std::string_view to, std::string_view gateway);
  absl::Status AddTable(std::string_view value);
  absl::Status AddDns(std::string_view value);
  absl::Status Check() const;
};

// Returns an InvalidArgument error if two ports have an address or a network in
// common.
absl::Status CheckApart(const RouterConfig& one, const RouterConfig& other);

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTER_CONFIG_H_
