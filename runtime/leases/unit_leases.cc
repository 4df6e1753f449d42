// SPDX-License-Identifier: Apache-2.0
#include "runtime/leases/unit_leases.h"

#include <algorithm>

namespace snf {

UnitLeases::Refusal UnitLeases::Check(const SetShare& set) const {
  if (set.to != life_) return Refusal::kStaleIncarnation;
  if (set.manager_epoch < manager_epoch_) return Refusal::kStaleEpoch;
  if (set.share < 0 || set.share > kWholeUnit) return Refusal::kBadShare;
  const auto at = leases_.find(set.lease);
  int64_t before = 0;
  if (at != leases_.end()) {
    // Another life of its holder goes on with it.
    if (at->second.holder.controller != set.holder.controller ||
        at->second.holder.epoch > set.holder.epoch) {
      return Refusal::kNotHolder;
    }
    if (set.sequence <= at->second.sequence) return Refusal::kStaleNumber;
    before = at->second.share;
  } else if (set.share > 0 && IsOver(set.lease)) {
    return Refusal::kStaleNumber;
  } else if (set.share > 0 && leases_.size() >= kMostLeases) {
    return Refusal::kTooMuch;
  }
  return set.share > before && promised_ + set.share - before > kWholeUnit
             ? Refusal::kTooMuch
             : Refusal::kNone;
}

void UnitLeases::Answer(const Leases::value_type& lease,
                        std::vector<ShareSet>& out) const {
  out.push_back({life_, manager_epoch_, lease.first, lease.second.sequence,
                 lease.second.share});
}

UnitLeases::Refusal UnitLeases::on_set_share(const SetShare& set,
                                             std::vector<ShareSet>& out) {
  if (const Refusal why = Check(set); why != Refusal::kNone) {
    ++refused_[static_cast<size_t>(why)];
    // The answer may be lost.
    const auto at = leases_.find(set.lease);
    if (why == Refusal::kStaleNumber && at != leases_.end() &&
        at->second.sequence == set.sequence && at->second.target > 0) {
      Answer(*at, out);
    }
    return why;
  }
  manager_epoch_ = set.manager_epoch;
  const auto [at, is_new] = leases_.try_emplace(set.lease);
  Lease& lease = at->second;
  int64_t& shares = shares_[value(set.holder.controller)];
  shares += set.share - lease.target;
  lease.holder = set.holder;
  lease.sequence = set.sequence;
  lease.target = set.share;
  // One that was never heard of has nothing to drain.
  lease.has_left |= is_new && set.share == 0;
  inboxes_.SetShare(value(set.holder.controller),
                    static_cast<uint32_t>(std::min(shares, kWholeUnit)));
  if (set.share > 0) {
    promised_ += set.share - lease.share;
    lease.share = set.share;
    Answer(*at, out);
  }
  EndDrained(set.holder.controller, out);
  return Refusal::kNone;
}

UnitLeases::Refusal UnitLeases::on_set_share(const SetShare& set, bool is_used,
                                             std::vector<ShareSet>& out) {
  const Refusal why = on_set_share(set, out);
  if (set.share == 0 && !is_used) on_unused(set.lease, out);
  return why;
}

std::optional<std::vector<ReportedLease>> UnitLeases::on_ask_report(
    uint64_t manager_epoch) {
  if (manager_epoch < manager_epoch_) {
    ++refused_[static_cast<size_t>(Refusal::kStaleEpoch)];
    return std::nullopt;
  }
  manager_epoch_ = manager_epoch;
  return Report();
}

std::vector<ReportedLease> UnitLeases::Report() const {
  std::vector<ReportedLease> report;
  for (const auto& [id, lease] : leases_) {
    report.push_back(
        {id, lease.holder, lease.sequence, lease.share, lease.target});
  }
  return report;
}

void UnitLeases::on_left(ControllerId controller, LeaseId newest,
                         std::vector<ShareSet>& out) {
  for (auto& [id, lease] : leases_) {
    if (id > newest) break;
    lease.has_left |= lease.holder.controller == controller;
  }
  EndDrained(controller, out);
}

void UnitLeases::on_unused(LeaseId lease, std::vector<ShareSet>& out) {
  const auto at = leases_.find(lease);
  if (at == leases_.end() || at->second.target > 0) return;
  at->second.has_left = true;
  EndDrained(at->second.holder.controller, out);
}

void UnitLeases::on_unused(ControllerId controller,
                           std::vector<ShareSet>& out) {
  for (auto& [id, lease] : leases_) {
    lease.has_left |=
        lease.holder.controller == controller && lease.target == 0;
  }
  EndDrained(controller, out);
}

void UnitLeases::EndDrained(ControllerId controller,
                            std::vector<ShareSet>& out) {
  bool goes_on = false;
  for (const auto& [id, lease] : leases_) {
    goes_on |= lease.holder.controller == controller && lease.target > 0 &&
               !lease.has_left;
  }
  for (auto at = leases_.begin(); at != leases_.end();) {
    const auto lease = at++;
    Lease& l = lease->second;
    if (l.holder.controller != controller || l.target > 0) continue;
    if (!goes_on && !l.has_left) continue;
    promised_ -= l.share;
    l.share = 0;
    Answer(*lease, out);
    NoteOver(lease->first);
    leases_.erase(lease);
  }
}

void UnitLeases::NoteOver(LeaseId lease) {
  if (lease <= forgotten_) return;
  over_.insert(lease);
  if (over_.size() <= kMostLeases) return;
  forgotten_ = *over_.begin();
  over_.erase(over_.begin());
}

}  // namespace snf
