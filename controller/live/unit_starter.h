// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_UNIT_STARTER_H_
#define SNF_CONTROLLER_LIVE_UNIT_STARTER_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "controller/live/loop_starter.h"

namespace snf {

// The starts of units that are under way. A start is ready after the delay of a
// cold or a warm one; or, if the loop of the unit has to begin first, once that
// runs.
//
// Worked example: with a cold delay of 10 ms, the start of unit 3 at 5 ms is
// ready at 15 ms: next_ready() is 15 ms, and TakeReady(15 ms) finds it.
//
// Owner-thread only. Finding a start is linear in the starts under way.
class UnitStarter {
 public:
  UnitStarter(Nanos cold_delay, Nanos warm_delay, size_t max_units)
      : cold_delay_(cold_delay), warm_delay_(warm_delay) {
    starting_.reserve(max_units);
  }

  // Asks `starter`, which outlives the object, before each start.
  void set_starter(LoopStarter& starter) { starter_ = &starter; }
  bool has_starter() const { return starter_ != nullptr; }

  // Returns true if the start is ready at once, and not under way then.
  bool Begin(Instant now, const ControllerCommand& start);
  // Adds a start that is ready by now.
  void AddReady(Instant now, const ControllerCommand& start) {
    starting_.push_back({.ready = now, .command = start});
    next_ready_ = std::min(next_ready_, now);
  }
  // Makes those starts ready that wait for a loop: `is_of_loop(UnitId)`.
  template <typename IsOfLoop>
  void BeginLoop(Instant now, const IsOfLoop& is_of_loop) {
    for (Start& start : starting_) {
      if (start.ready != Instant::max() || !is_of_loop(start.command.unit)) {
        continue;
      }
      start.ready = next_ready_ = now;
    }
  }
  // Calls visit(ControllerCommand) for each start that is ready, and forgets
  // these.
  template <typename Visit>
  void TakeReady(Instant now, const Visit& visit) {
    if (now < next_ready_) return;
    const auto is_ready = [now](const Start& start) {
      return start.ready <= now;
    };
    for (const Start& start : starting_) {
      if (is_ready(start)) visit(start.command);
    }
    std::erase_if(starting_, is_ready);
    next_ready_ = Instant::max();
    for (const Start& start : starting_) {
      next_ready_ = std::min(next_ready_, start.ready);
    }
  }
  // Forgets the starts of units for which `is_over(UnitId)` holds.
  template <typename IsOver>
  void Forget(const IsOver& is_over) {
    std::erase_if(starting_, [&](const Start& start) {
      return is_over(start.command.unit);
    });
  }

  bool empty() const { return starting_.empty(); }
  // Returns when TakeReady may find something; Instant::max() for never.
  Instant next_ready() const { return next_ready_; }
  std::vector<UnitId> units() const;

 private:
  struct Start {
    Instant ready;  // max: once the loop of the unit runs
    ControllerCommand command;
  };

  Nanos cold_delay_;
  Nanos warm_delay_;
  LoopStarter* starter_ = nullptr;
  std::vector<Start> starting_;
  Instant next_ready_ = Instant::max();  // not after the earliest start
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_UNIT_STARTER_H_
