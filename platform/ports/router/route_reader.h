// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTE_READER_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/packet/ip_address.h"
#include "platform/ports/router/netlink_messages.h"
#include "platform/ports/router/route_table.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// Picks a port's routes out of answers to RTM_GETROUTE (rtnetlink(7)).
//
// Of the main table a route counts if it leaves by the port's interface; of any
// other table also if its gateway is a neighbour of the port, whatever the
// interface: the kernel need not be able to use it. Only unicast routes count,
// and only over links that are up. Of several routes to one network the lowest
// metric counts; of several next hops the first that would count alone.
//
// A port that follows the kernel's rules takes the routes of all tables. There,
// as in the main table, a route is the port's if it leaves by its interface.
// Routes by other interfaces, blocking routes and `throw` count as such, and so
// does a route over a link that is down, unless the kernel leaves it out.
// Owner-thread only.
class RouteReader {
 public:
  RouteReader(const RouterConfig& config, int interface)
      : config_(config), interface_(interface) {}

  // Takes the messages of one datagram.
  DumpPart Take(std::span<const std::byte> messages);

  // Returns the routes, sorted by table and network, each network of a table
  // once.
  std::vector<LearnedRoute> Finish();
  // Counts the messages about routes, of all tables.
  size_t seen() const { return seen_; }
  // Counts routes of the table that leave by the interface, or by next hops
  // without one, and are of no use: no next hop is a neighbour, or the route is
  // for a tunnel, IPv6 next hops of IPv4, a type of service, some sources, or
  // mapped addresses (::ffff:0:0/96). Under rules, routes of the last three
  // count whatever their interface and type.
  uint64_t unused() const { return unused_; }
  int error() const { return error_; }  // an errno, after kRefused

 private:
  struct Ranked {
    LearnedRoute route;
    uint32_t metric = 0;
    size_t place = 0;  // among the routes that were read
  };
  struct Hop {
    int interface = 0;
    std::optional<IpAddress> gateway = std::nullopt;
    bool is_plain = true;  // its packets go to the gateway as they are
  };
  // Returns false if a length is wrong.
  bool TakeRoute(std::span<const std::byte> message);
  bool TakeHops(std::span<const std::byte> hops, size_t address_bytes,
                std::vector<Hop>& found) const;
  static void TakeHopAttribute(int type, std::span<const std::byte> value,
                               size_t address_bytes, Hop& hop);
  bool IsUsable(const Hop& hop, bool is_ipv4) const;
  // Returns the flags of routes and next hops that no packet takes.
  unsigned DeadFlags() const;
  // Returns nothing for routes that no packet of a port takes.
  static std::optional<RouteKind> KindOf(uint8_t type);

  const RouterConfig& config_;
  const int interface_;
  std::vector<Ranked> found_;
  size_t seen_ = 0;
  uint64_t unused_ = 0;
  int error_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTE_READER_H_
