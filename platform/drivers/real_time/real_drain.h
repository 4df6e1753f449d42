// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_DRAIN_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_DRAIN_H_

#include <span>

#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/real_failure.h"
#include "platform/drivers/real_time/real_turns.h"
#include "platform/run/run.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Drains a run in real time after its last packet: takes turns until all
// packets have left, then skips the clock, in steps that grow, over all timers
// of flows and units, until none is left.
//
// Owner-thread only.
class RealDrain {
 public:
  struct Run {
    ControllerLoop& loop;
    Egress& egress;
    RealTurns& turns;
    const RealParts& parts;
    const RealFailure& failure;
    std::span<const LoopRegion::Loop> loops;
    RealClock& clock;
    const NetworkFunction& example;  // runs nothing
    RunResult& result;
    Nanos patience;  // for a packet that does not move
  };

  // The drain begins now. All references must outlive the object.
  explicit RealDrain(const Run& run)
      : run_(run), begun_(RealClock::Monotonic()) {}

  // Takes turns until nothing moves; returns true if all packets are out of the
  // units then.
  bool AwaitPackets();
  // Skips the clock over all timers. Returns true if packets that NFs made
  // meanwhile have left as well.
  bool SkipTimers();

 private:
  // Wall-clock limit of NFs' timers after the last packet, on top of
  // kTimersAfterLastPacket.
  static constexpr Nanos kTimersAtEnd = Seconds(10);

  void StopTimers();

  const Run run_;
  const Instant begun_;  // by the machine's clock
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_DRAIN_H_
