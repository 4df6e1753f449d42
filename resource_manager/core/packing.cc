// SPDX-License-Identifier: Apache-2.0
//
// Packing of shares into units.
#include <algorithm>

#include "resource_manager/core/resource_manager.h"

namespace snf {

void ResourceManager::SayStart(uint32_t unit, bool is_repeated,
                               ManagerOut& out) {
  units_[unit].said_at = leases_.ticks();
  out.push_back(StartUnit{units_.LifeOf(unit), is_repeated});
}

bool ResourceManager::can_give(Instant now) const {
  return units_.starting() > 0 || units_.CanStart(now) ||
         units_.Emptiest() != kNone || leases_.HoldsAnyAbove(2 * kLeastMove);
}

void ResourceManager::StartFor(Instant now, int64_t missing, ManagerOut& out) {
  while (int64_t{units_.starting()} * kWholeUnit < missing &&
         units_.CanStart(now)) {
    uint32_t unit = units_.First(State::kCold);
    if (unit == kNone) {
      unit = units_.First(State::kFailed);
    }
    units_[unit].incarnation = NewNumber();
    units_.SetState(now, unit, State::kStarting);
    SayStart(unit, false, out);
  }
}

void ResourceManager::GiveAt(Instant now, uint32_t controller, uint32_t unit,
                             int64_t share, ManagerOut& out) {
  const ControllerId id{static_cast<uint8_t>(controller)};
  const uint32_t slot =
      leases_.Add(LeaseId{NewNumber()}, asks_.LifeOf(id), unit, units_);
  leases_.SetTo(slot, share, units_, out);
  leases_.StartTerm(now, slot);
}

bool ResourceManager::Fill(Instant now, uint32_t controller, ManagerOut& out) {
  uint32_t slot = leases_.FirstOf(controller);
  for (uint32_t i = 0; i < kMostParts && slot != kNone; ++i) {
    const LeaseBook::Lease& lease = leases_[slot];
    const uint32_t next = leases_.NextOf(slot);
    const int64_t more = std::min(Missing(controller), units_[lease.unit].free);
    if (lease.share == kWholeUnit || more <= 0) {
      slot = next;
      continue;
    }
    const UnitStock::Unit& unit = units_[lease.unit];
    if (unit.state == State::kActive && unit.is_placed &&
        leases_.is_due_by(slot, LeaseBook::kByTerm)) {
      leases_.SetTo(slot, lease.share + more, units_, out);
    }
    slot = next;
  }
  while (Missing(controller) > 0) {
    if (!leases_.has_room()) return false;
    const int64_t share = std::min(Missing(controller), kWholeUnit);
    uint32_t unit = units_.FullestWithRoom(share);
    if (unit == kNone) {
      int64_t missing = asks_.MissingInAll(leases_);
      // The last part needs no unit of its own where one has room.
      const int64_t part = Missing(controller) % kWholeUnit;
      if (part > 0 && units_.FullestWithRoom(part) != kNone) missing -= part;
      StartFor(now, missing, out);
      if (units_.starting() > 0) return false;
      unit = units_.Emptiest();
      if (unit == kNone) return false;
    }
    GiveAt(now, controller, unit, std::min(share, units_[unit].free), out);
    if (units_[unit].state == State::kWarm) {
      units_.SetState(now, unit, State::kActive);
    }
  }
  return true;
}

void ResourceManager::Serve(Instant now, ManagerOut& out) {
  if (recovering()) return;
  for (uint32_t c = asks_.NextWaiting(leases_); c != kNone;
       c = asks_.NextWaiting(leases_)) {
    if (!Fill(now, c, out)) return;
    asks_.Served(c);
  }
}

// Returns true if a lease of the controller is being drained, and others can
// have its share soon: not of a unit that is to stop.
bool ResourceManager::HasRoomToCome(uint32_t controller) const {
  for (uint32_t slot = leases_.FirstUnconfirmed(); slot != kNone;
       slot = leases_.NextUnconfirmed(slot)) {
    const LeaseBook::Lease& lease = leases_[slot];
    if (lease.share == 0 && leases_.ticks() - lease.set_at < kDrainTicks &&
        value(lease.holder.controller) == controller &&
        units_[lease.unit].state == State::kActive) {
      return true;
    }
  }
  return false;
}

void ResourceManager::Balance(Instant now, ManagerOut& out) {
  const uint32_t poor = asks_.NextWaiting(leases_);
  if (poor == kNone || units_.starting() > 0 || units_.CanStart(now) ||
      leases_.FirstDue(LeaseBook::kByRevoke) != kNone) {
    return;
  }
  uint32_t rich = poor;
  for (uint32_t c = 0; c < kControllerIds; ++c) {
    if (leases_.held(c) > leases_.held(rich)) rich = c;
  }
  if (HasRoomToCome(rich)) return;  // what it gave up before
  const int64_t half = (leases_.held(rich) - leases_.held(poor)) / 2;
  const uint32_t slot = leases_.FirstOf(rich);
  if (slot == kNone || !leases_[slot].confirmed) return;
  const int64_t move = std::min({half, Missing(poor), leases_[slot].share});
  if (half < kLeastMove || move <= 0) return;
  leases_.RevokeTo(now, slot, leases_[slot].share - move, out);
}

}  // namespace snf
