// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_REAL_LOGGERS_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_REAL_LOGGERS_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "platform/drivers/loops/loop_region.h"
#include "runtime/core/unit.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// The output loggers of a run in real time: a loop of them for each loop of
// units, all on one thread, which is their own, or that of who calls Run or
// Turn.
//
// Owner-thread only, but for Run and Turn.
class RealLoggers {
 public:
  // The options are those of the first loop. What `side` points to must outlive
  // the object.
  RealLoggers(LoggerLoopOptions options, const NfSpec& nf,
              LoopRegion::LoggersSide side);
  ~RealLoggers() { Stop(); }
  RealLoggers(const RealLoggers&) = delete;
  RealLoggers& operator=(const RealLoggers&) = delete;

  // Runs all loops until Stop, or until somebody else says so (LoopControl).
  void Run();
  // Starts a thread that does so, and returns it.
  std::thread& StartThread();
  void Stop();
  // Lets each loop take a turn; returns true if there was anything to do.
  bool Turn();

  // Returns how the unit's logger has something else than the unit, of which
  // all entries are released: another flow or record, or other free pieces of
  // the first `pools` pools. Call it once, after Stop: it seals the logger, so
  // that this says what it would if its unit had failed.
  std::optional<std::string> DifferenceFrom(const Unit& unit, size_t pools);

 private:
  std::vector<std::unique_ptr<LoggerLoop>> loops_;
  std::vector<Doorbell*> bells_;  // any wakes it; it rings the first
  LoopControl* control_;
  std::thread thread_;  // none if Turn is called
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_REAL_LOGGERS_H_
