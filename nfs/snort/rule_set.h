// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_RULE_SET_H_
#define SNF_NFS_SNORT_RULE_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nfs/snort/problem.h"
#include "nfs/snort/rule.h"
#include "nfs/snort/rule_parser.h"
#include "nfs/snort/variables.h"

namespace snf::snort {

// The rules of some files, and a finding about each.
struct RuleSet {
  // Alerts of the rule (all rules of gid if sid is 0) that are left out: all,
  // or those from or to the addresses.
  struct Suppression {
    uint32_t gid = 1;
    uint32_t sid = 0;
    bool by_destination = false;
    std::shared_ptr<const AddressSet> addresses;  // null: all
  };
  // The result of reading one rule.
  struct Finding {
    Place place;
    uint32_t gid = 1;
    uint32_t sid = 0;
    std::string message;
    bool is_commented = false;
    RuleParser::Outcome outcome;
    std::vector<Problem> problems;  // errors, or parts without effect
  };

  std::vector<Rule> rules;  // supported, or partly
  std::vector<Suppression> suppressions;
  std::vector<Finding> findings;
  std::vector<Problem> notes;              // about lines that are no rules
  size_t flowbits = 0;                     // how many there are
  std::vector<std::string> flowbit_names;  // by number

  uint64_t CountOf(RuleParser::Outcome outcome) const;
};

// Reads rule files, with the lines that Snort's usual files have: variables,
// include, classifications, references, event filters and suppressions. Other
// lines of a snort.conf become notes. Owner-thread only; for set-up.
class RuleSetReader {
 public:
  struct Options {
    // Reads rules behind # as well.
    bool with_commented = false;
  };
  explicit RuleSetReader(Options options);
  RuleSetReader() : RuleSetReader(Options{}) {}

  Variables& variables() { return variables_; }

  // Reads a file. Fails if it cannot be read (the error of the system), or if
  // a line other than a rule is wrong (InvalidArgument with file, line and
  // column). Wrong rules are findings.
  absl::Status ReadFile(const std::string& file);
  // Reads text as if it were a file of that name.
  absl::Status ReadText(std::string_view text, const std::string& file);

  // Returns all rules. Call once.
  RuleSet Take();

  static constexpr size_t kMaxFileBytes = 256u << 20;
  static constexpr size_t kMaxIncludes = 16;  // files inside one another

 private:
  struct Class {
    std::string text;
    uint32_t priority;
  };

  absl::Status ReadLine(const LogicalLine& line, const std::string& file);
  void ReadRule(const LogicalLine& line, const std::string& file, size_t begin,
                bool is_commented);
  // Returns the file that a line of `file` includes, or why it must not.
  absl::StatusOr<std::string> PathOf(std::string_view value,
                                     const std::string& file) const;
  absl::Status ReadConfig(std::string_view value);
  absl::Status ReadFilter(std::string_view value);
  absl::Status ReadSuppression(std::string_view value);

  Options options_;
  Variables variables_;
  FlowbitNames flowbits_;
  RuleSet set_;
  std::map<std::string, Class, std::less<>> classes_;
  std::map<std::string, std::string, std::less<>> texts_;       // of var
  std::map<std::pair<uint32_t, uint32_t>, Threshold> filters_;  // by gid, sid
  std::map<std::pair<uint32_t, uint32_t>, size_t> by_sid_;      // in set_.rules
  std::vector<std::string> open_files_;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_RULE_SET_H_
