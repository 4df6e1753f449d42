// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_CONTROLLER_FAULTS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_CONTROLLER_FAULTS_H_

#include <functional>
#include <string_view>

#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/run/kill_plan.h"
#include "platform/run/run.h"

namespace snf {

// Lets the controller of a run in real time fail as RunOptions::faults says,
// and the loop make a successor from what units report (proto/protocol.md F9).
// The end of a controller, which is a part of this process, is noticed in the
// next turn.
//
// Owner-thread only.
class RealControllerFaults {
 public:
  using Notice = std::function<void(std::string_view)>;
  // All references must outlive the object. `prepare` adds the NF's pools to a
  // controller. `notice` gets a line for each controller that failed, and for
  // its successor; it may be null.
  RealControllerFaults(const RunOptions& options, Notice notice,
                       std::function<void(Controller&)> prepare,
                       ControllerLoop& loop, Egress& egress,
                       ControllerFaultFigures& figures);

  // Plans the kills that have a time.
  void on_start(Instant first_packet) { plan_.on_start(first_packet); }
  // Lets the controller fail by chance, as a packet arrives.
  void on_arrival() {
    plan_.on_arrival(rng_, [this](const Kill& /*kill*/) { KillOne(); });
  }
  // Does what is due; returns true if there was anything. Call it in each turn
  // of the run.
  bool Turn() {
    if (loop_.is_led() && !is_down_ && loop_.now() < plan_.next()) [[likely]]
      return false;
    return TurnNow();
  }
  // Returns how long the run may sleep before the next kill.
  Nanos MayWait() const {
    return plan_.next() != Instant::max() ? Milliseconds(1) : Nanos::max();
  }
  // Lets the controller fail now; counts a kill in vain if there is none.
  void KillOne();
  // Kills no controller any more, and adds the successions' counts to the
  // figures.
  void Finish();

 private:
  bool TurnNow();

  const Notice notice_;
  const std::function<void(Controller&)> prepare_;
  ControllerLoop& loop_;
  Egress& egress_;
  ControllerFaultFigures& figures_;
  Rng rng_;
  KillPlan plan_;
  bool is_down_ = false;  // until packets go on
  bool is_seen_ = false;
  Instant died_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_CONTROLLER_FAULTS_H_
