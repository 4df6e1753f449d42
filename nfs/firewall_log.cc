// SPDX-License-Identifier: Apache-2.0
#include "nfs/firewall_log.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rules/eve_text.h"

namespace snf {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

}  // namespace

NfReport::Table RuleHitsTable(const FirewallRules& rules,
                              std::string_view default_action, size_t top,
                              const std::vector<FirewallHits>& hits) {
  std::vector<uint32_t> shown(rules.size());
  std::iota(shown.begin(), shown.end(), 0);
  if (top < shown.size()) {
    std::ranges::stable_sort(shown, [&hits](uint32_t a, uint32_t b) {
      return hits[a].packets > hits[b].packets;
    });
    shown.resize(top);
    std::ranges::sort(shown);
  }
  NfReport::Table table = {
      .title = "Rules",
      .columns = {"place", "rule", "times", "packets", "bytes", "last"},
      .rows = {}};
  const auto add = [&](std::string place, std::string text,
                       const FirewallHits& of) {
    table.rows.push_back({std::move(place), std::move(text), of.times,
                          of.packets, of.bytes,
                          of.packets == 0 ? "" : EveTime(of.last_ns)});
  };
  for (const uint32_t rule : shown) {
    add(rules.PlaceOf(rule), rules.TextOf(rule), hits[rule]);
  }
  add("default", std::string(default_action), hits[rules.size()]);
  return table;
}

uint64_t LimitLog(uint64_t rate, FirewallLog& log) {
  std::ranges::sort(log, {}, [](const auto& one) {
    return std::tuple(one.first.time_ns, one.first.ends, one.first.rule);
  });
  FirewallLogLimit limit(rate);
  return std::erase_if(
      log, [&](const auto& one) { return !limit.Passes(one.first); });
}

std::optional<uint64_t> FirewallLogLimit::Passes(const FirewallLogKey& key) {
  Period& period = periods_[key.rule];
  const uint64_t second = key.time_ns / kSecond;
  if (second > period.second) {
    period.second = second;
    period.count = 0;
  }
  if (++period.count > rate_) {
    ++period.held_back;
    return std::nullopt;
  }
  return std::exchange(period.held_back, 0);
}

std::string LogLine(const FirewallRules& rules, const FirewallLogKey& key,
                    const FirewallLogged& logged, uint64_t held_back) {
  const auto rule = static_cast<uint32_t>(key.rule);
  const FirewallAction action = rules.action(rule);
  const bool passes =
      action == FirewallAction::kAllow || action == FirewallAction::kMark;
  return absl::StrCat(
      EveBegin({.type = "firewall",
                .time_ns = key.time_ns,
                .begin_ns = key.time_ns,
                .ends = key.ends}),
      ",\"firewall\":{\"action\":\"",
      std::string(kFirewallActions[static_cast<size_t>(action)]),
      "\",\"place\":", EveQuoted(rules.PlaceOf(rule)),
      ",\"rule\":", EveQuoted(rules.TextOf(rule)), ",\"times\":", logged.times,
      ",\"bytes\":", logged.bytes,
      held_back > 0 ? absl::StrCat(",\"held_back\":", held_back) : "",
      "},\"verdict\":{\"action\":\"", passes ? "pass" : "drop", "\"}}\n");
}

}  // namespace snf
