// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_REAL_FAULTS_H_
#define SNF_PLATFORM_REAL_TIME_REAL_FAULTS_H_

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/real_time/egress.h"
#include "platform/real_time/frozen_watch.h"
#include "platform/real_time/loop_region.h"
#include "platform/real_time/process_life.h"
#include "platform/real_time/real_logger_faults.h"
#include "platform/real_time/unit_processes.h"
#include "platform/run/run.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// The failures of units and loggers in a run in real time in which both are
// processes (proto/protocol.md F1-F6, F8): it kills processes as
// RunOptions::faults says, lets the controller know when one of units has
// ended, whoever killed it, and starts it again after a pause (ProcessLife). It
// also kills those that a signal has stopped for long (FrozenWatch), and those
// whose links have brought a bad word, or that have found one
// (WireFaults::Blame), of units or of loggers: more than kMostHostile of a loop
// in a row, or of loggers, end the run. One that has lived for kGoodLife begins
// another row.
//
// That a unit and its logger end at once, so that nobody has what the unit did,
// ends the run; it kills none that would bring this about.
//
// Where processes come and go with their units (LetRest), one that ends, as it
// was told or not, is not started again until Begin. The next one takes its
// place in the same way.
//
//   end ─► UnitProcesses ─► ControllerLoop::EndLoop ─Seal─► loggers …
//                                                    … recovered
//                  StartAgain ◄── MayBegin, pause ◄──┘
//
// Owner-thread only.
class RealFaults {
 public:
  using Notice = std::function<void(std::string_view)>;
  // Puts right what a loop's process may have written where the next one looks
  // (LoopRegion::Renew, RealClock::Follow), which it is to find of these
  // loggers.
  using Renew = std::function<void(size_t loop, uint32_t logger_process)>;
  static constexpr uint32_t kMostHostile = 3;
  static constexpr Nanos kGoodLife = Seconds(10);
  // A unit that works reports once the NF has returned, which it has to within
  // RunOptions::nf_patience; nobody waits longer than that and this for it.
  static constexpr Nanos kReportPatience = Seconds(2);
  static Nanos PatienceFor(const RunOptions& options);

  // All of them must outlive the object, but `notice`, which is told of each
  // process that was killed, and that is back; it may be null.
  RealFaults(const RunOptions& options, Notice notice, Renew renew,
             std::span<const LoopRegion::Loop> loops, UnitProcesses& processes,
             WireFaults& wire, ControllerLoop& loop, Egress& egress,
             FaultFigures& figures);

  // Processes are started by Begin alone: those of the loops from `first` on
  // have not been started yet. `ended` is told when one has ended, before
  // anything else is. Call it before anything else.
  void LetRest(size_t first, std::function<void(size_t loop)> ended);
  // The loop is to have a process, as soon as it may have one.
  void Begin(size_t loop) {
    down_ += wanted_[loop] ? 0 : 1;
    wanted_[loop] = true;
  }
  // Returns true if the loop has one, which is ready.
  bool is_up(size_t loop) const { return !lives_[loop].is_down; }

  // The first packet comes: those kills that have a time are planned.
  void on_start(Instant first_packet);
  // A packet comes: perhaps somebody dies.
  void on_arrival() {
    if (has_chances_) [[unlikely]]
      KillByChance();
  }
  // Does what is due; returns true if there was anything. Call it in each turn
  // of the run.
  bool Turn() {
    const bool looks = loop_.in_channels() > 0 && frozen_.is_due(loop_.now());
    if (!is_busy() && !looks && !wire_.has_blame() && loop_.has_controller() &&
        loop_.now() < next_kill_) [[likely]] {
      return false;
    }
    if (looks) KillFrozen();
    if (!loop_.has_controller()) KillSilent();
    return TurnNow();
  }
  // Returns how long the run may sleep, as far as this knows.
  Nanos MayWait() const {
    return is_busy() || next_kill_ != Instant::max() ? Milliseconds(1)
                                                     : Nanos::max();
  }
  // Kill the process that runs the unit, or that of the loggers, by SIGKILL.
  // Errors: FailedPrecondition says why it cannot be done without a loss.
  struct Killed {
    pid_t process = 0;
    std::vector<UnitId> units{};  // that fail with it
  };
  absl::StatusOr<Killed> KillUnit(UnitId unit);
  absl::StatusOr<Killed> KillLoggers();
  // No process is started any more.
  void Stop() {
    stops_ = true;
    loggers_.Stop();
  }
  // There are loggers, which have all that units keep.
  bool has_loggers() const { return !loggers_.is_down(); }

 private:
  bool is_busy() const {
    return down_ > 0 || !deaths_.empty() || processes_.has_ends() ||
           loggers_.is_down();
  }
  bool TurnNow();
  void KillByChance();
  void KillPlanned();
  void KillOne(const Kill& kill);
  bool CanDie(UnitId unit) const;
  bool CanLoggersDie() const {
    return std::ranges::none_of(lives_, &ProcessLife::is_killed);
  }
  pid_t KillLoop(size_t loop);
  void KillFrozen();
  void KillHostile();
  void KillSilent();
  void EndHostileUnits(size_t loop, std::string_view what);
  void EndHostileLoggers(std::string_view what);
  bool IsTolerated(size_t process, Instant begun, std::string_view what);
  void on_end(const UnitProcesses::End& end);
  void on_loggers_end(const UnitProcesses::End& end);
  std::vector<UnitId> UnitsOf(size_t loop) const;
  void EndForPair(std::string_view how);
  void BringUp(size_t loop);
  void NoteRecovery();

  const FaultOptions options_;
  const Notice notice_;
  const Renew renew_;
  const uint32_t max_units_;
  UnitProcesses& processes_;
  WireFaults& wire_;
  ControllerLoop& loop_;
  Egress& egress_;
  FaultFigures& figures_;
  Rng rng_;
  bool has_chances_ = false;
  bool stops_ = false;
  std::vector<Instant> kill_times_;  // of options_.kills; max: by chance, done
  Instant next_kill_ = Instant::max();
  std::span<const LoopRegion::Loop> loops_;
  RealLoggerFaults loggers_;
  std::vector<ProcessLife> lives_;     // by loop of units
  std::vector<bool> wanted_;           // by loop: it is to be brought up
  std::function<void(size_t)> ended_;  // of processes that come and go
  std::vector<uint32_t> hostile_;  // processes in a row, by loop; of loggers
  FrozenWatch frozen_;
  const Nanos report_patience_;
  uint32_t asked_epoch_ = 0;  // of the last controller that asked for reports
  Instant asked_;             // when that was seen
  uint32_t down_ = 0;         // of lives_, if they are wanted
  std::vector<Instant> deaths_;  // whose flows are not all moved yet
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_REAL_FAULTS_H_
