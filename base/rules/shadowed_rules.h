// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_SHADOWED_RULES_H_
#define SNF_BASE_RULES_SHADOWED_RULES_H_

#include <cstdint>
#include <vector>

#include "base/rules/packet_rules.h"
#include "base/rules/rule_table.h"

namespace snf {

// A rule that is never the first to match, since the earlier rule `by` matches
// all of its packets.
struct ShadowedRule {
  uint32_t rule;
  uint32_t by;
  friend bool operator==(const ShadowedRule&, const ShadowedRule&) = default;
};

// Theory of operation. Finds rules that one earlier rule covers. A rule that
// covers another matches each of its packets, so it is found by one packet: the
// earlier rules that match this packet are compared with the rule, part by
// part. Lists and sets are compared as the union of their entries.
//
// Example: 0 "tcp to 10.0.0.0/8", 1 "tcp to 10.1.0.0/16 port 22", 2 "udp". The
// packet of rule 1 to 10.1.0.0 port 22 matches rule 0, which covers rule 1.
//
// A rule that several rules cover only together is not found, nor one whose
// packet more than kMaxLooks earlier rules match without covering it. `table`
// is that of the list. For set-up: the cost of each rule is some look-ups, and
// that of sets is bounded by kMaxSteps entries in all.
std::vector<ShadowedRule> FindShadowedRules(const RuleList& list,
                                            const RuleTable& table);

inline constexpr int kMaxLooks = 16;
inline constexpr int64_t kMaxSteps = 20'000'000;

}  // namespace snf

#endif  // SNF_BASE_RULES_SHADOWED_RULES_H_
