// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_FAULTS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_FAULTS_H_

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/unit_processes.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/real_logger_faults.h"
#include "platform/process/frozen_watch.h"
#include "platform/process/process_life.h"
#include "platform/process/quarantine.h"
#include "platform/run/failed_packets.h"
#include "platform/run/kill_plan.h"
#include "platform/run/run.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// The failures of units and loggers in a run in real time in which both are
// processes (proto/protocol.md F1-F6, F8, F11, F12): it kills processes as
// RunOptions::faults says, lets the controller know when one of units has
// ended, whatever ended it, and starts it again after a pause (ProcessLife), as
// often as it takes. A packet on which the NF has failed is dropped and kept
// aside, and a flow on which it fails often is blocked (Quarantine).
//
// It also kills processes of units or loggers that a signal has stopped for
// long (FrozenWatch), and processes that sent a bad word or blame another for
// one (WireFaults::Blame); it continues a stopped launcher. More than
// kMostHostile hostile processes in a row, of one loop or of loggers, end the
// run; so do that many crashes of loggers. A process that lives for kGoodLife
// ends the row.
//
// If a unit and its logger end at once, the unit's work is lost, and the run
// ends. No process is killed if its death would bring this about.
//
// If processes come and go with their units (LetRest), a process that ends is
// not started again until Begin.
//
//   end ─► UnitProcesses ─► ControllerLoop::EndLoop ─Seal─► loggers …
//                                                    … recovered
//                  StartAgain ◄── MayBegin, pause ◄──┘
//
// Owner-thread only.
class RealFaults {
 public:
  using Notice = std::function<void(std::string_view)>;
  // Restores the memory that a loop's next process reads (LoopRegion::Renew,
  // RealClock::Follow), after the last process may have spoiled it.
  // `logger_process` is the process of loggers that the next one finds.
  using Renew = std::function<void(size_t loop, uint32_t logger_process)>;
  static constexpr uint32_t kMostHostile = 3;
  static constexpr Nanos kGoodLife = Seconds(10);
  // A working unit reports once its NF has returned, at the latest after
  // RunOptions::nf_patience. The wait for a report ends this long after that.
  static constexpr Nanos kReportPatience = Seconds(2);
  static Nanos PatienceFor(const RunOptions& options);

  // A process that is not ready so long after its start is killed.
  static constexpr Nanos kStartPatience = Seconds(30);

  // All references must outlive the object. `notice` gets a line for each
  // process that has failed, and that is back; it may be null.
  RealFaults(const RunOptions& options, Notice notice, Renew renew,
             std::span<const LoopRegion::Loop> loops, UnitProcesses& processes,
             WireFaults& wire, ControllerLoop& loop, Egress& egress,
             FailedPackets packets, FaultFigures& figures);

  // Lets Begin alone start processes: loops from `first` on have none yet.
  // `ended` is called first of all when a process has ended. Call it before
  // anything else.
  void LetRest(size_t first, std::function<void(size_t loop)> ended);
  // Starts a process for the loop, as soon as it may have one.
  void Begin(size_t loop) {
    down_ += wanted_[loop] ? 0 : 1;
    wanted_[loop] = true;
  }
  // Returns true if the loop has a process that is ready.
  bool is_up(size_t loop) const { return !lives_[loop].is_down; }

  // Plans the kills that have a time.
  void on_start(Instant first_packet) { plan_.on_start(first_packet); }
  // Kills by chance with each packet.
  void on_arrival() {
    plan_.on_arrival(rng_, [this](const Kill& kill) { KillOne(kill); });
  }
  // Does what is due; returns true if there was anything. Call it in each turn
  // of the run.
  bool Turn() {
    const bool looks = loop_.in_channels() > 0 && frozen_.is_due(loop_.now());
    if (!is_busy() && !looks && !wire_.has_blame() && loop_.has_controller() &&
        loop_.now() < plan_.next()) [[likely]] {
      return false;
    }
    if (looks) KillFrozen();
    if (!loop_.has_controller()) KillSilent();
    return TurnNow();
  }
  // Returns how long the run may sleep, as far as this knows.
  Nanos MayWait() const {
    return is_busy() || plan_.next() != Instant::max() ? Milliseconds(1)
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
  // A packet of the flow has come. Returns true if the NF is not to get it.
  bool IsBlocked(const FlowKey& flow) {
    return quarantine_.IsBlocked(loop_.now(), flow);
  }
  bool has_blocked() const { return quarantine_.has_blocked(); }
  // Starts no process any more.
  void Stop() {
    stops_ = true;
    loggers_.Stop();
  }
  // Returns true if loggers run, and have all that units keep.
  bool has_loggers() const { return !loggers_.is_down(); }

 private:
  bool is_busy() const {
    return down_ > 0 || !deaths_.empty() || processes_.has_ends() ||
           loggers_.is_down();
  }
  bool TurnNow();
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
  bool IsTooMany(size_t process, Instant begun, std::string_view what);
  void on_end(const UnitProcesses::End& end);
  std::string Condemn(const UnitProcesses::End& end);
  std::string NoteFailure(const UnitProcesses::End& end, const PacketMeta& meta,
                          PacketHandle packet);
  void on_loggers_end(const UnitProcesses::End& end);
  std::vector<UnitId> UnitsOf(size_t loop) const;
  void EndForPair(std::string_view how);
  void BringUp(size_t loop);
  void NoteRecovery();

  const Notice notice_;
  const Renew renew_;
  const uint32_t max_units_;
  UnitProcesses& processes_;
  WireFaults& wire_;
  ControllerLoop& loop_;
  Egress& egress_;
  FailedPackets packets_;
  Quarantine quarantine_;
  FaultFigures& figures_;
  Rng rng_;
  KillPlan plan_;
  bool stops_ = false;
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

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_FAULTS_H_
