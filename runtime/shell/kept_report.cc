// SPDX-License-Identifier: Apache-2.0
#include "runtime/shell/kept_report.h"

#include <algorithm>

namespace snf {

void KeptReport::on_name(const FlowName& name,
                         absl::FunctionRef<bool(FlowId)> keeps) {
  if (names_.size() >= forget_at_) {
    std::erase_if(names_, [&](const auto& kept) {
      return kept.second.round < round_ && !keeps(kept.first);
    });
    ++round_;
    forget_at_ = std::max(kFewNames, 2 * names_.size());
  }
  Kept& kept = names_[name.flow];
  if (kept.name.flow != kNoFlow && kept.name.alias != name.alias) {
    kept.before = kept.name;
  }
  kept.name = name;
  kept.round = round_;
}

void KeptReport::on_grant(const PieceBlock& pieces) {
  TurnOver(pieces);
  unlogged_.push_back({.number = ++grants_, .pieces = pieces});
}

void KeptReport::on_grants_logged(uint64_t number) {
  while (!unlogged_.empty() && unlogged_.front().number <= number) {
    unlogged_.pop_front();
  }
}

void KeptReport::on_grants_sealed(uint64_t logged) {
  on_grants_logged(logged);
  for (const GrantReport& grant : unlogged_) TurnOver(grant.pieces);
  unlogged_.clear();
}

void KeptReport::BeginAnew(absl::FunctionRef<bool(FlowId)> keeps) {
  std::erase_if(names_, [&](const auto& kept) { return !keeps(kept.first); });
  unlogged_.clear();
  grants_ = 0;
}

void KeptReport::ForEachName(
    absl::FunctionRef<void(const FlowName&)> visit) const {
  for (const auto& [flow, kept] : names_) {
    if (kept.before.flow != kNoFlow) visit(kept.before);
    visit(kept.name);
  }
}

void KeptReport::ForEachWord(
    UnitId unit, absl::FunctionRef<void(const PieceBlock&)> visit) const {
  for (const auto& [place, mask] : ledger_) {
    if (mask == 0) continue;
    visit({.word = place.second,
           .pool = place.first,
           .unit = unit,
           .mask = mask});
  }
}

void KeptReport::ForEachGrant(
    absl::FunctionRef<void(const GrantReport&)> visit) const {
  for (const GrantReport& grant : unlogged_) visit(grant);
}

}  // namespace snf
