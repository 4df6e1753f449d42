// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/routes.h"

#include <algorithm>

namespace snf {
namespace {

// Returns the routes of one table. `routes` are sorted by table.
std::span<const LearnedRoute> OfTable(std::span<const LearnedRoute> routes,
                                      uint32_t table) {
  const auto found =
      std::ranges::equal_range(routes, table, {}, &LearnedRoute::table);
  return {found.begin(), found.end()};
}

}  // namespace

Routes::Routes(const RouterConfig& config,
               std::span<const LearnedRoute> learned,
               std::span<const RoutingRule> rules)
    : main_(config, config.follows_rules
                        ? OfTable(learned, RouterConfig::kMainTable)
                        : learned) {
  for (const RoutingRule& rule : rules) {
    (rule.is_ipv4 ? has_ipv4_rules_ : has_ipv6_rules_) = true;
    if (rule.holds_never()) continue;
    (rule.is_ipv4 ? ipv4_ : ipv6_).push_back(rule);
    if (rule.action != RoutingRule::Action::kTable ||
        rule.table == RouterConfig::kMainTable) {
      continue;
    }
    others_.try_emplace(rule.table, RouterConfig{},
                        OfTable(learned, rule.table));
  }
}

std::optional<RouteTable::Found> Routes::Find(const IpAddress& from,
                                              const IpAddress& to,
                                              RouteSide side) const {
  const bool is_ipv4 = IsIpv4(to);
  const bool has_rules = is_ipv4 ? has_ipv4_rules_ : has_ipv6_rules_;
  const auto found = has_rules
                         ? FindByRules(is_ipv4 ? ipv4_ : ipv6_, from, to, side)
                         : main_.Find(to);
  if (!found.has_value() || found->kind != RouteKind::kHere) {
    return std::nullopt;
  }
  return found;
}

std::optional<RouteTable::Found> Routes::FindByRules(
    std::span<const RoutingRule> rules, const IpAddress& from,
    const IpAddress& to, RouteSide side) const {
  for (size_t i = 0; i < rules.size(); ++i) {
    const RoutingRule& rule = rules[i];
    if (!rule.Matches(from, to, side)) continue;
    switch (rule.action) {
      case RoutingRule::Action::kBlocked:
        return std::nullopt;
      case RoutingRule::Action::kNothing:
        break;
      case RoutingRule::Action::kGoto: {
        // The target itself is left out if it matches no packet.
        const auto target = std::ranges::lower_bound(
            rules.subspan(i + 1), rule.table, {}, &RoutingRule::priority);
        i = static_cast<size_t>(target - rules.begin()) - 1;
        break;
      }
      case RoutingRule::Action::kTable:
        if (const auto found = FindIn(rule, to); found.has_value()) {
          return found;
        }
        break;
    }
  }
  return std::nullopt;
}

std::optional<RouteTable::Found> Routes::FindIn(const RoutingRule& rule,
                                                const IpAddress& to) const {
  const auto other = others_.find(rule.table);
  const RouteTable& table = other == others_.end() ? main_ : other->second;
  const auto found = table.Find(to);
  if (!found.has_value() || found->kind == RouteKind::kThrow) {
    return std::nullopt;
  }
  // As in the kernel, no rule suppresses a route that blocks.
  const bool is_suppressed = found->kind != RouteKind::kBlocked &&
                             rule.suppressed.has_value() &&
                             found->length <= *rule.suppressed;
  return is_suppressed ? std::nullopt : found;
}

}  // namespace snf
