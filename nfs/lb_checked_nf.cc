// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_checked_nf.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nfs/lb_health.h"

namespace snf {

NfReport CheckedNf::report() const {
  NfReport report;
  if (checks_.has_value()) report.tables.push_back(checks_->checker.Report());
  return report;
}

void CheckedNf::DeclareChecks(const LbHealthOptions& options,
                              std::vector<LbEnd> targets, const Nouns& nouns) {
  const std::string many(nouns.many);
  const auto table = declare_shared<uint64_t, LbChecks>(
      "checks", LbChecker::TableEntries(targets.size()),
      [](LbChecks& checks, const LbChecks& more) {
        MergeChecks(checks, more);
      });
  const LogId log = declare_log(
      "health", absl::StrCat(many, " that checks found down, or up"));
  checks_.emplace(Checks{
      .checker = LbChecker(options, std::move(targets), table, log),
      .sent = declare_counter("checks",
                              absl::StrCat("health checks sent to ", many)),
      .passed = declare_counter("checks_passed", "of them"),
      .refused = declare_counter("checks_refused", "of them, by a reset"),
      .avoided = declare_counter(
          "down_avoided", absl::StrCat("choices of ", std::string(nouns.other),
                                       ", since one was down")),
      .all_down = declare_counter(
          "down_used", absl::StrCat("choices of ", std::string(nouns.one),
                                    " that is down, as all are"))});
}

std::vector<NetworkFunction::Counter> CheckedNf::DeclareForEach(
    const std::vector<std::string>& names, std::string_view text) {
  constexpr size_t kMost = 64;
  std::vector<Counter> counters;
  if (names.size() > kMost) return counters;
  for (const std::string& name : names) {
    counters.push_back(declare_counter(name, std::string(text)));
  }
  return counters;
}

void CheckedNf::SendChecks(const Packet& packet, LbProbe::Way way,
                           absl::FunctionRef<bool(uint16_t)> is_used,
                           FlowState& flow) {
  count(checks_->sent, checks_->checker.SendBeside(packet, way, is_used, flow));
}

Verdict CheckedNf::TakeAnswer(const Packet& packet, const LbEnd& from,
                              FlowState& flow) {
  const LbAnswer answer = checks_->checker.TakeAnswer(packet, from, flow);
  if (answer == LbAnswer::kRefused) count(checks_->refused);
  if (answer == LbAnswer::kPassed) count(checks_->passed);
  return Verdict::consume();
}

void CheckedNf::AddHealth(Instant now, uint16_t server, bool is_draining,
                          NfState& state) const {
  if (!checks_.has_value()) return;
  const LbServerHealth health = checks_->checker.HealthOf(now, server);
  if (health.is_up && is_draining) return;
  if (!health.is_up) state.state = "down";
  state.why = health.is_up ? checks_->checker.WhyUnchecked(now, health)
                           : std::string(health.why);
  const auto since = checks_->checker.SinceOf(health);
  if (since.has_value()) state.since = since;
}

}  // namespace snf
