// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_KILL_PLAN_H_
#define SNF_PLATFORM_RUN_KILL_PLAN_H_

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "platform/run/run.h"

namespace snf {

// Says when which kill of a run is due (FaultOptions::kills): at its time after
// the first packet, or by chance with each packet that comes. A driver either
// asks for kills that are due in each turn, or makes an event of each planned
// one.
//
// Example: of "unit, after 2 s" and "logger, with 1 packet of 100", on_start
// plans the first one; on_arrival draws a number for the second one alone.
//
// Owner-thread only; a value.
class KillPlan {
 public:
  struct Planned {
    Kill kill;
    Instant at = Instant::max();  // max: not before on_start, or done
  };

  explicit KillPlan(const FaultOptions& faults)
      : KillPlan(faults, [](const Kill& /*kill*/) { return true; }) {}
  // Leaves out kills of which `takes` returns false.
  template <typename Takes>
  KillPlan(const FaultOptions& faults, const Takes& takes) {
    for (const Kill& kill : faults.kills) {
      if (!std::invoke(takes, kill)) continue;
      if (kill.at.ns < 0) {
        by_chance_.push_back(kill);
      } else {
        planned_.push_back({.kill = kill});
      }
    }
  }

  // Plans the kills that have a time.
  void on_start(Instant first_packet) {
    for (Planned& planned : planned_) {
      planned.at = first_packet + planned.kill.at;
      next_ = std::min(next_, planned.at);
    }
  }
  // Returns kills that have a time, in the order of the options.
  std::span<const Planned> planned() const { return planned_; }

  // Calls `kill(const Kill&)` for each kill that chance brings with this
  // packet. Draws one number for each kill by chance, in the order of the
  // options; `kill` may draw more in between.
  template <typename Fn>
  void on_arrival(Rng& rng, const Fn& kill) const {
    for (const Kill& one : by_chance_) {
      if (rng.Chance(one.chance_65536)) kill(one);
    }
  }

  // Returns when the next planned kill is due; Instant::max(): never.
  Instant next() const { return next_; }
  // Calls `kill(const Kill&)` for each planned kill whose time has come, once.
  // Returns false if none was due.
  template <typename Fn>
  bool due(Instant now, const Fn& kill) {
    if (now < next_) return false;
    next_ = Instant::max();
    for (Planned& planned : planned_) {
      if (planned.at <= now) {
        planned.at = Instant::max();
        kill(planned.kill);
      }
      next_ = std::min(next_, planned.at);
    }
    return true;
  }

  // Drops all kills that are still to come.
  void Stop() {
    by_chance_.clear();
    planned_.clear();
    next_ = Instant::max();
  }

 private:
  std::vector<Kill> by_chance_;
  std::vector<Planned> planned_;
  Instant next_ = Instant::max();
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_KILL_PLAN_H_
