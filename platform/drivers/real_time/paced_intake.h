// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_PACED_INTAKE_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_PACED_INTAKE_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/real_failure.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/drivers/real_time/real_turns.h"
#include "platform/run/ingress.h"
#include "platform/run/pace.h"
#include "platform/run/run.h"
#include "runtime/ring/real_clock.h"
#include "traces/capture_reader.h"

namespace snf {

// Takes the packets of a capture into the controller's loop when they are due
// (Pace), and takes turns of the run while it waits. If packets wait for room
// (RealOptions::wait_for_room), also waits while as many are under way as may
// be, and for what the packets under way may change: a buffer, or an alias.
//
// Example: at the capture's speed, a packet that comes 3 ms after the first one
// is due 3 ms after the start. If the dispatcher is 1 ms late, the packet's
// arrival is still 3 ms, and schedule_error_ns has 1 ms.
//
// Called for each packet. Owner-thread only; allocates nothing for a packet.
class PacedIntake {
 public:
  struct Run {
    Ingress& ingress;
    ControllerLoop& loop;
    Egress& egress;
    RealTurns& turns;
    const RealParts& parts;
    const RealFailure& failure;
    const RealClock& clock;
    RunResult& result;
  };

  // All references must outlive the object. A packet waits for others that do
  // not move for `patience` at most.
  PacedIntake(const RunOptions& options, const RealOptions& real,
              Nanos patience, const Run& run);

  // Takes the next packet; returns when it was taken, which is when it was due
  // or later.
  void Offer(const CapturedPacket& captured);

  // Takes the early fragments that are to be taken at `until`; at the end of
  // traffic, pass Instant::max().
  void TakeKept(Instant until);

 private:
  const Controller& controller() const { return run_.loop.controller(); }
  // Takes a packet that arrived at `arrival`.
  void Come(Instant arrival, const CapturedPacket& captured);
  void WaitUntil(Instant due);
  void WaitForRoom(const CapturedPacket& captured);
  void Take(Instant arrival, const CapturedPacket& captured);
  bool WaitForCause(const Ingress::Taken& taken);

  const Run run_;
  const bool waits_for_room_;
  const Nanos patience_;
  Pace pace_;
  Instant last_captured_ = Instant::min();
  // Most packets under way of which none is dropped for want of room, by the
  // size of buffers.
  std::array<uint32_t, 3> most_under_way_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_PACED_INTAKE_H_
