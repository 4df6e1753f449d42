// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_FIREWALL_RULES_H_
#define SNF_NFS_FIREWALL_RULES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/rules/packet_rules.h"
#include "base/rules/rule_table.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

enum class FirewallAction : uint8_t { kAllow, kDeny, kReject, kMark };
inline constexpr std::array<std::string_view, 4> kFirewallActions = {
    "allow", "deny", "reject", "mark"};

// The rules of a firewall, which all of its objects in a run share. Never
// changes once read; any number of threads may look up.
class FirewallRules {
 public:
  // Asks for the options deny, reject, allow, rules and set. Without a rule, or
  // after an error, returns no rules.
  static std::shared_ptr<const FirewallRules> Of(NfOptions& options);

  uint32_t size() const { return static_cast<uint32_t>(list_.rules.size()); }
  // Returns the first rule that matches, or RuleTable::kNoRule.
  uint32_t Find(const PacketFields& fields) const {
    return table_.Find(fields);
  }
  FirewallAction action(uint32_t rule) const {
    return static_cast<FirewallAction>(list_.actions[rule]);
  }
  bool is_logged(uint32_t rule) const { return list_.is_logged[rule]; }
  bool has(FirewallAction action) const;
  bool has_logged() const;

  // Return the rule's place, as "fw.rules:12" or, of an option, "rule 3", and
  // the rule as text, as "deny tcp from any to any port 23".
  std::string PlaceOf(uint32_t rule) const { return list_.PlaceOf(rule); }
  std::string TextOf(uint32_t rule) const;
  // Says which rules are never the first to match.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // The rules of the options and the names of files, before these are read.
  struct Source {
    RuleList list;
    std::string file;
    std::string sets;
  };
  static absl::StatusOr<FirewallRules> Read(const Source& source);

  RuleList list_;  // without the entries of sets
  RuleTable table_;
  std::vector<std::string> warnings_;
};

}  // namespace snf

#endif  // SNF_NFS_FIREWALL_RULES_H_
