// SPDX-License-Identifier: Apache-2.0
//
// Packing of shares into units.
#include <algorithm>

#include "resource_manager/core/resource_manager.h"

namespace snf {

void ResourceManager::SayStart(uint32_t unit, bool is_repeated,
                               ManagerOut& out) {
  units_[unit].said_at = ticks_;
  out.push_back(StartUnit{LifeOf(unit), is_repeated});
}

bool ResourceManager::can_give(Instant now) const {
  return units_.starting() > 0 || units_.CanStart(now) ||
         units_.Emptiest() != kNone ||
         std::ranges::any_of(controllers_, [](const Controller& c) {
           return c.held > 2 * kLeastMove;
         });
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

void ResourceManager::Await(uint32_t controller) {
  Controller& c = controllers_[controller];
  if (c.waits || Missing(controller) <= 0) return;
  c.waits = true;
  waiting_.push_back(controller);
}

uint32_t ResourceManager::NextWaiting() const {
  uint32_t best = kNone;
  for (const uint32_t c : waiting_) {
    if (best == kNone || controllers_[c].held < controllers_[best].held) {
      best = c;
    }
  }
  return best;
}

void ResourceManager::GiveAt(Instant now, uint32_t controller, uint32_t unit,
                             int64_t share, ManagerOut& out) {
  const Controller& c = controllers_[controller];
  const uint32_t slot = AddLease(
      {.id = LeaseId{NewNumber()},
       .holder = {ControllerId{static_cast<uint8_t>(controller)}, c.epoch},
       .unit = unit});
  SetTo(slot, share, out);
  StartTerm(now, slot);
}

bool ResourceManager::Fill(Instant now, uint32_t controller, ManagerOut& out) {
  uint32_t slot = leases_of_controller_.Front(controller);
  for (uint32_t i = 0; i < kMostParts && slot != kNone; ++i) {
    const Lease& lease = leases_[slot];
    const uint32_t next = leases_of_controller_.Next(slot);
    const int64_t more = std::min(Missing(controller), units_[lease.unit].free);
    if (lease.share == kWholeUnit || more <= 0) {
      slot = next;
      continue;
    }
    const State state = units_[lease.unit].state;
    if (state == State::kActive && leases_due_.ListOf(slot) == kByTerm) {
      SetTo(slot, lease.share + more, out);
    }
    slot = next;
  }
  while (Missing(controller) > 0) {
    if (!has_room_for_lease()) return false;
    const int64_t share = std::min(Missing(controller), kWholeUnit);
    uint32_t unit = units_.FullestWithRoom(share);
    if (unit == kNone) {
      int64_t missing = 0;
      for (const uint32_t c : waiting_) missing += Missing(c);
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
  for (uint32_t c = NextWaiting(); c != kNone; c = NextWaiting()) {
    if (!Fill(now, c, out)) return;
    controllers_[c].waits = false;
    std::erase(waiting_, c);
  }
}

// Returns true if a lease of the controller is being drained, and others can
// have its share soon: not of a unit that is to stop.
bool ResourceManager::HasRoomToCome(uint32_t controller) const {
  for (uint32_t slot = unconfirmed_.Front(0); slot != kNone;
       slot = unconfirmed_.Next(slot)) {
    const Lease& lease = leases_[slot];
    if (lease.share == 0 && ticks_ - lease.set_at < kDrainTicks &&
        value(lease.holder.controller) == controller &&
        units_[lease.unit].state == State::kActive) {
      return true;
    }
  }
  return false;
}

void ResourceManager::Balance(Instant now, ManagerOut& out) {
  const uint32_t poor = NextWaiting();
  if (poor == kNone || units_.starting() > 0 || units_.CanStart(now) ||
      leases_due_.Front(kByRevoke) != kNone) {
    return;
  }
  uint32_t rich = poor;
  for (uint32_t c = 0; c < kControllerIds; ++c) {
    if (controllers_[c].held > controllers_[rich].held) rich = c;
  }
  if (HasRoomToCome(rich)) return;  // what it gave up before
  const int64_t half = (controllers_[rich].held - controllers_[poor].held) / 2;
  const uint32_t slot = leases_of_controller_.Front(rich);
  if (slot == kNone || !leases_[slot].confirmed) return;
  const int64_t move = std::min({half, Missing(poor), leases_[slot].share});
  if (half < kLeastMove || move <= 0) return;
  RevokeTo(now, slot, leases_[slot].share - move, out);
}

}  // namespace snf
