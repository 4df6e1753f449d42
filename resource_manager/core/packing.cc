// SPDX-License-Identifier: Apache-2.0
//
// Packing of shares into units, and the life of units.
#include <algorithm>
#include <bit>

#include "resource_manager/core/resource_manager.h"

namespace snf {

void ResourceManager::SetState(Instant now, uint32_t unit, State state) {
  Unit& u = units_[unit];
  const auto is_up = [](State s) {
    return s == State::kStarting || s == State::kWarm || s == State::kActive ||
           s == State::kDraining;
  };
  units_up_ += is_up(state);
  units_up_ -= is_up(u.state);
  starting_ += state == State::kStarting;
  starting_ -= u.state == State::kStarting;
  u.state = state;
  u.since = now;
  units_by_state_.PushBack(static_cast<uint32_t>(state), unit);
  Index(unit);
}

void ResourceManager::Index(uint32_t unit) {
  const Unit& u = units_[unit];
  const uint32_t before = units_by_free_.ListOf(unit);
  units_by_free_.Remove(unit);
  if (before != kNone && units_by_free_.Front(before) == kNone) {
    has_free_[before / 64] &= ~(uint64_t{1} << before % 64);
  }
  if (u.state != State::kWarm && u.state != State::kActive) return;
  const auto free = static_cast<uint32_t>(u.free);
  units_by_free_.PushFront(free, unit);
  has_free_[free / 64] |= uint64_t{1} << free % 64;
}

void ResourceManager::Reserve(uint32_t unit, int64_t share) {
  units_[unit].free -= share;
  Index(unit);
}

uint32_t ResourceManager::FullestWithRoom(int64_t share) const {
  auto word = static_cast<size_t>(share) / 64;
  uint64_t bits = has_free_[word] & ~uint64_t{0} << share % 64;
  while (bits == 0) {
    if (++word == has_free_.size()) return kNone;
    bits = has_free_[word];
  }
  return units_by_free_.Front(
      static_cast<uint32_t>(word * 64 + std::countr_zero(bits)));
}

uint32_t ResourceManager::Emptiest() const {
  for (size_t word = has_free_.size(); word-- > 0;) {
    const uint64_t bits = has_free_[word] & (word == 0 ? ~uint64_t{1} : ~0ull);
    if (bits != 0) {
      return units_by_free_.Front(
          static_cast<uint32_t>(word * 64 + std::bit_width(bits) - 1));
    }
  }
  return kNone;
}

bool ResourceManager::CanStart(Instant now) const {
  const auto first = [&](State state) {
    return units_by_state_.Front(static_cast<uint32_t>(state));
  };
  return now >= next_start_ && starting_ < options_.max_starts &&
         (first(State::kCold) != kNone || first(State::kFailed) != kNone);
}

void ResourceManager::SayStart(uint32_t unit, bool is_repeated,
                               ManagerOut& out) {
  units_[unit].said_at = ticks_;
  out.push_back(StartUnit{LifeOf(unit), is_repeated});
}

bool ResourceManager::can_give(Instant now) const {
  return starting_ > 0 || CanStart(now) || Emptiest() != kNone ||
         std::ranges::any_of(controllers_, [](const Controller& c) {
           return c.held > 2 * kLeastMove;
         });
}

void ResourceManager::StartFor(Instant now, int64_t missing, ManagerOut& out) {
  while (int64_t{starting_} * kWholeUnit < missing && CanStart(now)) {
    uint32_t unit = units_by_state_.Front(static_cast<uint32_t>(State::kCold));
    if (unit == kNone) {
      unit = units_by_state_.Front(static_cast<uint32_t>(State::kFailed));
    }
    units_[unit].incarnation = NewNumber();
    SetState(now, unit, State::kStarting);
    SayStart(unit, false, out);
  }
}

void ResourceManager::StartFailed(Instant now, uint32_t unit) {
  SetState(now, unit, State::kFailed);
  const int64_t back_off = options_.first_back_off.ns
                           << std::min(failures_++, 20u);
  next_start_ = now + Nanos{std::min(back_off, options_.max_back_off.ns)};
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
    uint32_t unit = FullestWithRoom(share);
    if (unit == kNone) {
      int64_t missing = 0;
      for (const uint32_t c : waiting_) missing += Missing(c);
      // The last part needs no unit of its own where one has room.
      const int64_t part = Missing(controller) % kWholeUnit;
      if (part > 0 && FullestWithRoom(part) != kNone) missing -= part;
      StartFor(now, missing, out);
      if (starting_ > 0) return false;
      unit = Emptiest();
      if (unit == kNone) return false;
    }
    GiveAt(now, controller, unit, std::min(share, units_[unit].free), out);
    if (units_[unit].state == State::kWarm) {
      SetState(now, unit, State::kActive);
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
  if (poor == kNone || starting_ > 0 || CanStart(now) ||
      leases_due_.Front(kByRevoke) != kNone) {
    return;
  }
  uint32_t rich = poor;
  for (uint32_t c = 0; c < kControllers; ++c) {
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
