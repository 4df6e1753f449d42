// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_RECOVERY_FORSAKING_H_
#define SNF_CONTROLLER_RECOVERY_FORSAKING_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "controller/units/unit_pool.h"
#include "controller/units/unit_set.h"

namespace snf {

// Theory of operation. A flow that is given up may have copies at any unit,
// since its history may be cut off. So each unit with a channel is told to drop
// its data of the flow (kForsake), and the owner last. There may be more units
// than room for commands: then Tell pauses, and continues with its next call.
// Before it begins it waits for room for most units, so that few flows are told
// to a part of the units.
//
// Worked example: a flow of unit 3 is given up while units 0, 1 and 3 run.
// Units 0 and 1 are told, then unit 3, which learns the flow's newest clock.
//
// A value; owner-thread only; nothing is allocated after construction.
class Forsaking {
 public:
  // Most units for which there has to be room before the first is told.
  static constexpr uint32_t kMaxAtOnce = 200;

  explicit Forsaking(uint32_t max_units) : to_tell_(max_units) {}

  // Tells all units that the flow of `owner` is given up; the owner alone that
  // `last` is its newest clock. Returns false if `out` has no room for more:
  // then it is to be called again, for the same flow, until it returns true.
  bool Tell(const UnitPool& units, FlowId flow, UnitId owner, Clock last,
            ControllerOut& out) {
    to_tell_.Clear();
    for (uint32_t i = 0; i < units.max_units(); ++i) {
      const UnitId unit{static_cast<uint16_t>(i)};
      if (unit != owner && units.has_channel(unit)) to_tell_.Insert(unit);
    }
    const uint32_t needed = std::min(to_tell_.size(), kMaxAtOnce);
    if (next_ == 0 && out.room() < needed + kMaxControllerCommandsPerStep) {
      return false;
    }
    for (UnitId unit = to_tell_.NextFrom(next_); unit != kNoUnit;
         unit = to_tell_.NextFrom(next_)) {
      if (out.room() < kMaxControllerCommandsPerStep) return false;
      next_ = value(unit) + uint32_t{1};
      out.push(ControllerCommand::Forsake(unit, {flow, Clock{}}));
    }
    next_ = 0;
    out.push(ControllerCommand::Forsake(owner, {flow, last}));
    return true;
  }
  // Begins with the first unit again.
  void Restart() { next_ = 0; }

 private:
  UnitSet to_tell_;    // units but the owner
  uint32_t next_ = 0;  // the first unit that is not told yet
};

}  // namespace snf

#endif  // SNF_CONTROLLER_RECOVERY_FORSAKING_H_
