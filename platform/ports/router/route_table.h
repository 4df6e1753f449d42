// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTE_TABLE_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// A route that the kernel has.
struct LearnedRoute {
  IpPrefix to;
  std::optional<IpAddress> gateway;  // none: its hosts are neighbours

  friend bool operator==(const LearnedRoute&, const LearnedRoute&) = default;
};

// The networks that a port leads to: the networks of its addresses, the
// networks behind its gateways, and networks of learned routes. The longest
// prefix decides; among equal prefixes the first of this order, and the first
// of the learned routes.
//
// Each length of prefixes has a hash table, so the cost of a lookup is that of
// the different lengths. Owner-thread only. No allocation after construction.
// Budget: ≤ 20 ns for two networks.
class RouteTable {
 public:
  explicit RouteTable(const RouterConfig& config,
                      std::span<const LearnedRoute> learned = {});

  // Returns the neighbour that a packet for this address goes to; nothing if
  // there is no route.
  std::optional<IpAddress> NextHop(const IpAddress& to) const;
  // Returns the length, of 128 bits, of the prefix that decides; nothing if
  // there is no route.
  std::optional<uint8_t> LengthTo(const IpAddress& to) const;
  // Returns true if the address is of a network that is named, not only of
  // everything (0.0.0.0/0, ::/0).
  bool IsNear(const IpAddress& to) const;
  // Returns true for the broadcast address of an IPv4 network at the port.
  bool IsBroadcast(const IpAddress& to) const;

 private:
  using Gateway = std::optional<IpAddress>;  // none: its hosts are neighbours
  struct AddressHash {
    size_t operator()(const IpAddress& address) const {
      return absl::HashOf(LoadAs<uint64_t>(address.bytes.data()),
                          LoadAs<uint64_t>(address.bytes.data() + 8));
    }
  };
  struct OfLength {
    uint8_t length;
    bool is_ipv4;
    absl::flat_hash_map<IpAddress, Gateway, AddressHash>
        gateways;  // by network
  };
  struct Found {
    uint8_t length;
    const Gateway* gateway;
  };
  void Add(const IpPrefix& to, const Gateway& gateway);
  std::optional<Found> Find(const IpAddress& to) const;

  std::vector<OfLength> lengths_;  // the longest prefixes first
  std::vector<IpAddress> broadcasts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTE_TABLE_H_
