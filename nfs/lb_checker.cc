// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_checker.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quantity.h"

namespace snf {

uint32_t LbChecker::TableEntries(size_t servers) {
  const size_t groups = 2 * (servers / kGroupServers + 1);
  return static_cast<uint32_t>(servers + groups);
}

LbChecker::LbChecker(LbHealthOptions options, std::vector<LbEnd> targets,
                     Table table, LogId log)
    : options_(std::move(options)),
      targets_(std::move(targets)),
      table_(table),
      log_(log),
      request_(LbRequest(options_)) {
  for (uint16_t i = 0; i < targets_.size(); ++i) {
    const bool is_same = i > 0 && targets_[i] == targets_[i - 1];
    checked_as_.push_back(is_same ? checked_as_[i - 1] : i);
  }
}

uint64_t LbChecker::RoundOf(Instant time) const {
  const int64_t since = std::max<int64_t>(time.ns, 0);
  return 1 + static_cast<uint64_t>(since / options_.interval.ns);
}

bool LbChecker::IsUp(Instant now, uint16_t server) const {
  return snf::IsUp(table_.get(checked_as_[server]), RoundOf(now), options_);
}

LbServerHealth LbChecker::HealthOf(Instant now, uint16_t server) const {
  return snf::HealthOf(table_.get(checked_as_[server]), RoundOf(now), options_);
}

std::optional<Instant> LbChecker::SinceOf(const LbServerHealth& health) const {
  if (health.since == 0) return std::nullopt;
  return BeginOf(health.since);
}

Instant LbChecker::BeginOf(uint64_t round) const {
  return Instant{} +
         Nanos{options_.interval.ns * static_cast<int64_t>(round - 1)};
}

std::string LbChecker::WhyUnchecked(Instant now,
                                    const LbServerHealth& health) const {
  if (health.checked == 0) return "not checked yet";
  if (health.checked + 2 > RoundOf(now)) return "";
  return absl::StrCat("last checked ",
                      FormatDuration(now - BeginOf(health.checked)), " ago");
}

std::optional<uint16_t> LbChecker::FindUp(
    Instant now, const MaglevTable& table, uint64_t hash,
    absl::FunctionRef<bool(uint16_t)> may_be_chosen) const {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    hash = (hash ^ hash >> 31) * 0x9e37'79b9'7f4a'7c15;
    const uint16_t next = table.Find(hash);
    if (IsUp(now, next)) return next;
  }
  for (uint16_t i = 0; i < targets_.size(); ++i) {
    if (may_be_chosen(i) && IsUp(now, i)) return i;
  }
  return std::nullopt;
}

// The checks have the packet's link header, and so its version of IP.
uint32_t LbChecker::SendBeside(const Packet& packet, LbProbe::Way way,
                               absl::FunctionRef<bool(uint16_t)> is_used,
                               FlowState& flow) {
  const uint64_t round = RoundOf(packet.arrival());
  const bool is_ipv6 = packet.headers().l3 == L3::kIpv6;
  const uint64_t groups = targets_.size() / kGroupServers + 1;
  const uint64_t drawn =
      static_cast<uint64_t>(packet.arrival().ns) * 0x9e37'79b9'7f4a'7c15 >> 32;
  const uint64_t group = drawn % groups;
  const uint64_t key = kGroups + 2 * group + (is_ipv6 ? 1 : 0);
  if (table_.get(key).round >= round) return 0;
  table_.update(key, {.round = round, .sent = 1, .passed = 1});
  const size_t end =
      std::min<size_t>((group + 1) * kGroupServers, targets_.size());
  uint32_t sent = 0;
  for (size_t i = group * kGroupServers; i < end; ++i) {
    const auto server = static_cast<uint16_t>(i);
    if (targets_[i].is_ipv6 != is_ipv6 || !is_used(server)) continue;
    sent += SendCheck(packet, way, server, round, flow);
  }
  return sent;
}

uint32_t LbChecker::SendCheck(const Packet& packet, LbProbe::Way way,
                              uint16_t server, uint64_t round,
                              FlowState& flow) {
  const uint16_t checked = checked_as_[server];
  const LbChecks before = table_.get(checked);
  if (before.round >= round) return 0;
  const LbEnd& target = targets_[server];
  const LbProbe syn = LbProbe::Syn(packet, way, target,
                                   *options_.source(target.is_ipv6), round);
  if (!flow.emit(syn.frame())) return 0;
  const bool falls = snf::IsUp(before, before.round, options_) &&
                     !snf::IsUp(before, round, options_);
  table_.update(checked,
                {.round = round, .sent = 1, .down_at = falls ? round : 0});
  if (falls) flow.log(log_, InWords(target) + " is down");
  return 1;
}

bool LbChecker::IsToSource(const LbEnd& to) const {
  const auto& source = options_.source(to.is_ipv6);
  return source.has_value() && to.address == *source;
}

LbAnswer LbChecker::TakeAnswer(const Packet& segment, const LbEnd& from,
                               FlowState& flow) {
  const auto target = std::ranges::find(targets_, from);
  if (target == targets_.end()) return LbAnswer::kNone;
  const auto server = static_cast<uint64_t>(target - targets_.begin());
  const uint64_t now = RoundOf(segment.arrival());
  uint64_t round = 0;
  const LbAnswer answer = ReadLbAnswer(segment, from, now, options_, round);
  if (answer == LbAnswer::kOpen) {
    flow.emit(LbProbe::Answer(segment, request_).frame());
  } else if (answer == LbAnswer::kPassed || answer == LbAnswer::kFailed) {
    flow.emit(LbProbe::Answer(segment, "").frame());
  }
  LbChecks checks = table_.get(server);
  const bool was_up = snf::IsUp(checks, now, options_);
  LbChecks more = {.round = round,
                   .sent = 1,
                   .passed = answer == LbAnswer::kPassed ? 1u : 0u,
                   .reset = answer == LbAnswer::kRefused ? 1u : 0u,
                   .wrong = answer == LbAnswer::kFailed ? 1u : 0u};
  if (more.passed + more.reset + more.wrong == 0) return answer;
  MergeChecks(checks, more);
  if (!was_up && snf::IsUp(checks, now, options_)) {
    more.up_at = now;
    flow.log(log_, InWords(from) + " is up");
  }
  table_.update(server, more);
  return answer;
}

NfReport::Table LbChecker::Report() const {
  NfReport::Table table;
  table.title = "Health checks";
  table.columns = {"server", "state", "checks", "passed"};
  uint64_t now = 0;
  table_.for_each([&](uint64_t, const LbChecks& checks) {
    now = std::max(now, checks.round);
  });
  for (uint16_t i = 0; i < targets_.size(); ++i) {
    if (checked_as_[i] != i) continue;
    const LbChecks checks = table_.get(i);
    table.rows.push_back({InWords(targets_[i]),
                          snf::IsUp(checks, now, options_) ? "up" : "down",
                          static_cast<uint64_t>(std::popcount(checks.sent)),
                          static_cast<uint64_t>(std::popcount(checks.passed))});
  }
  return table;
}

}  // namespace snf
