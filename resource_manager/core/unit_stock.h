// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_UNIT_STOCK_H_
#define SNF_RESOURCE_MANAGER_CORE_UNIT_STOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/time.h"
#include "resource_manager/core/linked_lists.h"

namespace snf {

// Theory of operation. The units that a resource manager has: the state of
// each, and its room for leases, in 1/1024 of a unit. Finds, in O(1),
// the fullest unit with room for a share, the emptiest unit, and the unit that
// is longest in a state. After a start that failed, no unit starts for a while:
// first_back_off, then twice as long each time, at most max_back_off.
//
// Worked example: units 0, 1 and 2 have 100, 300 and 1024 free. A share of 200
// goes to unit 1, the fullest with room; the emptiest is unit 2.
//
// A value; owner-thread only.
class UnitStock {
 public:
  static constexpr uint32_t kNone = LinkedLists::kNone;
  // kUnknown: the unit has not reported yet; kActive: it has leases; kAbsent:
  // no host has a place for the unit.
  enum class State : uint8_t {
    kUnknown,
    kCold,
    kStarting,
    kWarm,
    kActive,
    kDraining,
    kFailed,
    kAbsent
  };
  struct Unit {
    State state = State::kCold;
    uint64_t incarnation = 0;
    int64_t free = 0;
    uint32_t leases = 0;
    uint32_t said_at = 0;  // the tick of the last StartUnit
    Instant since;         // of a start, or of being warm
    // Else it is absent instead of cold or failed, and has no room.
    bool is_placed = true;
  };

  // Each unit is in no state until SetState.
  explicit UnitStock(const ManagerOptions& options);

  size_t size() const { return units_.size(); }
  const Unit& operator[](uint32_t unit) const { return units_[unit]; }
  // After a change of `free`, SetState has to follow; else use Reserve.
  Unit& operator[](uint32_t unit) { return units_[unit]; }
  UnitLife LifeOf(uint32_t unit) const {
    return {GlobalUnitId{unit}, units_[unit].incarnation};
  }

  // Sets the state, also if it is the same: the unit is in it since now.
  void SetState(Instant now, uint32_t unit, State state);
  // Sets is_placed, but not the state.
  void SetPlaced(uint32_t unit, bool is_placed);
  // Takes that share of the unit, or gives it back.
  void Reserve(uint32_t unit, int64_t share);
  // Notes that the start of the unit failed, or that one did not.
  void StartFailed(Instant now, uint32_t unit);
  void StartSucceeded() { failures_ = 0; }

  // Each returns kNone if there is none. Only placed units in kWarm and kActive
  // have room; the emptiest has some.
  uint32_t FullestWithRoom(int64_t share) const;
  uint32_t Emptiest() const;
  // Return the unit that is longest in the state, and the next one.
  uint32_t First(State state) const {
    return by_state_.Front(static_cast<uint32_t>(state));
  }
  uint32_t Next(uint32_t unit) const { return by_state_.Next(unit); }

  // Returns true if a unit may start now, and there is one.
  bool CanStart(Instant now) const;
  uint32_t starting() const { return starting_; }
  // Counts the units that start or run.
  uint32_t up() const { return up_; }

 private:
  void Index(uint32_t unit);

  uint32_t max_starts_;
  Nanos first_back_off_;
  Nanos max_back_off_;
  uint32_t up_ = 0;
  uint32_t starting_ = 0;
  uint32_t failures_ = 0;  // of starts, in a row
  Instant next_start_ = Instant::min();
  std::vector<Unit> units_;
  LinkedLists by_state_;  // by time
  LinkedLists by_free_;   // warm and active ones
  std::array<uint64_t, kWholeUnit / 64 + 1> has_free_{};  // lists not empty
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_UNIT_STOCK_H_
