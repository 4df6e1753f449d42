// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/lease_book.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace snf {

LeaseBook::LeaseBook(const ManagerOptions& options, uint64_t epoch)
    : epoch_(epoch),
      term_(options.term),
      revoke_grace_(options.revoke_grace),
      units_(options.max_units),
      of_unit_(options.max_units, options.max_units * kKnownPerUnit),
      of_controller_(kControllerIds, options.max_units * kKnownPerUnit),
      due_(kDues, options.max_units * kKnownPerUnit),
      unconfirmed_(1, options.max_units * kKnownPerUnit) {}

uint32_t LeaseBook::Find(LeaseId lease) const {
  const auto at = slots_.find(value(lease));
  return at == slots_.end() ? kNone : at->second;
}

bool LeaseBook::HoldsAnyAbove(int64_t share) const {
  return std::ranges::any_of(held_, [&](int64_t held) { return held > share; });
}

LeaseRefusal LeaseBook::Check(std::span<const ReportedLease> leases) const {
  if (slots_.size() + leases.size() > max_known()) {
    return LeaseRefusal::kTooMuch;
  }
  int64_t sum = 0;
  absl::flat_hash_set<uint64_t> told;
  for (const ReportedLease& lease : leases) {
    const bool fits = lease.share >= 0 && lease.target >= 0 &&
                      lease.share <= kWholeUnit && lease.target <= kWholeUnit;
    if (!fits) return LeaseRefusal::kBadReport;
    sum += std::max(lease.share, lease.target);
    if (sum > kWholeUnit || !told.insert(value(lease.lease)).second ||
        Find(lease.lease) != kNone || value(lease.lease) >> 32 >= epoch_ ||
        lease.holder.epoch >> 32 >= epoch_) {
      return LeaseRefusal::kBadReport;
    }
  }
  return LeaseRefusal::kNone;
}

uint32_t LeaseBook::FirstDue(Due by, Instant now) const {
  const uint32_t slot = due_.Front(by);
  return slot != kNone && leases_[slot].due <= now ? slot : kNone;
}

// --- Shares ------------------------------------------------------------------

uint32_t LeaseBook::Insert(const Lease& lease, UnitStock& units) {
  uint32_t slot = static_cast<uint32_t>(leases_.size());
  if (free_slots_.empty()) {
    leases_.push_back(lease);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    leases_[slot] = lease;
  }
  slots_[value(lease.id)] = slot;
  of_unit_.PushBack(lease.unit, slot);
  ++units[lease.unit].leases;
  return slot;
}

uint32_t LeaseBook::Add(LeaseId id, ControllerLife holder, uint32_t unit,
                        UnitStock& units) {
  return Insert({.id = id, .holder = holder, .unit = unit}, units);
}

uint32_t LeaseBook::Adopt(uint32_t unit, const ReportedLease& told,
                          UnitStock& units) {
  const int64_t most = std::max(told.share, told.target);
  const uint32_t slot = Insert({.id = told.lease,
                                .holder = told.holder,
                                .unit = unit,
                                .reserved = most,
                                .sequence = told.sequence},
                               units);
  units.Reserve(unit, most);
  return slot;
}

void LeaseBook::Erase(uint32_t slot, UnitStock& units) {
  const Lease& lease = leases_[slot];
  held_[value(lease.holder.controller)] -= lease.share;
  shares_ -= lease.share > 0;
  units.Reserve(lease.unit, -lease.reserved);
  slots_.erase(value(lease.id));
  of_unit_.Remove(slot);
  of_controller_.Remove(slot);
  due_.Remove(slot);
  unconfirmed_.Remove(slot);
  free_slots_.push_back(slot);
  --units[lease.unit].leases;
}

void LeaseBook::SetTo(uint32_t slot, int64_t share, UnitStock& units,
                      ManagerOut& out) {
  Lease& lease = leases_[slot];
  held_[value(lease.holder.controller)] += share - lease.share;
  shares_ += share > 0;
  shares_ -= lease.share > 0;
  lease.share = share;
  lease.confirmed = false;
  if (share > lease.reserved) {
    units.Reserve(lease.unit, share - lease.reserved);
    lease.reserved = share;
  }
  const uint32_t holder = value(lease.holder.controller);
  if (share == 0) {
    of_controller_.Remove(slot);
    due_.Remove(slot);
  } else if (share == kWholeUnit) {
    of_controller_.PushBack(holder, slot);
  } else {
    of_controller_.PushFront(holder, slot);
  }
  ++lease.sequence;
  lease.set_at = ticks_;
  SayShare(slot, units, out);
}

void LeaseBook::Confirm(uint32_t slot, UnitStock& units, ManagerOut& out) {
  Lease& lease = leases_[slot];
  units.Reserve(lease.unit, lease.share - lease.reserved);
  lease.reserved = lease.share;
  lease.confirmed = true;
  unconfirmed_.Remove(slot);
  SayGrant(slot, units, out);
}

void LeaseBook::GiveTo(uint32_t slot, ControllerLife holder, UnitStock& units,
                       ManagerOut& out) {
  leases_[slot].holder = holder;
  leases_[slot].is_heard = false;
  SetTo(slot, leases_[slot].share, units, out);
}

void LeaseBook::End(uint32_t slot, bool tell, UnitStock& units,
                    ManagerOut& out) {
  if (tell) SayGone(slot, out);
  SetTo(slot, 0, units, out);
}

void LeaseBook::EndAll(ControllerId controller, UnitStock& units,
                       ManagerOut& out) {
  for (uint32_t slot; (slot = FirstOf(value(controller))) != kNone;) {
    End(slot, false, units, out);
  }
}

void LeaseBook::StartTerm(Instant now, uint32_t slot) {
  leases_[slot].due = now + term_;
  due_.PushBack(kByTerm, slot);
}

void LeaseBook::RevokeTo(Instant now, uint32_t slot, int64_t keep,
                         ManagerOut& out) {
  Lease& lease = leases_[slot];
  lease.keep = keep;
  lease.due = now + revoke_grace_;
  due_.PushBack(kByRevoke, slot);
  out.push_back(Revoke{lease.holder, lease.id, keep, lease.due, epoch_});
}

// --- Messages ----------------------------------------------------------------

void LeaseBook::SayShare(uint32_t slot, const UnitStock& units,
                         ManagerOut& out) {
  Lease& lease = leases_[slot];
  lease.said_at = ticks_;
  unconfirmed_.PushBack(0, slot);
  out.push_back(SetShare{units.LifeOf(lease.unit), epoch_, lease.id,
                         lease.holder, lease.sequence, lease.share});
}

void LeaseBook::SayGrant(uint32_t slot, const UnitStock& units,
                         ManagerOut& out) const {
  const Lease& lease = leases_[slot];
  out.push_back(Grant{lease.holder, lease.id, units.LifeOf(lease.unit),
                      lease.share, lease.sequence, epoch_});
}

void LeaseBook::SayGone(uint32_t slot, ManagerOut& out) const {
  out.push_back(Gone{leases_[slot].holder, leases_[slot].id, epoch_});
}

void LeaseBook::SayUnheard(uint32_t controller, const UnitStock& units,
                           ManagerOut& out) const {
  uint32_t slot = FirstOf(controller);
  for (uint32_t i = 0; i < kMostGrants && slot != kNone; ++i) {
    const Lease& lease = leases_[slot];
    if (lease.confirmed && !lease.is_heard) SayGrant(slot, units, out);
    slot = NextOf(slot);
  }
}

void LeaseBook::Repeat(const UnitStock& units, ManagerOut& out) {
  for (uint32_t slot; (slot = FirstUnconfirmed()) != kNone &&
                      IsToBeRepeated(leases_[slot].said_at);) {
    SayShare(slot, units, out);
  }
}

}  // namespace snf
