// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_report.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace snf {

NfReport IdsReport(const IdsOptions& options, IdsAlerts alerts,
                   uint64_t without_room) {
  const snort::RuleSet& set = options.matcher->set();
  FilterAlerts(set, alerts);
  std::map<uint32_t, uint64_t> counts;
  for (const auto& [key, alert] : alerts) ++counts[key.rule];
  std::vector<std::pair<uint32_t, uint64_t>> top(counts.begin(), counts.end());
  std::ranges::stable_sort(
      top, [](const auto& a, const auto& b) { return a.second > b.second; });

  NfReport report;
  NfReport::Table table = {.title = "Alerts",
                           .columns = {"rule", "message", "priority", "alerts"},
                           .rows = {}};
  for (size_t i = 0; i < std::min<size_t>(options.top, top.size()); ++i) {
    const snort::Rule& rule = set.rules[top[i].first];
    table.rows.push_back(
        {std::to_string(rule.gid) + ":" + std::to_string(rule.sid) + ":" +
             std::to_string(rule.revision),
         rule.message, uint64_t{rule.priority}, top[i].second});
  }
  if (without_room > 0) {
    table.rows.push_back({"(no room for)", "", uint64_t{0}, without_room});
  }
  report.tables.push_back(std::move(table));
  using Outcome = snort::RuleParser::Outcome;
  report.tables.push_back(
      {.title = "Rules",
       .columns = {"supported", "partly", "not_supported", "wrong", "patterns",
                   "without_pattern"},
       .rows = {{set.CountOf(Outcome::kSupported),
                 set.CountOf(Outcome::kPartly),
                 set.CountOf(Outcome::kUnsupported),
                 set.CountOf(Outcome::kWrong), options.matcher->patterns(),
                 options.matcher->rules_without_pattern()}}});
  if (options.eve.empty()) return report;
  std::string lines;
  for (const auto& [key, alert] : alerts) lines += EveLine(set, key, alert);
  report.files.push_back({options.eve, std::move(lines)});
  return report;
}

}  // namespace snf
