// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/route_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <tuple>

#include "base/byte_order.h"

namespace snf {
namespace {

using netlink::AddressIn;
using netlink::Behind;
using netlink::Bytes;
using netlink::ForAttributes;
using netlink::Head;
using netlink::NumberIn;

}  // namespace

DumpPart RouteReader::Take(Bytes messages) {
  return netlink::ReadDump(messages, RTM_NEWROUTE, error_,
                           [this](Bytes body) { return TakeRoute(body); });
}

bool RouteReader::TakeRoute(Bytes message) {
  const auto head = Head<rtmsg>(message);
  if (!head.has_value()) return false;
  const bool is_ipv4 = head->rtm_family == AF_INET;
  if (!is_ipv4 && head->rtm_family != AF_INET6) return true;
  ++seen_;
  const size_t address_bytes = is_ipv4 ? 4 : 16;
  if (head->rtm_dst_len > 8 * address_bytes) return false;
  uint32_t table = head->rtm_table;
  Ranked ranked;
  std::optional<IpAddress> to;
  Hop single;
  std::vector<Hop> several;
  bool has_several = false;
  bool is_sound = true;
  is_sound &=
      ForAttributes(Behind(message, sizeof(rtmsg)), [&](int type, Bytes value) {
        if (type == RTA_TABLE) table = NumberIn(value);
        if (type == RTA_PRIORITY) ranked.metric = NumberIn(value);
        if (type == RTA_DST) to = AddressIn(value, address_bytes);
        if (type == RTA_OIF) {
          single.interface = static_cast<int>(NumberIn(value));
        }
        TakeHopAttribute(type, value, address_bytes, single);
        if (type == RTA_MULTIPATH) {
          has_several = true;
          is_sound &= TakeHops(value, address_bytes, several);
        }
      });
  if (!is_sound || (!to.has_value() && head->rtm_dst_len != 0)) return false;
  const std::optional<RouteKind> kind = KindOf(head->rtm_type);
  if ((table != config_.kernel_table && !config_.follows_rules) ||
      !kind.has_value() ||
      (head->rtm_flags & (RTM_F_CLONED | DeadFlags())) != 0 ||
      (has_several && several.empty())) {
    return true;
  }
  const std::span<const Hop> hops =
      has_several ? std::span<const Hop>(several) : std::span(&single, 1);
  const IpAddress any = is_ipv4 ? IpAddress::FromIpv4(be32(0)) : IpAddress{};
  const IpPrefix network = IpPrefix::Of(
      to.value_or(any),
      static_cast<uint8_t>(head->rtm_dst_len + (is_ipv4 ? kMappedBits : 0)));
  // A route by the number of a next hop names no interface.
  const bool leaves_here = std::ranges::any_of(hops, [this](const Hop& hop) {
    return hop.interface == interface_ || hop.interface == 0;
  });
  // A route for some of the packets to a network would count for all of them,
  // and a mapped prefix of IPv6 for one of IPv4.
  if (head->rtm_tos != 0 || head->rtm_src_len != 0 ||
      network.is_ipv4() != is_ipv4) {
    unused_ +=
        config_.follows_rules || (*kind == RouteKind::kHere && leaves_here);
    return true;
  }
  const auto usable = std::ranges::find_if(
      hops, [&](const Hop& hop) { return IsUsable(hop, is_ipv4); });
  ranked.route = {.to = network, .gateway = {}, .kind = *kind, .table = table};
  if (*kind == RouteKind::kHere) {
    if (usable != hops.end()) {
      ranked.route.gateway = usable->gateway;
    } else if (leaves_here) {
      ++unused_;
      return true;
    } else {
      ranked.route.kind = RouteKind::kElsewhere;
    }
  }
  // Without rules, only routes by the port are looked for.
  if (ranked.route.kind != RouteKind::kHere && !config_.follows_rules) {
    return true;
  }
  ranked.place = found_.size();
  found_.push_back(ranked);
  return true;
}

unsigned RouteReader::DeadFlags() const {
  // The kernel calls a route without a carrier dead if it does not take it
  // (ignore_routes_with_linkdown).
  return config_.follows_rules ? RTNH_F_DEAD : RTNH_F_DEAD | RTNH_F_LINKDOWN;
}

std::optional<RouteKind> RouteReader::KindOf(uint8_t type) {
  switch (type) {
    case RTN_UNICAST:
      return RouteKind::kHere;
    case RTN_BLACKHOLE:
    case RTN_UNREACHABLE:
    case RTN_PROHIBIT:
      return RouteKind::kBlocked;
    case RTN_THROW:
      return RouteKind::kThrow;
    default:
      return std::nullopt;
  }
}

void RouteReader::TakeHopAttribute(int type, Bytes value, size_t address_bytes,
                                   Hop& hop) {
  if (type == RTA_GATEWAY) {
    hop.gateway = AddressIn(value, address_bytes);
    hop.is_plain &=
        hop.gateway.has_value() && IsIpv4(*hop.gateway) == (address_bytes == 4);
  }
  // Gateways of the other version of IP, and tunnels.
  hop.is_plain &=
      type != RTA_VIA && type != RTA_ENCAP && type != RTA_ENCAP_TYPE;
}

bool RouteReader::TakeHops(Bytes hops, size_t address_bytes,
                           std::vector<Hop>& found) const {
  while (!hops.empty()) {
    const auto head = Head<rtnexthop>(hops);
    if (!head.has_value() || head->rtnh_len < sizeof(rtnexthop) ||
        head->rtnh_len > hops.size()) {
      return false;
    }
    Hop hop{.interface = head->rtnh_ifindex};
    if (!ForAttributes(hops.first(head->rtnh_len).subspan(sizeof(rtnexthop)),
                       [&](int type, Bytes value) {
                         TakeHopAttribute(type, value, address_bytes, hop);
                       })) {
      return false;
    }
    if ((head->rtnh_flags & DeadFlags()) == 0) {
      found.push_back(hop);
    }
    hops = Behind(hops, head->rtnh_len);
  }
  return true;
}

bool RouteReader::IsUsable(const Hop& hop, bool is_ipv4) const {
  const bool leaves_here = hop.interface == interface_ && interface_ != 0;
  if (!hop.is_plain) return false;
  if (!hop.gateway.has_value()) {
    // Its hosts are asked for by an address of the port.
    return leaves_here &&
           std::ranges::any_of(config_.addresses, [&](const auto& own) {
             return IsIpv4(own.address) == is_ipv4;
           });
  }
  return config_.IsNeighbour(*hop.gateway) &&
         (leaves_here || (config_.kernel_table != RouterConfig::kMainTable &&
                          !IsLinkLocal(*hop.gateway)));
}

std::vector<LearnedRoute> RouteReader::Finish() {
  const auto key = [](const Ranked& each) {
    return std::tie(each.route.table, each.route.to.address,
                    each.route.to.length, each.metric, each.place);
  };
  std::ranges::sort(found_, [&](const Ranked& a, const Ranked& b) {
    return key(a) < key(b);
  });
  std::vector<LearnedRoute> routes;
  for (const Ranked& each : found_) {
    if (!routes.empty() && routes.back().to == each.route.to &&
        routes.back().table == each.route.table) {
      continue;
    }
    routes.push_back(each.route);
  }
  return routes;
}

}  // namespace snf
