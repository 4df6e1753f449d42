// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_LIVE_LOOK_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_LIVE_LOOK_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/run/figures/live_figures.h"
#include "platform/run/pace.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Shows a run in real time while it goes on: figures to the board
// (RealOptions::live), every LiveBoard::kPeriod, and to observers how long
// units were busy, if RealOptions::measures_busy.
//
// Owner-thread only.
class LiveLook {
 public:
  // All references must outlive the object. `example` runs nothing.
  LiveLook(const RunOptions& options, const RealOptions& real,
           const NetworkFunction& example,
           std::span<const LoopRegion::Loop> loops, const ControllerLoop& loop,
           Egress& egress, RunResult& result);

  // Sets what adds the hosts of units to the figures.
  void set_hosts(std::function<void(LiveFigures&)> hosts) {
    hosts_ = std::move(hosts);
  }
  // Starts the publishing.
  void Begin(Instant now);
  // Sets the time from which LiveFigures::elapsed counts.
  void set_began(Instant now) { began_ = now; }
  Instant began() const { return began_; }
  // Does what is due. Call it in each turn of the run.
  void Turn() {
    if (measures_busy_) [[unlikely]]
      TellBusy();
    if (loop_.now() >= next_) Publish();
  }
  // Tells observers how long units were busy since the last call.
  void TellBusy();
  // Publishes once, if there is a board.
  void Publish();
  // Publishes no more.
  void Stop();
  // Returns the figures of now, without times, states of NFs' objects, and what
  // RealOptions::amend adds.
  LiveFigures Look();
  // Returns the states of objects that the NFs watch.
  std::vector<LiveFigures::NfObject> LookAtObjects() const;

 private:
  LiveBoard* board_;  // null: nothing is published
  const std::function<void(LiveFigures&)> amend_;
  std::function<void(LiveFigures&)> hosts_;  // may be null
  const bool measures_busy_;
  const NetworkFunction& example_;
  const Speed speed_;
  const uint32_t max_units_;
  std::optional<int64_t> unit_capacity_bps_;  // absent: units are unpaced
  std::span<const LoopRegion::Loop> loops_;
  const ControllerLoop& loop_;
  Egress& egress_;
  RunResult& result_;
  Instant began_;
  Instant next_ = Instant::max();             // when to publish
  std::unique_ptr<LiveTimes> latency_times_;  // null without a board
  std::unique_ptr<LiveTimes> late_times_;
  Nanos busy_;  // of all units, that observers know of
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_LIVE_LOOK_H_
