// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTE_TABLE_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTE_TABLE_H_

#include <optional>
#include <vector>

#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// The networks that a port leads to: the networks of its addresses and
// the networks behind its gateways. The longest prefix decides.
//
// Owner-thread only. No allocation after construction. Budget: ≤ 20 ns for two
// networks.
class RouteTable {
 public:
  explicit RouteTable(const RouterConfig& config);

  // Returns the neighbour that a packet for this address goes to; nothing if
  // there is no route.
  std::optional<IpAddress> NextHop(const IpAddress& to) const;
  // Returns true if the address is of a network that is named, not only of
  // everything (0.0.0.0/0, ::/0).
  bool IsNear(const IpAddress& to) const;
  // Returns true for the broadcast address of an IPv4 network at the port.
  bool IsBroadcast(const IpAddress& to) const;

 private:
  struct Entry {
    IpPrefix to;
    std::optional<IpAddress> gateway;  // none: its hosts are neighbours
  };
  const Entry* Find(const IpAddress& to) const;

  std::vector<Entry> entries_;  // the longest prefix first
  std::vector<IpAddress> broadcasts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTE_TABLE_H_
