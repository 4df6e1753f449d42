// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_REAL_CONTROLLER_FAULTS_H_
#define SNF_PLATFORM_REAL_TIME_REAL_CONTROLLER_FAULTS_H_

#include <functional>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/live/controller_loop.h"
#include "platform/real_time/egress.h"
#include "platform/run/run.h"

namespace snf {

// The failures of the controller in a run in real time (proto/protocol.md F9):
// it lets the controller fail as RunOptions::faults says, and the loop make
// another of what units report. The end of a controller, which is a part of
// this process, is seen with the next turn.
//
// Owner-thread only.
class RealControllerFaults {
 public:
  using Notice = std::function<void(std::string_view)>;
  // All of them must outlive the object. `prepare` adds the NF's pools to a
  // controller. `notice`, which may be null, is told of each that failed, and
  // of its successor.
  RealControllerFaults(const RunOptions& options, Notice notice,
                       std::function<void(Controller&)> prepare,
                       ControllerLoop& loop, Egress& egress,
                       ControllerFaultFigures& figures);

  // The first packet comes: those kills that have a time are planned.
  void on_start(Instant first_packet);
  // A packet comes: perhaps the controller fails.
  void on_arrival() {
    if (has_chances_) [[unlikely]]
      KillByChance();
  }
  // Does what is due; returns true if there was anything. Call it in each turn
  // of the run.
  bool Turn() {
    if (loop_.is_led() && !is_down_ && loop_.now() < next_kill_) [[likely]]
      return false;
    return TurnNow();
  }
  // Returns how long the run may sleep, as far as this knows.
  Nanos MayWait() const {
    return next_kill_ != Instant::max() ? Milliseconds(1) : Nanos::max();
  }
  // The controller fails now, if it may; else that is counted.
  void KillOne();
  // No controller is killed any more. Adds what was counted to the figures.
  void Finish();

 private:
  bool TurnNow();
  void KillByChance();
  bool KillPlanned();

  const FaultOptions options_;
  const Notice notice_;
  const std::function<void(Controller&)> prepare_;
  ControllerLoop& loop_;
  Egress& egress_;
  ControllerFaultFigures& figures_;
  Rng rng_;
  bool has_chances_ = false;
  std::vector<Instant> kill_times_;  // of options_.kills; max: by chance, done
  Instant next_kill_ = Instant::max();
  bool is_down_ = false;  // until packets go on
  bool is_seen_ = false;
  Instant died_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_REAL_CONTROLLER_FAULTS_H_
