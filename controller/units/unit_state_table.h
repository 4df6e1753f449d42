// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_STATE_TABLE_H_
#define SNF_CONTROLLER_UNITS_UNIT_STATE_TABLE_H_

#include <cstdint>

#include "base/check.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "controller/units/unit_bars.h"

namespace snf {

// kFailed: the unit's last start failed. Packets wait from kStarting on.
enum class UnitState : uint8_t {
  kStopped,
  kActive,
  kWarm,
  kStopping,
  kCrashed,
  kStarting,
  kFailed
};

// Theory of operation. The state of each unit and the number of flows that it
// owns, with the counts that follow from them: units that are warm or stopped,
// and flows that must leave units which are stopping. A state changes by Set
// alone, and owned flows by AddOwned and RemoveOwned alone, so that the counts
// cannot differ from the states.
//
// Worked example: units 0 and 1 are active and own 3 flows and 1 flow. Unit 1
// is stopping: leaving_flows() is 1. Its flow moves to unit 0: AddOwned for
// unit 0, and RemoveOwned for unit 1, which returns true, since that was the
// last flow there.
//
// A value; owner-thread only; nothing is allocated after construction.
class UnitStateTable {
 public:
  // All units are stopped.
  explicit UnitStateTable(uint32_t max_units)
      : stopped_(max_units), units_(max_units) {}

  UnitState Of(UnitId unit) const { return units_[value(unit)].state; }
  void Set(UnitId unit, UnitState state) {
    Unit& u = units_[value(unit)];
    Count(u, -1);
    u.state = state;
    Count(u, 1);
  }
  uint32_t warm() const { return warm_; }
  uint32_t stopped() const { return stopped_; }

  uint32_t owned_flows(UnitId unit) const {
    return units_[value(unit)].owned_flows;
  }
  // Flows of units that are stopping.
  uint64_t leaving_flows() const { return leaving_flows_; }
  // For a unit that is not stopping.
  void AddOwned(UnitId unit) { ++units_[value(unit)].owned_flows; }
  // Returns true if this was the last flow of a unit that is stopping.
  bool RemoveOwned(UnitId unit) {
    Unit& u = units_[value(unit)];
    SNF_CHECK(u.owned_flows > 0);
    --u.owned_flows;
    if (u.state != UnitState::kStopping) return false;
    --leaving_flows_;
    return u.owned_flows == 0;
  }

  // Returns the lowest unit in that state that is not barred, or kNoUnit.
  // O(max_units).
  UnitId LowestIn(UnitState state, const UnitBars& bars) const {
    for (uint32_t i = 0; i < bars.usable(); ++i) {
      const UnitId unit{static_cast<uint16_t>(i)};
      if (Of(unit) == state && !bars.drained(unit)) return unit;
    }
    return kNoUnit;
  }
  // Returns true if one of the first `usable` units runs, or may be started,
  // and is neither drained nor `beside`. A unit that stops does not count: it
  // may need another one for its flows. O(max_units).
  bool HasUsable(uint32_t usable, const UnitBars& bars, UnitId beside) const {
    for (uint32_t i = 0; i < usable; ++i) {
      const UnitId unit{static_cast<uint16_t>(i)};
      if (unit == beside || bars.drained(unit)) continue;
      if (Of(unit) != UnitState::kStopping && Of(unit) != UnitState::kCrashed) {
        return true;
      }
    }
    return false;
  }

 private:
  struct Unit {
    UnitState state;
    uint32_t owned_flows;
  };

  // Adds the unit to the counts of its state, or takes it out of them.
  void Count(const Unit& unit, int sign) {
    const auto one = static_cast<uint32_t>(sign);
    if (unit.state == UnitState::kWarm) warm_ += one;
    if (unit.state == UnitState::kStopped) stopped_ += one;
    if (unit.state != UnitState::kStopping) return;
    leaving_flows_ += static_cast<uint64_t>(int64_t{sign} * unit.owned_flows);
  }

  uint32_t warm_ = 0;
  uint32_t stopped_;
  uint64_t leaving_flows_ = 0;
  LazyArray<Unit> units_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_STATE_TABLE_H_
