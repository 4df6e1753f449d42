// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_TURNS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_TURNS_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/unit_threads.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/live_look.h"
#include "platform/drivers/real_time/real_controller_faults.h"
#include "platform/drivers/real_time/real_faults.h"
#include "platform/drivers/real_time/unit_starts.h"

namespace snf {

// Names the parts of a run in real time that some runs do not have; they are
// null then.
struct RealParts {
  UnitThreads* threads = nullptr;
  RealFaults* unit_faults = nullptr;  // of processes with loggers
  RealControllerFaults* controller_faults = nullptr;
  UnitStarts* starts = nullptr;  // with RealOptions::warm_pool
};

// Takes the turns of a run in real time on the dispatcher's thread: of the
// controller's loop, of loops that have no thread of their own, of failures and
// starts of processes, and of the figures that show the run. Says for how long
// the dispatcher may sleep between two turns.
//
// Reports the number of flows that lost their state, at most once in
// kBetweenNotices.
//
// Owner-thread only.
class RealTurns {
 public:
  static constexpr Nanos kBetweenNotices = Seconds(10);
  using Notice = std::function<void(std::string_view)>;

  // All references, and parts, must outlive the object. `notice` may be null.
  RealTurns(ControllerLoop& loop, Egress& egress, LiveLook& look,
            const RealParts& parts, const Notice& notice)
      : loop_(loop),
        egress_(egress),
        look_(look),
        parts_(parts),
        notice_(notice) {}

  // Takes one turn; returns true if there was anything to do.
  bool Turn();
  // Returns how long the run may sleep, as far as failures and starts know.
  Nanos LongestWait() const;

 private:
  void NoteGivenUp();

  ControllerLoop& loop_;
  Egress& egress_;
  LiveLook& look_;
  const RealParts& parts_;
  const Notice& notice_;
  uint64_t given_up_ = 0;  // flows in the last notice
  Instant given_up_noted_{};
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_TURNS_H_
