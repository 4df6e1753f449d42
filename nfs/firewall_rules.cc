// SPDX-License-Identifier: Apache-2.0
#include "nfs/firewall_rules.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/rules/shadowed_rules.h"

namespace snf {
namespace {

// More of them are not told one by one.
constexpr size_t kMaxWarnings = 20;

std::string WithCommas(std::string text) {
  std::ranges::replace(text, '+', ',');
  return text;
}

// Adds the rules of an option, whose key is their action.
void AddRulesOf(NfOptions& o, FirewallAction action, RuleList& list) {
  const std::string key(kFirewallActions[static_cast<size_t>(action)]);
  const std::string text = WithCommas(
      o.Text(key, "", "RULE[;RULE…]",
             "rules that precede the rules of the file, deny first, then "
             "reject; write + for commas, and log in front of a rule to log "
             "its decisions"));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string rule = text.substr(begin, end - begin);
    begin = end + 1;
    const absl::Status added =
        AddRule(absl::StrCat(key, " ", rule), kFirewallActions, list);
    if (!added.ok()) {
      o.Fail(key, absl::StrCat("rules with semicolons between them; ",
                               std::string(added.message())));
    }
  }
}

std::vector<std::string> WarningsOf(const FirewallRules& rules,
                                    const std::vector<ShadowedRule>& shadowed) {
  std::vector<std::string> warnings;
  for (const auto& [rule, by] : shadowed) {
    if (warnings.size() == kMaxWarnings) {
      warnings.push_back(absl::StrCat("and ", shadowed.size() - kMaxWarnings,
                                      " more rules that never match"));
      break;
    }
    warnings.push_back(absl::StrCat(
        rules.PlaceOf(rule), ": \"", rules.TextOf(rule), "\" never matches: ",
        rules.PlaceOf(by), " \"", rules.TextOf(by), "\" has all its packets"));
  }
  return warnings;
}

}  // namespace

std::shared_ptr<const FirewallRules> FirewallRules::Of(NfOptions& options) {
  Source source;
  for (const FirewallAction action :
       {FirewallAction::kDeny, FirewallAction::kReject,
        FirewallAction::kAllow}) {
    AddRulesOf(options, action, source.list);
  }
  source.file = options.Text(
      "rules", "", "FILE",
      "file of rules in order, one a line: allow, deny, reject or mark, log if "
      "wanted, and a condition, such as \"deny log tcp from any to 10.0.0.0/8 "
      "port 22-23\"");
  source.sets = WithCommas(options.Text(
      "set", "", "NAME:@FILE[;…]|NAME:ENTRY[+…][;…]",
      "sets of addresses or ports, which rules name, as $NAME; a file has its "
      "entries in lines"));
  const auto rules = options.Share<FirewallRules>(
      "firewall", [&source] { return Read(source); });
  return rules != nullptr ? rules : std::make_shared<const FirewallRules>();
}

absl::StatusOr<FirewallRules> FirewallRules::Read(const Source& source) {
  FirewallRules rules;
  RuleList& list = rules.list_;
  list = source.list;
  if (!source.file.empty()) {
    absl::StatusOr<RuleList> more = LoadRules(source.file, kFirewallActions);
    if (!more.ok()) return more.status();
    list.Append(*std::move(more));
  }
  absl::StatusOr<std::vector<RuleSet>> sets = ParseRuleSets(source.sets);
  if (!sets.ok()) return sets.status();
  list.sets = *std::move(sets);
  absl::StatusOr<RuleTable> table = RuleTable::Build(list);
  if (!table.ok()) return table.status();
  rules.table_ = *std::move(table);
  rules.warnings_ = WarningsOf(rules, FindShadowedRules(list, rules.table_));
  list.sets = {};
  return rules;
}

bool FirewallRules::has(FirewallAction action) const {
  return std::ranges::find(list_.actions, static_cast<uint16_t>(action)) !=
         list_.actions.end();
}

bool FirewallRules::has_logged() const {
  return std::ranges::find(list_.is_logged, true) != list_.is_logged.end();
}

std::string FirewallRules::TextOf(uint32_t rule) const {
  constexpr size_t kMaxBytes = 200;  // of a rule with long lists
  std::string text =
      absl::StrCat(std::string(kFirewallActions[list_.actions[rule]]), " ",
                   is_logged(rule) ? "log " : "", ToString(list_.rules[rule]));
  if (text.size() <= kMaxBytes) return text;
  return text.substr(0, kMaxBytes) + "…";
}

}  // namespace snf
