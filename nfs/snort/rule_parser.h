// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_RULE_PARSER_H_
#define SNF_NFS_SNORT_RULE_PARSER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/snort/problem.h"
#include "nfs/snort/rule.h"
#include "nfs/snort/variables.h"

namespace snf::snort {

// Names of flowbits, numbered as they are first seen.
class FlowbitNames {
 public:
  uint32_t NumberOf(std::string_view name);
  size_t size() const { return numbers_.size(); }
  std::vector<std::string> names() const;  // by number

 private:
  std::map<std::string, uint32_t, std::less<>> numbers_;
};

// Reads rules of Snort 2.9 (its manual, chapter 3). Thread-compatible; the
// objects must outlive it.
class RuleParser {
 public:
  RuleParser(Variables& variables, FlowbitNames& flowbits)
      : variables_(variables), flowbits_(flowbits) {}

  enum class Outcome : uint8_t {
    kSupported,
    kPartly,       // rule.ignored names parts without effect
    kUnsupported,  // problem says which option
    kWrong,        // problem says what is wrong with the text
  };
  struct Result {
    Outcome outcome = Outcome::kSupported;
    Rule rule;  // valid up to kPartly; else incomplete
    Problem problem;
  };
  // Reads one rule; `begin` is where it begins in the line.
  Result Parse(const LogicalLine& line, const std::string& file,
               size_t begin = 0);

  // Returns true if the text begins with an action, as a rule does.
  static bool LooksLikeRule(std::string_view text);

  // Limits of one rule.
  static constexpr size_t kMaxPayloadTests = 64;
  static constexpr size_t kMaxContentBytes = 4'096;

 private:
  Variables& variables_;
  FlowbitNames& flowbits_;
};

// Reads "type limit, track by_src, count 1, seconds 60"; InvalidArgument else.
absl::StatusOr<Threshold> ParseThreshold(std::string_view text, bool is_filter);

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_RULE_PARSER_H_
