// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/resource_manager.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/messages/controller_counts.h"

namespace snf {
namespace {

constexpr uint32_t kMostUnits = 1u << 24;

}  // namespace

ResourceManager::ResourceManager(const ManagerOptions& options, uint64_t epoch,
                                 bool recover, ManagerOut& out)
    : options_(options),
      epoch_(epoch),
      units_(options),
      leases_of_unit_(options.max_units, options.max_units * kKnownPerUnit),
      leases_of_controller_(kControllerIds, options.max_units * kKnownPerUnit),
      leases_due_(kDues, options.max_units * kKnownPerUnit),
      unconfirmed_(1, options.max_units * kKnownPerUnit) {
  SNF_CHECK(epoch > 0 && epoch < uint64_t{1} << 31);
  SNF_CHECK(options.max_units <= kMostUnits);
  const State state = recover ? State::kUnknown : State::kCold;
  for (uint32_t u = 0; u < options.max_units; ++u) {
    units_.SetState(Instant::min(), u, state);
    if (!recover) continue;
    ++unreported_;
    out.push_back(AskReport{GlobalUnitId{u}, epoch});
  }
}

LeaseRefusal ResourceManager::Refuse(LeaseRefusal why) {
  ++refused_[static_cast<size_t>(why)];
  return why;
}

LeaseRefusal ResourceManager::CheckController(ControllerLife life,
                                              ManagerOut& out) {
  Controller& c = controllers_[value(life.controller)];
  if (life.epoch < c.epoch) return LeaseRefusal::kStaleEpoch;
  if (life.epoch == c.epoch && c.epoch != 0) {
    return c.alive ? LeaseRefusal::kNone : LeaseRefusal::kUnknownController;
  }
  // Only an earlier manager can have given an epoch that this one does not
  // know. What it knows of an older life, from reports, is over.
  if (life.epoch >> 32 == 0 || life.epoch >> 32 >= epoch_) {
    return LeaseRefusal::kUnknownController;
  }
  EndAll(life.controller, out);
  c = {.epoch = life.epoch, .alive = true, .waits = c.waits};
  return LeaseRefusal::kNone;
}

LeaseRefusal ResourceManager::CheckUnit(UnitLife life) const {
  if (value(life.unit) >= units_.size()) return LeaseRefusal::kUnknownUnit;
  return units_[value(life.unit)].incarnation == life.incarnation
             ? LeaseRefusal::kNone
             : LeaseRefusal::kStaleIncarnation;
}

uint32_t ResourceManager::Find(LeaseId lease) const {
  const auto at = slots_.find(value(lease));
  return at == slots_.end() ? kNone : at->second;
}

// --- Leases ------------------------------------------------------------------

uint32_t ResourceManager::AddLease(const Lease& lease) {
  uint32_t slot = static_cast<uint32_t>(leases_.size());
  if (free_slots_.empty()) {
    leases_.push_back(lease);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    leases_[slot] = lease;
  }
  slots_[value(lease.id)] = slot;
  leases_of_unit_.PushBack(lease.unit, slot);
  ++units_[lease.unit].leases;
  return slot;
}

void ResourceManager::FreeLease(Instant now, uint32_t slot, ManagerOut& out) {
  Lease& lease = leases_[slot];
  const uint32_t unit = lease.unit;
  controllers_[value(lease.holder.controller)].held -= lease.share;
  shares_ -= lease.share > 0;
  units_.Reserve(unit, -lease.reserved);
  slots_.erase(value(lease.id));
  leases_of_unit_.Remove(slot);
  leases_of_controller_.Remove(slot);
  leases_due_.Remove(slot);
  unconfirmed_.Remove(slot);
  free_slots_.push_back(slot);
  if (--units_[unit].leases > 0) return;
  if (units_[unit].state == State::kActive)
    units_.SetState(now, unit, State::kWarm);
  if (units_[unit].state == State::kDraining) {
    out.push_back(StopUnit{LifeOf(unit), epoch_});
  }
}

void ResourceManager::SetTo(uint32_t slot, int64_t share, ManagerOut& out) {
  Lease& lease = leases_[slot];
  controllers_[value(lease.holder.controller)].held += share - lease.share;
  shares_ += share > 0;
  shares_ -= lease.share > 0;
  lease.share = share;
  lease.confirmed = false;
  if (share > lease.reserved) {
    units_.Reserve(lease.unit, share - lease.reserved);
    lease.reserved = share;
  }
  const uint32_t holder = value(lease.holder.controller);
  if (share == 0) {
    leases_of_controller_.Remove(slot);
    leases_due_.Remove(slot);
  } else if (share == kWholeUnit) {
    leases_of_controller_.PushBack(holder, slot);
  } else {
    leases_of_controller_.PushFront(holder, slot);
  }
  ++lease.sequence;
  lease.set_at = ticks_;
  SayShare(slot, out);
}

void ResourceManager::SayShare(uint32_t slot, ManagerOut& out) {
  Lease& lease = leases_[slot];
  lease.said_at = ticks_;
  unconfirmed_.PushBack(0, slot);
  out.push_back(SetShare{LifeOf(lease.unit), epoch_, lease.id, lease.holder,
                         lease.sequence, lease.share});
}

void ResourceManager::SayGrant(uint32_t slot, ManagerOut& out) {
  const Lease& lease = leases_[slot];
  out.push_back(Grant{lease.holder, lease.id, LifeOf(lease.unit), lease.share,
                      lease.sequence, epoch_});
}

// Grants that were lost, of leases that nobody renews therefore.
void ResourceManager::SayUnheard(uint32_t controller, ManagerOut& out) {
  uint32_t slot = leases_of_controller_.Front(controller);
  for (uint32_t i = 0; i < kMostParts && slot != kNone; ++i) {
    if (leases_[slot].confirmed && !leases_[slot].is_heard) SayGrant(slot, out);
    slot = leases_of_controller_.Next(slot);
  }
}

void ResourceManager::End(uint32_t slot, bool tell, ManagerOut& out) {
  if (tell) out.push_back(Gone{leases_[slot].holder, leases_[slot].id, epoch_});
  SetTo(slot, 0, out);
}

void ResourceManager::EndAll(ControllerId controller, ManagerOut& out) {
  for (uint32_t slot;
       (slot = leases_of_controller_.Front(value(controller))) != kNone;) {
    End(slot, false, out);
  }
}

void ResourceManager::StartTerm(Instant now, uint32_t slot) {
  leases_[slot].due = now + options_.term;
  leases_due_.PushBack(kByTerm, slot);
}

void ResourceManager::RevokeTo(Instant now, uint32_t slot, int64_t keep,
                               ManagerOut& out) {
  Lease& lease = leases_[slot];
  lease.keep = keep;
  lease.due = now + options_.revoke_grace;
  leases_due_.PushBack(kByRevoke, slot);
  out.push_back(Revoke{lease.holder, lease.id, keep, lease.due, epoch_});
}

LeaseRefusal ResourceManager::Handle(Instant now, const ToManager& message,
                                     ManagerOut& out) {
  struct Call {
    ResourceManager& core;
    Instant now;
    ManagerOut& out;

    LeaseRefusal operator()(const Ask& ask) {
      return core.on_ask(now, ask, out);
    }
    LeaseRefusal operator()(const Renew& renew) {
      return core.on_renew(now, renew, out);
    }
    LeaseRefusal operator()(const GiveBack& back) {
      return core.on_give_back(now, back, out);
    }
    LeaseRefusal operator()(const ShareSet& set) {
      return core.on_share_set(now, set, out);
    }
    LeaseRefusal operator()(const UnitReady& ready) {
      return core.on_ready(now, ready.unit, out);
    }
    LeaseRefusal operator()(const UnitStopped& stopped) {
      return core.on_stopped(now, stopped.unit, out);
    }
    LeaseRefusal operator()(const UnitLeaseReport& report) {
      return core.on_report(now, report.unit, report.leases, out);
    }
    LeaseRefusal operator()(const AskLife& ask) {
      const auto life = core.LifeFor(now, ask.controller, out);
      if (life.has_value()) out.push_back(NewLife{*life});
      return LeaseRefusal::kNone;
    }
    LeaseRefusal operator()(const ManagerDeath& /*death*/) {
      return LeaseRefusal::kNone;
    }
  };
  return std::visit(Call{*this, now, out}, message);
}

// --- Messages of controllers -------------------------------------------------

// A controller whose leases are all over is as a new one.
std::optional<ControllerLife> ResourceManager::LifeFor(Instant now,
                                                       ControllerId controller,
                                                       ManagerOut& out) {
  if (recovering()) return std::nullopt;
  const auto life = on_succeed(now, controller, out);
  return life.has_value() ? life : on_join(now, controller, out);
}

std::optional<ControllerLife> ResourceManager::on_join(Instant now,
                                                       ControllerId controller,
                                                       ManagerOut& out) {
  if (recovering()) {
    Refuse(LeaseRefusal::kRecovering);
    return std::nullopt;
  }
  EndAll(controller, out);
  Controller& c = controllers_[value(controller)];
  const bool waits = c.waits;
  c = {.epoch = NewNumber(), .alive = true, .waits = waits};
  Serve(now, out);
  return ControllerLife{controller, c.epoch};
}

std::optional<ControllerLife> ResourceManager::on_succeed(
    Instant now, ControllerId controller, ManagerOut& out) {
  Controller& c = controllers_[value(controller)];
  if (recovering() || !c.alive) {
    Refuse(recovering() ? LeaseRefusal::kRecovering
                        : LeaseRefusal::kUnknownController);
    return std::nullopt;
  }
  c.epoch = NewNumber();
  c.ask = 0;
  // SetTo changes the list.
  std::vector<uint32_t> slots;
  for (uint32_t slot = leases_of_controller_.Front(value(controller));
       slot != kNone; slot = leases_of_controller_.Next(slot)) {
    slots.push_back(slot);
  }
  for (const uint32_t slot : slots) {
    leases_[slot].holder.epoch = c.epoch;
    leases_[slot].is_heard = false;
    SetTo(slot, leases_[slot].share, out);
    if (leases_due_.ListOf(slot) == kByTerm) StartTerm(now, slot);
  }
  return ControllerLife{controller, c.epoch};
}

LeaseRefusal ResourceManager::on_controller_dead(Instant now,
                                                 ControllerLife life,
                                                 ManagerOut& out) {
  const LeaseRefusal why = CheckController(life, out);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  EndAll(life.controller, out);
  controllers_[value(life.controller)].alive = false;
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::on_ask(Instant now, const Ask& ask,
                                     ManagerOut& out) {
  const LeaseRefusal why = CheckController(ask.from, out);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  Controller& c = controllers_[value(ask.from.controller)];
  if (ask.number <= c.ask) return Refuse(LeaseRefusal::kStaleNumber);
  if (ask.capacity < 0) return Refuse(LeaseRefusal::kNegative);
  if (ask.capacity > static_cast<int64_t>(units_.size()) * kWholeUnit) {
    return Refuse(LeaseRefusal::kTooMuch);
  }
  c.ask = ask.number;
  c.wanted = ask.capacity;
  SayUnheard(value(ask.from.controller), out);
  Await(value(ask.from.controller));
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::on_renew(Instant now, const Renew& renew,
                                       ManagerOut& out) {
  const LeaseRefusal why = CheckController(renew.from, out);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (recovering()) return Refuse(LeaseRefusal::kRecovering);
  const uint32_t slot = Find(renew.lease);
  if (slot == kNone) {
    out.push_back(Gone{renew.from, renew.lease, epoch_});
    return Refuse(LeaseRefusal::kUnknownLease);
  }
  if (leases_[slot].holder != renew.from) {
    return Refuse(LeaseRefusal::kNotHolder);
  }
  if (leases_[slot].share == 0) {
    out.push_back(Gone{renew.from, renew.lease, epoch_});
    return Refuse(LeaseRefusal::kUnknownLease);
  }
  leases_[slot].is_heard = true;
  if (leases_[slot].confirmed && leases_[slot].sequence != renew.sequence) {
    SayGrant(slot, out);
  }
  // A revoked lease ends at its time, renewed or not.
  if (leases_due_.ListOf(slot) == kByTerm) StartTerm(now, slot);
  return why;
}

LeaseRefusal ResourceManager::on_give_back(Instant now, const GiveBack& back,
                                           ManagerOut& out) {
  const LeaseRefusal why = CheckController(back.from, out);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (recovering()) return Refuse(LeaseRefusal::kRecovering);
  const uint32_t slot = Find(back.lease);
  if (slot == kNone || leases_[slot].share == 0) {
    if (back.keep > 0) out.push_back(Gone{back.from, back.lease, epoch_});
    return Refuse(LeaseRefusal::kUnknownLease);
  }
  const Lease& lease = leases_[slot];
  if (lease.holder != back.from) return Refuse(LeaseRefusal::kNotHolder);
  if (back.keep < 0) return Refuse(LeaseRefusal::kNegative);
  if (back.keep == lease.share) {
    // It was said before, and the answer may be lost.
    if (lease.confirmed) SayGrant(slot, out);
    return Refuse(LeaseRefusal::kStaleNumber);
  }
  if (back.keep > lease.share) return Refuse(LeaseRefusal::kTooMuch);
  // It does not want back at once what it gives.
  Controller& c = controllers_[value(back.from.controller)];
  if (leases_due_.ListOf(slot) == kByTerm) {
    c.wanted = std::min(c.wanted, c.held - (lease.share - back.keep));
  } else if (back.keep <= lease.keep) {
    StartTerm(now, slot);
  }
  SetTo(slot, back.keep, out);
  Await(value(back.from.controller));
  return why;
}

// --- Messages of units -------------------------------------------------------

LeaseRefusal ResourceManager::on_share_set(Instant now, const ShareSet& set,
                                           ManagerOut& out) {
  const LeaseRefusal why = CheckUnit(set.from);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (set.manager_epoch != epoch_) return Refuse(LeaseRefusal::kStaleEpoch);
  const uint32_t slot = Find(set.lease);
  if (slot == kNone || leases_[slot].unit != value(set.from.unit)) {
    return Refuse(LeaseRefusal::kUnknownLease);
  }
  Lease& lease = leases_[slot];
  if (set.sequence != lease.sequence || lease.confirmed) {
    return Refuse(LeaseRefusal::kStaleNumber);
  }
  if (set.share != lease.share) return Refuse(LeaseRefusal::kBadReport);
  if (lease.share == 0) {
    FreeLease(now, slot, out);
  } else {
    units_.Reserve(lease.unit, lease.share - lease.reserved);
    lease.reserved = lease.share;
    lease.confirmed = true;
    unconfirmed_.Remove(slot);
    SayGrant(slot, out);
  }
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::on_ready(Instant now, UnitLife unit,
                                       ManagerOut& out) {
  const LeaseRefusal why = CheckUnit(unit);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (state(unit.unit) != State::kStarting) {
    return Refuse(LeaseRefusal::kWrongState);
  }
  units_.StartSucceeded();
  units_[value(unit.unit)].free = kWholeUnit;
  units_.SetState(now, value(unit.unit), State::kWarm);
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::on_stopped(Instant now, UnitLife unit,
                                         ManagerOut& out) {
  const LeaseRefusal why = CheckUnit(unit);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  const UnitStock::Unit& u = units_[value(unit.unit)];
  if (u.state != State::kDraining || u.leases > 0) {
    return Refuse(LeaseRefusal::kWrongState);
  }
  units_.SetState(now, value(unit.unit), State::kCold);
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::on_unit_dead(Instant now, UnitLife life,
                                           ManagerOut& out) {
  const LeaseRefusal why = CheckUnit(life);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  const uint32_t unit = value(life.unit);
  const State before = units_[unit].state;
  if (before == State::kStarting) {
    units_.StartFailed(now, unit);
    Serve(now, out);
    return why;
  }
  if (before == State::kCold || before == State::kFailed ||
      before == State::kUnknown) {
    return Refuse(LeaseRefusal::kWrongState);
  }
  units_.SetState(now, unit, State::kFailed);
  for (uint32_t slot; (slot = leases_of_unit_.Front(unit)) != kNone;) {
    const Lease lease = leases_[slot];
    out.push_back(Gone{lease.holder, lease.id, epoch_});
    FreeLease(now, slot, out);
    Await(value(lease.holder.controller));
  }
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::Close(Instant now, UnitLife life,
                                    ManagerOut& out) {
  const LeaseRefusal why = CheckUnit(life);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (recovering()) return Refuse(LeaseRefusal::kRecovering);
  const uint32_t unit = value(life.unit);
  const State before = units_[unit].state;
  if (before != State::kWarm && before != State::kActive) {
    return Refuse(LeaseRefusal::kWrongState);
  }
  units_.SetState(now, unit, State::kDraining);
  if (units_[unit].leases == 0) out.push_back(StopUnit{life, epoch_});
  for (uint32_t slot = leases_of_unit_.Front(unit); slot != kNone;
       slot = leases_of_unit_.Next(slot)) {
    if (leases_[slot].share > 0) RevokeTo(now, slot, 0, out);
  }
  return why;
}

// --- Recovery ----------------------------------------------------------------

LeaseRefusal ResourceManager::CheckReport(
    std::span<const ReportedLease> leases) const {
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

void ResourceManager::AdoptLease(uint32_t unit, const ReportedLease& told,
                                 ManagerOut& out) {
  Controller& c = controllers_[value(told.holder.controller)];
  if (told.holder.epoch > c.epoch) {
    EndAll(told.holder.controller, out);
    c = {.epoch = told.holder.epoch, .alive = true, .waits = c.waits};
  }
  const uint32_t slot = AddLease({.id = told.lease,
                                  .holder = told.holder,
                                  .unit = unit,
                                  .sequence = told.sequence});
  const int64_t most = std::max(told.share, told.target);
  leases_[slot].reserved = most;
  units_.Reserve(unit, most);
  const bool stays = c.alive && told.holder.epoch == c.epoch;
  SetTo(slot, stays ? told.target : 0, out);
}

LeaseRefusal ResourceManager::on_report(Instant now, const ReportedUnit& told,
                                        std::span<const ReportedLease> leases,
                                        ManagerOut& out) {
  const UnitLife life = told.unit;
  if (told.manager_epoch != epoch_) return Refuse(LeaseRefusal::kStaleEpoch);
  if (value(life.unit) >= units_.size()) {
    if (!told.is_dead) out.push_back(StopUnit{life, epoch_});
    return Refuse(LeaseRefusal::kUnknownUnit);
  }
  const uint32_t unit = value(life.unit);
  if (units_[unit].state != State::kUnknown) {
    return Refuse(LeaseRefusal::kWrongState);
  }
  if (life.incarnation >> 32 >= epoch_ && !told.is_dead) {
    return Refuse(LeaseRefusal::kStaleIncarnation);
  }
  LeaseRefusal why = LeaseRefusal::kNone;
  if (told.is_dead) {
    units_.SetState(now, unit, State::kCold);
  } else {
    why = TakeReport(now, life, leases, out);
  }
  if (--unreported_ == 0) FinishRecovery(now, out);
  return why == LeaseRefusal::kNone ? why : Refuse(why);
}

LeaseRefusal ResourceManager::TakeReport(Instant now, UnitLife life,
                                         std::span<const ReportedLease> leases,
                                         ManagerOut& out) {
  const uint32_t unit = value(life.unit);
  units_[unit].incarnation = life.incarnation;
  units_[unit].free = kWholeUnit;
  const LeaseRefusal why = CheckReport(leases);
  if (why != LeaseRefusal::kNone) {
    units_.SetState(now, unit, State::kDraining);
    out.push_back(StopUnit{life, epoch_});
    return why;
  }
  units_.SetState(now, unit, leases.empty() ? State::kWarm : State::kActive);
  for (const ReportedLease& lease : leases) AdoptLease(unit, lease, out);
  return why;
}

void ResourceManager::FinishRecovery(Instant now, ManagerOut& out) {
  for (uint32_t c = 0; c < kControllerIds; ++c) {
    for (uint32_t slot = leases_of_controller_.Front(c); slot != kNone;
         slot = leases_of_controller_.Next(slot)) {
      StartTerm(now, slot);
    }
  }
  out.push_back(NewManager{epoch_});
  Serve(now, out);
}

// --- Time --------------------------------------------------------------------

// What was said and not answered may be lost.
void ResourceManager::Repeat(Instant now, ManagerOut& out) {
  ++ticks_;
  for (uint32_t u = units_.First(State::kUnknown); u != kNone;
       u = units_.Next(u)) {
    if (ticks_ >= kRepeatTicks) {
      out.push_back(AskReport{GlobalUnitId{u}, epoch_});
    }
  }
  for (uint32_t u = units_.First(State::kStarting); u != kNone;
       u = units_.Next(u)) {
    if (ticks_ - units_[u].said_at >= kRepeatTicks) SayStart(u, true, out);
  }
  for (uint32_t slot; (slot = unconfirmed_.Front(0)) != kNone &&
                      ticks_ - leases_[slot].said_at >= kRepeatTicks;) {
    SayShare(slot, out);
  }
  for (uint32_t u; (u = units_.First(State::kDraining)) != kNone &&
                   now - units_[u].since > options_.revoke_grace;) {
    units_.SetState(now, u, State::kDraining);  // the last of them now
    if (units_[u].leases == 0) out.push_back(StopUnit{LifeOf(u), epoch_});
  }
}

void ResourceManager::on_tick(Instant now, ManagerOut& out) {
  Repeat(now, out);
  if (recovering()) return;  // leases stay
  const auto due = [&](Due list) {
    const uint32_t slot = leases_due_.Front(list);
    return slot != kNone && leases_[slot].due <= now ? slot : kNone;
  };
  for (uint32_t slot; (slot = due(kByTerm)) != kNone;) End(slot, true, out);
  for (uint32_t slot; (slot = due(kByRevoke)) != kNone;) {
    const uint32_t holder = value(leases_[slot].holder.controller);
    if (const int64_t keep = leases_[slot].keep; keep > 0) {
      SetTo(slot, keep, out);
      StartTerm(now, slot);
    } else {
      End(slot, true, out);
    }
    Await(holder);
  }
  const auto first = [&](State state, Nanos age) {
    const uint32_t u = units_.First(state);
    return u != kNone && now - units_[u].since >= age ? u : kNone;
  };
  for (uint32_t u;
       (u = first(State::kStarting, options_.start_timeout)) != kNone;) {
    units_.StartFailed(now, u);
    out.push_back(StopUnit{LifeOf(u), epoch_});
  }
  for (uint32_t u; (u = first(State::kWarm, options_.keep_warm)) != kNone;) {
    units_.SetState(now, u, State::kDraining);
    out.push_back(StopUnit{LifeOf(u), epoch_});
  }
  Serve(now, out);
  Balance(now, out);
}

}  // namespace snf
