// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_LOGGER_FAULTS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_LOGGER_FAULTS_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/unit_processes.h"
#include "platform/process/process_life.h"
#include "platform/run/run.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// The failures of the loggers in a run in real time, which are one process
// (proto/protocol.md L3, F8). It kills that process, starts another one when it
// has ended, whoever killed it, and lets the units' loops know, which hand over
// what they keep.
//
//   end ─► UnitProcesses ─► pause, StartAgain ─ready─► LoopControl ─► units
//                                       restored ◄─ LogControl ◄─ loggers
//
// Owner-thread only.
class RealLoggerFaults {
 public:
  // All that is given must outlive the object.
  RealLoggerFaults(std::span<const LoopRegion::Loop> loops,
                   UnitProcesses& processes, WireFaults& wire,
                   ControllerLoop& loop, FaultFigures& figures)
      : loops_(loops),
        processes_(processes),
        wire_(wire),
        loop_(loop),
        figures_(figures),
        process_(loops[0].control->logger_process),
        told_process_(process_) {}

  // The loggers are not there, or have not yet what units keep.
  bool is_down() const { return is_down_; }
  // Returns true if units may fail: the loggers have all that these keep.
  bool CanSpareUnits() const { return !is_down_ && !life_.is_killed(); }
  // Kills the process, and returns its id, or counts that it cannot be and
  // returns 0.
  pid_t Kill();
  // Kills it, whatever it has: it stands still, or says what cannot be.
  void KillFrozen();
  // Returns true if there is a process that was not killed, whatever it has,
  // and when it began.
  bool MayBeKilled() const {
    return (!life_.is_down || life_.starts) && !life_.is_killed() &&
           processes_.pid(processes_.loggers()) > 1;
  }
  Instant begun() const { return life_.begun; }
  // Returns the process of which units know.
  uint32_t told_process() const { return told_process_; }
  // A process of units was killed that may have had something.
  void on_units_killed() { had_none_ = false; }
  // The process has ended, or the next one cannot be started. Returns what of
  // units that failed before is lost with it (ControllerLoop::WhyLoggers); ""
  // if nothing is.
  std::string on_end(bool was_ready);
  // Does what is due while it is down; returns true if it is up again.
  bool BringUp();
  // No process is started any more.
  void Stop() { stops_ = true; }

 private:
  bool HaveAll() const;

  std::span<const LoopRegion::Loop> loops_;
  UnitProcesses& processes_;
  WireFaults& wire_;
  ControllerLoop& loop_;
  FaultFigures& figures_;
  ProcessLife life_;
  bool is_down_ = false;
  bool had_none_ = false;  // when it was killed, that was not with others
  bool stops_ = false;
  Instant died_ = Instant::max();  // the first since all was restored
  uint32_t process_;               // its number
  uint32_t told_process_;          // to units
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_LOGGER_FAULTS_H_
