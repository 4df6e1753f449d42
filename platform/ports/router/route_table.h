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

enum class RouteKind : uint8_t {
  kHere,       // by the port
  kElsewhere,  // by another interface
  kBlocked,    // there is none: blackhole, unreachable, prohibit
  kThrow,      // the table has none
};

// A route that the kernel has.
struct LearnedRoute {
  IpPrefix to;
  std::optional<IpAddress> gateway;  // none: its hosts are neighbours
  RouteKind kind = RouteKind::kHere;
  uint32_t table = RouterConfig::kMainTable;

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

  // The route to an address.
  struct Found {
    uint8_t length;  // of its prefix, of 128 bits
    RouteKind kind;
    IpAddress hop;  // the neighbour that packets go to, of kHere
    // Returns true if the route is to a network that is named, not only to
    // everything (0.0.0.0/0, ::/0).
    bool is_near() const { return length > (IsIpv4(hop) ? kMappedBits : 0); }
  };
  // Returns nothing if there is no route.
  std::optional<Found> Find(const IpAddress& to) const;
  // Returns true for the broadcast address of an IPv4 network at the port.
  bool IsBroadcast(const IpAddress& to) const;

 private:
  struct Way {
    std::optional<IpAddress> gateway;  // none: its hosts are neighbours
    RouteKind kind;
  };
  struct AddressHash {
    size_t operator()(const IpAddress& address) const {
      return absl::HashOf(LoadAs<uint64_t>(address.bytes.data()),
                          LoadAs<uint64_t>(address.bytes.data() + 8));
    }
  };
  struct OfLength {
    uint8_t length;
    bool is_ipv4;
    absl::flat_hash_map<IpAddress, Way, AddressHash> ways;  // by network
  };
  void Add(const IpPrefix& to, const Way& way);

  std::vector<OfLength> lengths_;  // the longest prefixes first
  std::vector<IpAddress> broadcasts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTE_TABLE_H_
