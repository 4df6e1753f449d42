// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_UNIT_STARTS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_UNIT_STARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "controller/live/loop_starter.h"
#include "platform/drivers/hosts/hosted_units.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/unit_processes.h"
#include "platform/drivers/real_time/real_faults.h"
#include "platform/run/run.h"
#include "resource_manager/core/warm_pool.h"

namespace snf {

// Lets the processes of loops of units come and go with the units that the
// controller starts and stops, as a WarmPool decides, whose places are the
// loops.
//
//   kStartUnit ─► on_start ─► parked: the unit's messages wake the process
//                      └────► none:   StartAgain, ready, BeginStarts
//   all units of a loop stopped ─► the process is parked again, or ends
//
// A parked process sleeps at the doorbell of its loop, whose memory it has
// mapped and whose NF it has run once. While it is parked its death is no
// failure: it is replaced. What another loop, or the controller, has to say to
// a loop without a process lets that begin.
//
// Where units have loggers, their processes are those of RealFaults, which
// tells of each end, and starts the next one once all is taken that the last
// one has left.
//
// Owner-thread only.
class UnitStarts final : public LoopStarter {
 public:
  // The first `parked` processes have been started; all of the others must
  // outlive the object. `faults` is null where units have no loggers, `hosts`
  // where the hosts of processes stay.
  UnitStarts(uint32_t parked, UnitProcesses& processes, ControllerLoop& loop,
             std::vector<LoopRegion::Loop> loops, UnitStartFigures& figures,
             RealFaults* faults, HostedUnits* hosts);

  bool on_start(UnitId unit) override;
  // Returns true if the unit's process runs where it should, so that a share of
  // the unit may be used. Else starts the process, if its host has joined: ask
  // again.
  bool MayLease(UnitId unit);
  // As HostedUnits::IsMisplaced.
  bool IsMisplaced(UnitId unit) {
    return hosts_ != nullptr &&
           hosts_->IsMisplaced(value(unit) % loops_.size());
  }
  // Does what is to be done; returns true if there was anything, or a process
  // is on its way. Call it in each turn of the run.
  bool Turn() {
    if (!is_busy_ && !has_ends() && loop_.now() < next_look_) [[likely]] {
      return false;
    }
    return TurnNow();
  }
  // Returns how long the run may sleep, as far as this knows.
  Nanos MayWait() const { return is_busy_ ? Milliseconds(1) : Nanos::max(); }
  // From now on no process is prepared, and none ends for want of use.
  void Close() { pool_.Close(); }
  // Lets loops run again whose process has ended, if units have loggers: the
  // next one says of all that was sent to them that it came, which the last one
  // may not have done (ControllerLoop::IsQuiet).
  void BeginEnded();

 private:
  // Between two looks at what the loops have to do.
  static constexpr Nanos kLook = Milliseconds(1);

  // A share is asked for again within less.
  static constexpr Nanos kLeaseWait = Seconds(1);

  // A unit that starts, and is not known to run yet.
  struct Start {
    UnitId unit;
    Instant asked;  // by the machine's clock
    bool is_parked;
  };

  bool has_ends() const { return faults_ == nullptr && processes_.has_ends(); }
  bool TurnNow();
  void on_end(size_t place);
  bool TakeReady();
  void Look();
  bool IsUsed(size_t place) const;
  bool Act();
  void Do(const WarmPool::Action& action);
  void Measure();

  UnitProcesses& processes_;
  ControllerLoop& loop_;
  const std::vector<LoopRegion::Loop> loops_;
  UnitStartFigures& figures_;
  RealFaults* faults_;  // null: processes_ are this one's
  HostedUnits* hosts_;  // null: hosts of processes stay
  WarmPool pool_;
  std::vector<Start> starts_;
  std::vector<Instant> leased_until_;  // by place: a share of it may follow
  bool is_busy_ = true;
  Instant next_look_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_UNIT_STARTS_H_
