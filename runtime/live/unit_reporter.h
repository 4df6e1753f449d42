// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_UNIT_REPORTER_H_
#define SNF_RUNTIME_LIVE_UNIT_REPORTER_H_

#include <atomic>
#include <cstdint>
#include <span>

#include "base/messages/report_messages.h"
#include "runtime/live/loop_unit.h"
#include "runtime/live/unit_logs.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/thread_link.h"

namespace snf {

// Reports what the units of a loop have to each controller that takes the place
// of a failed one (proto/protocol.md F9), once its epoch is seen, and behind
// the reports repeats the units' open requests.
//
// The loop reads the epoch after it has taken messages of other loops and
// before it handles them: their senders have reported to no newer controller
// (U14). Before it reports, the loop handles all words of the predecessor.
// The loggers report once they have all entries that units made before their
// reports.
//
// Owner-thread only.
class UnitReporter {
 public:
  // `controllers` outlives the object; null: the controller does not fail.
  explicit UnitReporter(const ControllerEpoch* controllers)
      : controllers_(controllers),
        epoch_(controllers != nullptr ? controllers->begun.load() : 0) {}

  // Returns true while another controller is to get the reports.
  bool is_due() const {
    return controllers_ != nullptr &&
           controllers_->newest.load(std::memory_order_acquire) != epoch_;
  }
  // Returns the epoch of the controller to which the units have reported.
  uint32_t epoch() const { return epoch_; }
  // Returns the epoch of the newest controller.
  uint32_t newest() const {
    return controllers_->newest.load(std::memory_order_acquire);
  }
  // Sends the reports of all units to the controller of this epoch.
  void Report(uint32_t epoch, std::span<LoopUnit> units, LinkOut& out,
              UnitLogs& logs);

  // Answers a DoneQuery of this round, after a failure of another unit: all at
  // once, since flows that come or go meanwhile could be left out.
  static void Answer(const LoopUnit& unit, uint32_t round, LinkOut& out);
  // Keeps the name of a flow for the next report; forgets names of flows that
  // the unit does not have any more.
  static void Keep(LoopUnit& unit, const FlowName& name);

 private:
  const ControllerEpoch* const controllers_;
  uint32_t epoch_;  // of the controller to which the units have reported
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_UNIT_REPORTER_H_
