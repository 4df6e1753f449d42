// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/route_reader.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <tuple>

#include "base/byte_order.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;

size_t Aligned(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

// Returns the structure at the beginning, if it is there as a whole.
template <typename T>
std::optional<T> Head(Bytes bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  return LoadAs<T>(bytes.data());
}

// Calls take(type, payload) for each attribute. Returns false if a length is
// wrong.
template <typename Take>
bool ForAttributes(Bytes bytes, const Take& take) {
  while (!bytes.empty()) {
    const auto head = Head<rtattr>(bytes);
    if (!head.has_value() || head->rta_len < sizeof(rtattr) ||
        head->rta_len > bytes.size()) {
      return false;
    }
    take(head->rta_type & NLA_TYPE_MASK,
         bytes.first(head->rta_len).subspan(sizeof(rtattr)));
    bytes = bytes.subspan(std::min(Aligned(head->rta_len), bytes.size()));
  }
  return true;
}

std::optional<IpAddress> AddressIn(Bytes bytes, size_t address_bytes) {
  if (bytes.size() != address_bytes) return std::nullopt;
  return address_bytes == 4 ? IpAddress::FromIpv4(LoadBe32(bytes.data()))
                            : LoadAs<IpAddress>(bytes.data());
}

uint32_t NumberIn(Bytes bytes) { return Head<uint32_t>(bytes).value_or(0); }

}  // namespace

RouteReader::Part RouteReader::Take(Bytes messages) {
  bool is_interrupted = false;
  while (!messages.empty()) {
    const auto head = Head<nlmsghdr>(messages);
    if (!head.has_value() || head->nlmsg_len < sizeof(nlmsghdr) ||
        head->nlmsg_len > messages.size()) {
      return Part::kMalformed;
    }
    is_interrupted |= (head->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    const Bytes body =
        messages.first(head->nlmsg_len).subspan(sizeof(nlmsghdr));
    if (head->nlmsg_type == NLMSG_ERROR || head->nlmsg_type == NLMSG_DONE) {
      // An errno is at the beginning, negative after a failure.
      const auto result = Head<int32_t>(body);
      if (!result.has_value()) return Part::kMalformed;
      if (*result < 0) {
        error_ = -*result;
        return Part::kRefused;
      }
      return is_interrupted ? Part::kInterrupted : Part::kLast;
    }
    if (head->nlmsg_type == RTM_NEWROUTE && !TakeRoute(body)) {
      return Part::kMalformed;
    }
    messages =
        messages.subspan(std::min(Aligned(head->nlmsg_len), messages.size()));
  }
  return is_interrupted ? Part::kInterrupted : Part::kMore;
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
  is_sound &= ForAttributes(
      message.subspan(std::min(Aligned(sizeof(rtmsg)), message.size())),
      [&](int type, Bytes value) {
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
  if (table != config_.kernel_table || head->rtm_type != RTN_UNICAST ||
      head->rtm_src_len != 0 ||
      (head->rtm_flags & (RTM_F_CLONED | RTNH_F_DEAD | RTNH_F_LINKDOWN)) != 0) {
    return true;
  }
  const std::span<const Hop> hops =
      has_several ? std::span<const Hop>(several) : std::span(&single, 1);
  const IpAddress any = is_ipv4 ? IpAddress::FromIpv4(be32(0)) : IpAddress{};
  const IpPrefix network = IpPrefix::Of(
      to.value_or(any),
      static_cast<uint8_t>(head->rtm_dst_len + (is_ipv4 ? kMappedBits : 0)));
  // A mapped prefix of IPv6 would pass for one of IPv4.
  const bool is_plain = head->rtm_tos == 0 && network.is_ipv4() == is_ipv4;
  const auto usable = std::ranges::find_if(
      hops, [&](const Hop& hop) { return IsUsable(hop, is_ipv4); });
  if (!is_plain || usable == hops.end()) {
    // A route by the number of a next hop names no interface.
    unused_ += std::ranges::any_of(hops, [this](const Hop& hop) {
      return hop.interface == interface_ || hop.interface == 0;
    });
    return true;
  }
  ranked.route = {.to = network, .gateway = usable->gateway};
  ranked.place = found_.size();
  found_.push_back(ranked);
  return true;
}

void RouteReader::TakeHopAttribute(int type, Bytes value, size_t address_bytes,
                                   Hop& hop) {
  if (type == RTA_GATEWAY) {
    hop.gateway = AddressIn(value, address_bytes);
    hop.is_plain &=
        hop.gateway.has_value() && IsIpv4(*hop.gateway) == (address_bytes == 4);
  }
  // Gateways of the other version of IP, tunnels, and next hops of a number
  // alone.
  hop.is_plain &= type != RTA_VIA && type != RTA_ENCAP &&
                  type != RTA_ENCAP_TYPE && type != RTA_NH_ID;
}

bool RouteReader::TakeHops(Bytes hops, size_t address_bytes,
                           std::vector<Hop>& found) {
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
    if ((head->rtnh_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN)) == 0) {
      found.push_back(hop);
    }
    hops = hops.subspan(std::min(Aligned(head->rtnh_len), hops.size()));
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
    return std::tie(each.route.to.address, each.route.to.length, each.metric,
                    each.place);
  };
  std::ranges::sort(found_, [&](const Ranked& a, const Ranked& b) {
    return key(a) < key(b);
  });
  std::vector<LearnedRoute> routes;
  for (const Ranked& each : found_) {
    if (!routes.empty() && routes.back().to == each.route.to) continue;
    routes.push_back(each.route);
  }
  return routes;
}

}  // namespace snf
