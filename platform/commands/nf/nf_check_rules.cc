// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_check_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "nfs/snort/rule_set.h"
#include "platform/process/clean_interrupt.h"

namespace snf {
namespace {

using snort::Problem;
using snort::RuleSet;
using Outcome = snort::RuleParser::Outcome;

constexpr std::array<std::string_view, 4> kOutcomes = {"supported", "partly",
                                                       "not", "wrong"};
std::string_view NameOf(Outcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}

// How many rules have a problem, by what became of them, option and reason; the
// most frequent first.
struct Reason {
  Outcome outcome;
  std::string option;
  std::string reason;
  uint64_t rules;
};
std::vector<Reason> ReasonsOf(const RuleSet& set) {
  std::map<std::tuple<Outcome, std::string, std::string>, uint64_t> counts;
  for (const RuleSet::Finding& finding : set.findings) {
    for (const Problem& problem : finding.problems) {
      ++counts[{finding.outcome, problem.option, problem.reason}];
    }
  }
  std::vector<Reason> reasons;
  for (const auto& [key, rules] : counts) {
    const auto& [outcome, option, reason] = key;
    reasons.push_back({outcome, option, reason, rules});
  }
  std::ranges::stable_sort(reasons, [](const Reason& a, const Reason& b) {
    return std::pair(a.outcome, b.rules) < std::pair(b.outcome, a.rules);
  });
  return reasons;
}

// Text of a rule file may be in any encoding.
std::string Dumped(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string JsonOf(const RuleSet& set) {
  nlohmann::json json = {{"rules", nlohmann::json::array()},
                         {"reasons", nlohmann::json::array()},
                         {"notes", nlohmann::json::array()}};
  for (const Outcome outcome : {Outcome::kSupported, Outcome::kPartly,
                                Outcome::kUnsupported, Outcome::kWrong}) {
    json["summary"][std::string(NameOf(outcome))] = set.CountOf(outcome);
  }
  for (const RuleSet::Finding& finding : set.findings) {
    nlohmann::json problems = nlohmann::json::array();
    for (const Problem& problem : finding.problems) {
      problems.push_back({{"line", problem.place.line},
                          {"column", problem.place.column},
                          {"option", problem.option},
                          {"value", problem.value},
                          {"reason", problem.reason}});
    }
    json["rules"].push_back({{"file", finding.place.file},
                             {"line", finding.place.line},
                             {"gid", finding.gid},
                             {"sid", finding.sid},
                             {"message", finding.message},
                             {"commented", finding.is_commented},
                             {"outcome", NameOf(finding.outcome)},
                             {"problems", std::move(problems)}});
  }
  for (const Reason& reason : ReasonsOf(set)) {
    json["reasons"].push_back({{"outcome", NameOf(reason.outcome)},
                               {"option", reason.option},
                               {"reason", reason.reason},
                               {"rules", reason.rules}});
  }
  for (const Problem& note : set.notes) json["notes"].push_back(note.ToText());
  return Dumped(json);
}

void Print(const RuleSet& set, bool all) {
  for (const RuleSet::Finding& finding : set.findings) {
    if (finding.outcome == Outcome::kSupported && all) {
      fmt::print("{}:{}: {}:{} supported\n", finding.place.file,
                 finding.place.line, finding.gid, finding.sid);
    }
    for (const Problem& problem : finding.problems) {
      fmt::print("{} [{}:{} {}]\n", problem.ToText(), finding.gid, finding.sid,
                 NameOf(finding.outcome));
    }
  }
  for (const Problem& note : set.notes) fmt::print("{}\n", note.ToText());
  const auto total = set.findings.size();
  fmt::print("\n{:>8}  rules\n", total);
  for (const Outcome outcome : {Outcome::kSupported, Outcome::kPartly,
                                Outcome::kUnsupported, Outcome::kWrong}) {
    const uint64_t count = set.CountOf(outcome);
    fmt::print("{:>8}  {:<9}  {:.2f} %\n", count, NameOf(outcome),
               total == 0 ? 0.0
                          : 100.0 * static_cast<double>(count) /
                                static_cast<double>(total));
  }
  const std::vector<Reason> reasons = ReasonsOf(set);
  if (!reasons.empty()) fmt::print("\n{:>8}  {:<9}  reason\n", "rules", "");
  for (const Reason& reason : reasons) {
    fmt::print("{:>8}  {:<9}  {}{}{}\n", reason.rules, NameOf(reason.outcome),
               reason.option, reason.option.empty() ? "" : ": ", reason.reason);
  }
}

class NfCheckRules final : public FlagCommand {
 public:
  NfCheckRules()
      : FlagCommand(
            {.summary = "check which rules of Snort the NF ids honours",
             .usage = "snf nf check-rules FILE… [--vars=FILE] [--commented] "
                      "[--all] [--json]",
             .about =
                 "Reads rule files of Snort 2.9, and says of each rule whether "
                 "the NF ids honours it wholly (supported), in part (partly, "
                 "with the parts that have no effect), or leaves it out (not, "
                 "or wrong: the rule has an error). Exits with 65 if a rule is "
                 "wrong."}) {
    flags().Arguments("FILE", files_, 1);
    flags().Text("vars", vars_, "FILE",
                 "file of variables, read before the rules");
    flags().Switch("commented", commented_, "check rules behind # as well");
    flags().Switch("all", all_, "print a line for supported rules as well");
    flags().Switch("json", json_, "as JSON");
  }

 private:
  absl::Status Run() override {
    EndCleanlyWhenInterrupted(name());
    snort::RuleSetReader reader({.with_commented = commented_});
    if (!vars_.empty()) {
      const absl::Status status = reader.ReadFile(vars_);
      if (!status.ok()) return AsBadData(status);
    }
    for (const std::string& file : files_) {
      const absl::Status status = reader.ReadFile(file);
      if (!status.ok()) return AsBadData(status);
    }
    const RuleSet set = reader.Take();
    if (json_) {
      fmt::print("{}", JsonOf(set));
    } else {
      Print(set, all_);
    }
    if (set.findings.empty()) {
      return absl::DataLossError(files_[0] + ": has no rules");
    }
    if (set.CountOf(Outcome::kWrong) > 0) set_exit_code(kExitBadData);
    return absl::OkStatus();
  }

  // The error is in a file, not in the command line.
  static absl::Status AsBadData(const absl::Status& status) {
    if (!absl::IsInvalidArgument(status)) return status;
    return absl::DataLossError(status.message());
  }

  std::vector<std::string> files_;
  std::string vars_;
  bool commented_ = false;
  bool all_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> CreateNfCheckRulesCommand() {
  return std::make_unique<NfCheckRules>();
}

}  // namespace snf
