// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/router_counts.h"

namespace snf {

std::string_view Name(RouterCount count) {
  static constexpr std::array<std::string_view, kRouterCounts> kNames = {
      "other_mac",          "own_source",       "group",
      "vlan_tag",           "other_type",       "malformed",
      "bad_source",         "bad_destination",  "link_local",
      "ttl_exceeded",       "same_side",        "arp_answered",
      "arp_learned",        "arp_ignored",      "arp_malformed",
      "nd_answered",        "nd_learned",       "nd_ignored",
      "nd_malformed",       "address_conflict", "echo_answered",
      "for_router",         "echo_limited",     "routed",
      "no_route",           "no_neighbour",     "too_many_wait",
      "asked_too_often",    "too_big",          "out_group",
      "out_for_router",     "out_malformed",    "errors",
      "answers_limited",    "questions",        "fragmented",
      "routes_taken",       "routes_unused",    "advertisements",
      "rules_not_followed", "news_limited"};
  static_assert(static_cast<size_t>(RouterCount::kNewsLimited) + 1 ==
                kRouterCounts);
  return kNames[static_cast<size_t>(count)];
}

}  // namespace snf
