// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/resource_manager.h"

#include <algorithm>

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
      leases_(options, epoch),
      asks_(epoch) {
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
  const LeaseRefusal why = asks_.Check(life);
  // Leases of an older life, known from reports, are over.
  if (why == LeaseRefusal::kNone && asks_.IsLater(life)) BeginLife(life, out);
  return why;
}

void ResourceManager::BeginLife(ControllerLife life, ManagerOut& out) {
  leases_.EndAll(life.controller, units_, out);
  asks_.Begin(life);
}

LeaseRefusal ResourceManager::CheckUnit(UnitLife life) const {
  if (value(life.unit) >= units_.size()) return LeaseRefusal::kUnknownUnit;
  return units_[value(life.unit)].incarnation == life.incarnation
             ? LeaseRefusal::kNone
             : LeaseRefusal::kStaleIncarnation;
}

// Forgets a lease of which nothing is left in its unit.
void ResourceManager::FreeLease(Instant now, uint32_t slot, ManagerOut& out) {
  const uint32_t unit = leases_[slot].unit;
  leases_.Erase(slot, units_);
  if (units_[unit].leases > 0) return;
  if (units_[unit].state == State::kActive)
    units_.SetState(now, unit, State::kWarm);
  if (units_[unit].state == State::kDraining) {
    out.push_back(StopUnit{units_.LifeOf(unit), epoch_});
  }
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
  const ControllerLife life{controller, NewNumber()};
  BeginLife(life, out);
  Serve(now, out);
  return life;
}

std::optional<ControllerLife> ResourceManager::on_succeed(
    Instant now, ControllerId controller, ManagerOut& out) {
  if (recovering() || !asks_.is_alive(controller)) {
    Refuse(recovering() ? LeaseRefusal::kRecovering
                        : LeaseRefusal::kUnknownController);
    return std::nullopt;
  }
  const ControllerLife life{controller, NewNumber()};
  asks_.Succeed(life);
  // GiveTo changes the list.
  std::vector<uint32_t> slots;
  for (uint32_t slot = leases_.FirstOf(value(controller)); slot != kNone;
       slot = leases_.NextOf(slot)) {
    slots.push_back(slot);
  }
  for (const uint32_t slot : slots) {
    leases_.GiveTo(slot, life, units_, out);
    if (leases_.is_due_by(slot, LeaseBook::kByTerm)) {
      leases_.StartTerm(now, slot);
    }
  }
  return life;
}

LeaseRefusal ResourceManager::on_controller_dead(Instant now,
                                                 ControllerLife life,
                                                 ManagerOut& out) {
  const LeaseRefusal why = CheckController(life, out);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  leases_.EndAll(life.controller, units_, out);
  asks_.Die(life.controller);
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::on_ask(Instant now, const Ask& ask,
                                     ManagerOut& out) {
  LeaseRefusal why = CheckController(ask.from, out);
  if (why == LeaseRefusal::kNone) {
    why = asks_.on_ask(ask, static_cast<int64_t>(units_.size()) * kWholeUnit);
  }
  if (why != LeaseRefusal::kNone) return Refuse(why);
  const uint32_t controller = value(ask.from.controller);
  leases_.SayUnheard(controller, units_, out);
  asks_.Await(controller, leases_);
  Serve(now, out);
  return why;
}

LeaseRefusal ResourceManager::on_renew(Instant now, const Renew& renew,
                                       ManagerOut& out) {
  const LeaseRefusal why = CheckController(renew.from, out);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (recovering()) return Refuse(LeaseRefusal::kRecovering);
  const uint32_t slot = leases_.Find(renew.lease);
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
  leases_.on_heard(slot);
  if (leases_[slot].confirmed && leases_[slot].sequence != renew.sequence) {
    leases_.SayGrant(slot, units_, out);
  }
  // A revoked lease ends at its time, renewed or not.
  if (leases_.is_due_by(slot, LeaseBook::kByTerm)) leases_.StartTerm(now, slot);
  return why;
}

LeaseRefusal ResourceManager::on_give_back(Instant now, const GiveBack& back,
                                           ManagerOut& out) {
  const LeaseRefusal why = CheckController(back.from, out);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (recovering()) return Refuse(LeaseRefusal::kRecovering);
  const uint32_t slot = leases_.Find(back.lease);
  if (slot == kNone || leases_[slot].share == 0) {
    if (back.keep > 0) out.push_back(Gone{back.from, back.lease, epoch_});
    return Refuse(LeaseRefusal::kUnknownLease);
  }
  const LeaseBook::Lease& lease = leases_[slot];
  if (lease.holder != back.from) return Refuse(LeaseRefusal::kNotHolder);
  if (back.keep < 0) return Refuse(LeaseRefusal::kNegative);
  if (back.keep == lease.share) {
    // It was said before, and the answer may be lost.
    if (lease.confirmed) leases_.SayGrant(slot, units_, out);
    return Refuse(LeaseRefusal::kStaleNumber);
  }
  if (back.keep > lease.share) return Refuse(LeaseRefusal::kTooMuch);
  // It does not want back at once what it gives.
  const ControllerId controller = back.from.controller;
  if (leases_.is_due_by(slot, LeaseBook::kByTerm)) {
    asks_.LimitTo(controller, held(controller) - (lease.share - back.keep));
  } else if (back.keep <= lease.keep) {
    leases_.StartTerm(now, slot);
  }
  leases_.SetTo(slot, back.keep, units_, out);
  asks_.Await(value(controller), leases_);
  return why;
}

// --- Messages of units -------------------------------------------------------

LeaseRefusal ResourceManager::on_share_set(Instant now, const ShareSet& set,
                                           ManagerOut& out) {
  const LeaseRefusal why = CheckUnit(set.from);
  if (why != LeaseRefusal::kNone) return Refuse(why);
  if (set.manager_epoch != epoch_) return Refuse(LeaseRefusal::kStaleEpoch);
  const uint32_t slot = leases_.Find(set.lease);
  if (slot == kNone || leases_[slot].unit != value(set.from.unit)) {
    return Refuse(LeaseRefusal::kUnknownLease);
  }
  const LeaseBook::Lease& lease = leases_[slot];
  if (set.sequence != lease.sequence || lease.confirmed) {
    return Refuse(LeaseRefusal::kStaleNumber);
  }
  if (set.share != lease.share) return Refuse(LeaseRefusal::kBadReport);
  if (lease.share == 0) {
    FreeLease(now, slot, out);
  } else {
    leases_.Confirm(slot, units_, out);
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
  for (uint32_t slot; (slot = leases_.FirstOfUnit(unit)) != kNone;) {
    const uint32_t holder = value(leases_[slot].holder.controller);
    leases_.SayGone(slot, out);
    FreeLease(now, slot, out);
    asks_.Await(holder, leases_);
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
  for (uint32_t slot = leases_.FirstOfUnit(unit); slot != kNone;
       slot = leases_.NextOfUnit(slot)) {
    if (leases_[slot].share > 0) leases_.RevokeTo(now, slot, 0, out);
  }
  return why;
}

void ResourceManager::SetPlaced(Instant now, GlobalUnitId id, bool is_placed,
                                ManagerOut& out) {
  const uint32_t unit = value(id);
  const bool opens = is_placed && !units_[unit].is_placed;
  units_.SetPlaced(unit, is_placed);
  const State before = units_[unit].state;
  if (is_placed && before == State::kAbsent) {
    units_.SetState(now, unit, State::kCold);
    Serve(now, out);
  } else if (!is_placed &&
             (before == State::kCold || before == State::kFailed)) {
    units_.SetState(now, unit, State::kAbsent);
  } else if (!is_placed && !recovering() &&
             (before == State::kWarm || before == State::kActive)) {
    Close(now, units_.LifeOf(unit), out);
  } else if (opens && !recovering()) {
    Serve(now, out);
  }
}

// --- Recovery ----------------------------------------------------------------

void ResourceManager::AdoptLease(uint32_t unit, const ReportedLease& told,
                                 ManagerOut& out) {
  if (asks_.IsLater(told.holder)) BeginLife(told.holder, out);
  const uint32_t slot = leases_.Adopt(unit, told, units_);
  const int64_t share = asks_.IsAlive(told.holder) ? told.target : 0;
  leases_.SetTo(slot, share, units_, out);
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
  const LeaseRefusal why = leases_.Check(leases);
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
    for (uint32_t slot = leases_.FirstOf(c); slot != kNone;
         slot = leases_.NextOf(slot)) {
      leases_.StartTerm(now, slot);
    }
  }
  out.push_back(NewManager{epoch_});
  Serve(now, out);
}

// --- Time --------------------------------------------------------------------

// What was said and not answered may be lost.
void ResourceManager::Repeat(Instant now, ManagerOut& out) {
  leases_.Tick();
  for (uint32_t u = units_.First(State::kUnknown); u != kNone;
       u = units_.Next(u)) {
    if (leases_.IsToBeRepeated(0)) {
      out.push_back(AskReport{GlobalUnitId{u}, epoch_});
    }
  }
  for (uint32_t u = units_.First(State::kStarting); u != kNone;
       u = units_.Next(u)) {
    if (leases_.IsToBeRepeated(units_[u].said_at)) SayStart(u, true, out);
  }
  leases_.Repeat(units_, out);
  for (uint32_t u; (u = units_.First(State::kDraining)) != kNone &&
                   now - units_[u].since > options_.revoke_grace;) {
    units_.SetState(now, u, State::kDraining);  // the last of them now
    if (units_[u].leases == 0)
      out.push_back(StopUnit{units_.LifeOf(u), epoch_});
  }
}

// Cuts a lease whose holder has had the grace.
void ResourceManager::CutRevoked(Instant now, uint32_t slot, ManagerOut& out) {
  const uint32_t holder = value(leases_[slot].holder.controller);
  if (const int64_t keep = leases_[slot].keep; keep > 0) {
    leases_.SetTo(slot, keep, units_, out);
    leases_.StartTerm(now, slot);
  } else {
    leases_.End(slot, true, units_, out);
  }
  asks_.Await(holder, leases_);
}

void ResourceManager::on_tick(Instant now, ManagerOut& out) {
  Repeat(now, out);
  if (recovering()) return;  // leases stay
  for (uint32_t slot;
       (slot = leases_.FirstDue(LeaseBook::kByTerm, now)) != kNone;) {
    leases_.End(slot, true, units_, out);
  }
  for (uint32_t slot;
       (slot = leases_.FirstDue(LeaseBook::kByRevoke, now)) != kNone;) {
    CutRevoked(now, slot, out);
  }
  const auto first = [&](State state, Nanos age) {
    const uint32_t u = units_.First(state);
    return u != kNone && now - units_[u].since >= age ? u : kNone;
  };
  for (uint32_t u;
       (u = first(State::kStarting, options_.start_timeout)) != kNone;) {
    units_.StartFailed(now, u);
    out.push_back(StopUnit{units_.LifeOf(u), epoch_});
  }
  for (uint32_t u; (u = first(State::kWarm, options_.keep_warm)) != kNone;) {
    units_.SetState(now, u, State::kDraining);
    out.push_back(StopUnit{units_.LifeOf(u), epoch_});
  }
  Serve(now, out);
  Balance(now, out);
}

}  // namespace snf
