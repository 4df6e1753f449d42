// SPDX-License-Identifier: Apache-2.0
#include "platform/options/story_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "controller/policies/policy_module.h"
#include "platform/options/explain_request.h"

namespace snf {
namespace {

// Returns true for stdin, a pipe and the like.
bool CanBeReadOnlyOnce(const std::string& file) {
  std::error_code ignored;
  const auto type = std::filesystem::status(file, ignored).type();
  return file == "-" || type == std::filesystem::file_type::fifo ||
         type == std::filesystem::file_type::character ||
         type == std::filesystem::file_type::socket;
}

}  // namespace

StoryFlags::StoryFlags(RunFlagSet& set) : set_(set) {
  if (!set_.has_captures) return;
  set_.flags.Duration(
      "warm_up", set_.request.warm_up, Nanos{0}, Seconds(86'400),
      "leave so much of the beginning out of latency, of the number of units "
      "and of a unit's utilisation. Counters and time series still include it");
  AddLogs();
  AddExplain();
  AddCompare();
}

void StoryFlags::AddLogs() {
  set_.flags
      .Text("decisions", set_.request.decisions, "FILE",
            "write every placement of a flowlet and what the policy saw to "
            "FILE (.csv, or .jsonl for an object a line, also with .gz or "
            ".zst)")
      .is_output = true;
  set_.flags
      .Text("usage", set_.request.usage, "FILE",
            "write the chain's usage to FILE (- is stdout, with --json "
            "elsewhere): a JSON object a line for each second, with packets, "
            "bytes, processing time of units, and bytes of state times "
            "seconds")
      .is_output = true;
}

void StoryFlags::AddExplain() {
  set_.flags
      .Text("explain", explain_, "FLOW",
            "tell the story of a flow, also in --json: top (the most bytes), "
            "top:N (the N flows that have most), worst-wait (the flow whose "
            "packet waited longest), or as in 'tcp 10.0.0.1:5000 > "
            "192.0.2.9:80'. Separate several flows with ;. If the NF has two "
            "sides, as nat, name the inside endpoint: 'tcp 10.0.0.1:5000'")
      .is_output = true;
}

void StoryFlags::AddCompare() {
  set_.flags
      .Custom(
          "compare", "POLICY[,POLICY…]",
          "run the same under each of these policies too, at most 4 (names, or "
          "files of modules), and print the results side by side",
          [this](const std::string& text) { return ParseCompare(text); },
          [this] { return fmt::format("{}", fmt::join(compared_, ",")); })
      .is_output = true;
}

absl::Status StoryFlags::ParseCompare(const std::string& text) {
  constexpr size_t kMost = 4;
  std::vector<std::string> policies;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto chosen = ChoosePolicy(text.substr(begin, end - begin));
    if (!chosen.ok()) return chosen.status();
    const std::string policy((*chosen)->name());
    if (std::ranges::find(policies, policy) != policies.end()) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is named twice", policy));
    }
    policies.push_back(policy);
    begin = end + 1;
  }
  if (policies.size() > kMost) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" names more than {}", text, kMost));
  }
  compared_ = policies;
  return absl::OkStatus();
}

absl::Status StoryFlags::Check() const {
  const bool compares = !compared_.empty();
  return set_.Check({{.flags = {"compare"},
                      .with = "policy",
                      .when = set_.request.policies.size() == 1,
                      .because = "there is no other policy to compare with"},
                     {.flags = {"out", "drops", "csv", "decisions", "usage",
                                "nf_logs", "ipfix", "explain"},
                      .with = "compare",
                      .when = compares,
                      .because = "only a single run has that"}});
}

absl::Status StoryFlags::CheckReadOnce() const {
  const bool has_a_pass = ExplainsAfterAPass(explain_);
  if (!has_a_pass && compared_.empty()) return absl::OkStatus();
  for (const std::string& file : set_.request.files) {
    if (!CanBeReadOnlyOnce(file)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{} with {}: it reads the capture more than once, which {} cannot",
        set_.flags.Printed(has_a_pass ? "explain" : "compare"), file,
        file == "-" ? "stdin" : "a pipe"));
  }
  return absl::OkStatus();
}

absl::Status StoryFlags::SettleExplain(bool is_inside_end) {
  auto explain = ParseExplain(explain_, {.kind = set_.request.run.flow.kind,
                                         .is_inside_end = is_inside_end,
                                         .nf_flag = set_.flags.Printed("nf")});
  if (!explain.ok()) return explain.status();
  set_.request.explain = *std::move(explain);
  return absl::OkStatus();
}

}  // namespace snf
