// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_drain.h"

#include <algorithm>

namespace snf {

bool RealDrain::AwaitPackets() {
  ControllerLoop& loop = run_.loop;
  loop.HandleBatch(run_.egress);
  Instant last_move = RealClock::Monotonic();
  const auto has_loggers = [this] {
    const RealFaults* const faults = run_.parts.unit_faults;
    return faults == nullptr || faults->has_loggers();
  };
  while (loop.in_channels() > 0 || !loop.IsQuiet() || !has_loggers()) {
    if (RealClock::Monotonic() - begun_ > kTimersAtEnd) StopTimers();
    if (run_.failure.has_failed()) return false;
    const uint64_t left = loop.in_channels();
    const bool did = run_.turns.Turn();
    // Timers go on for as long as a packet is in a unit: they move none.
    if (loop.in_channels() != left || (did && left == 0)) {
      last_move = RealClock::Monotonic();
    } else if (RealClock::Monotonic() - last_move > run_.patience) {
      return false;
    } else if (run_.parts.starts != nullptr &&
               RealClock::Monotonic() - last_move > Milliseconds(50)) {
      run_.parts.starts->BeginEnded();
    }
    if (!did) loop.IdleWait(loop.is_starting() ? Milliseconds(1) : Nanos{});
  }
  return true;
}

// Each step costs a turn of all loops. Timers of flows, which may be days
// apart, need no order among flows, so each step is twice as long as the last.
// But an NF's timer comes before an end of its flow that is due later: a step
// does not go beyond the first one by more than kStep.
bool RealDrain::SkipTimers() {
  constexpr Nanos kStep = Milliseconds(10);
  constexpr Nanos kLongest = Seconds(24 * 3'600);
  Nanos step = kStep;
  for (Instant due; (due = run_.loop.NextDue()) != Instant::max();) {
    Instant to = due + step;
    const bool runs_timers =
        due - run_.result.last_packet <= kTimersAfterLastPacket;
    if (!runs_timers) StopTimers();
    if (runs_timers && run_.example.has_timer()) {
      to = std::max(due + kStep, std::min(to, run_.loop.NextDueOfUnits()));
    }
    step = std::min(Nanos{2 * step.ns}, kLongest);
    run_.clock.SkipTo(to);
    for (const LoopRegion::Loop& loop : run_.loops) {
      loop.clock->Follow(run_.clock);
      loop.bell->Ring();
    }
    ++run_.result.real.skips;
    if (!AwaitPackets()) return false;
  }
  return true;
}

void RealDrain::StopTimers() {
  for (const LoopRegion::Loop& loop : run_.loops) {
    loop.control->stops_timers = true;
  }
}

}  // namespace snf
