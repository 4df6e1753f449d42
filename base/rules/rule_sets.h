// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_RULE_SETS_H_
#define SNF_BASE_RULES_RULE_SETS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/packet/ip_prefix.h"

namespace snf {

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

// Reads "80" or "8000-8999". InvalidArgument quotes the text.
absl::StatusOr<PortRange> ParsePortRange(std::string_view text);

// A set that rules name, as $bad: of addresses or of ports, not of both. An
// entry may stand twice or lie within others. A set without entries matches
// nothing, and may be named in place of both kinds.
struct RuleSet {
  std::string name;
  std::vector<IpPrefix> prefixes;
  std::vector<PortRange> ports;
};

inline constexpr size_t kMaxSets = 256;
// The entries of all sets together. An entry takes up to 200 bytes, and twice
// that while a rule table is built.
inline constexpr size_t kMaxSetEntries = 500'000;
inline constexpr size_t kMaxSetFileBytes = 32 * 1024 * 1024;

// Returns true for letters, digits, "_", "-" and ".", of which a set's name
// consists.
bool IsSetName(std::string_view name);

// Reads the entries of a set: addresses with or without a prefix length, or
// ports and ranges of ports, with blanks, commas or ends of lines between them.
// "#" begins a comment. Errors name the file, as `place`, the line and the
// entry: `bad.txt:12: "10.0.0.1/8": …`.
absl::StatusOr<RuleSet> ParseRuleSet(std::string_view name,
                                     std::string_view text,
                                     const std::string& place);

// Reads sets as an option gives them: "bad:@bad.txt;web:80,443". Behind "@"
// is the name of a file of entries, of at most kMaxSetFileBytes.
absl::StatusOr<std::vector<RuleSet>> ParseRuleSets(std::string_view text);

}  // namespace snf

#endif  // SNF_BASE_RULES_RULE_SETS_H_
