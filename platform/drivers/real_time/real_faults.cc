// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_faults.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/quantity.h"

namespace snf {
namespace {

std::string Named(const std::vector<UnitId>& units) {
  constexpr size_t kMostNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(units.size(), kMostNamed); ++i) {
    text +=
        fmt::format("{}{}", i == 0 ? ", with units " : ", ", value(units[i]));
  }
  if (units.size() > kMostNamed) {
    text += fmt::format(" and {} more", units.size() - kMostNamed);
  }
  return text;
}

}  // namespace

RealFaults::RealFaults(const RunOptions& options, Notice notice, Renew renew,
                       std::span<const LoopRegion::Loop> loops,
                       UnitProcesses& processes, WireFaults& wire,
                       ControllerLoop& loop, Egress& egress,
                       FailedPackets packets, FaultFigures& figures)
    : notice_(std::move(notice)),
      renew_(std::move(renew)),
      max_units_(options.controller.max_units),
      processes_(processes),
      wire_(wire),
      loop_(loop),
      egress_(egress),
      packets_(std::move(packets)),
      figures_(figures),
      rng_(Rng(options.controller.seed).Fork(6)),
      plan_(options.faults,
            [](const Kill& kill) { return !kill.is_of_controller(); }),
      loops_(loops),
      loggers_(loops, processes, wire, loop, figures),
      lives_(loops.size()),
      wanted_(loops.size()),
      hostile_(loops.size() + 1),
      frozen_(processes.size() + 1),
      report_patience_(PatienceFor(options)) {}

Nanos RealFaults::PatienceFor(const RunOptions& options) {
  const Nanos of_nf = options.nf_patience;
  return of_nf == Nanos::max() ? of_nf : Nanos{of_nf.ns + kReportPatience.ns};
}

void RealFaults::LetRest(size_t first, std::function<void(size_t)> ended) {
  ended_ = std::move(ended);
  for (size_t i = first; i < lives_.size(); ++i) {
    lives_[i].Rest(Instant::min());
    loops_[i].log_control->begun = LogControl::kNone;
  }
}

// --- Deaths. ---

bool RealFaults::CanDie(UnitId unit) const {
  const ProcessLife& of_unit = lives_[value(unit) % lives_.size()];
  if (of_unit.is_down || of_unit.is_killed() || !loggers_.CanSpareUnits()) {
    return false;
  }
  return loop_.IsUp(unit);
}

void RealFaults::KillOne(const Kill& kill) {
  if (kill.is_of_logger()) {
    if (CanLoggersDie()) {
      loggers_.Kill();
    } else {
      ++figures_.kills_without_logger;
    }
    return;
  }
  std::vector<UnitId> units;
  for (uint32_t i = 0; i < max_units_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (kill.unit != kNoUnit && kill.unit != unit) continue;
    if (CanDie(unit)) units.push_back(unit);
  }
  if (units.empty()) {
    ++figures_.kills_without_unit;
    return;
  }
  KillLoop(value(units[rng_.Below(units.size())]) % lives_.size());
}

// Returns the process, or counts that there is none and returns 0.
pid_t RealFaults::KillLoop(size_t loop) {
  const pid_t pid = processes_.pid(loop);
  if (pid <= 1) {
    ++figures_.kills_without_unit;
    return 0;
  }
  lives_[loop].Kill(loop_.ReadClock());
  ++figures_.kills;
  ::kill(pid, SIGKILL);
  return pid;
}

absl::StatusOr<RealFaults::Killed> RealFaults::KillUnit(UnitId unit) {
  const size_t loop = value(unit) % lives_.size();
  Killed killed = {.units = UnitsOf(loop)};
  if (std::ranges::find(killed.units, unit) == killed.units.end()) {
    return absl::FailedPreconditionError(
        fmt::format("unit {} does not run", value(unit)));
  }
  killed.process = CanDie(unit) ? KillLoop(loop) : 0;
  if (killed.process > 0) return killed;
  return absl::FailedPreconditionError(
      "recovery from the previous kill is still in progress");
}

// Units whose ends nobody has seen yet need them.
absl::StatusOr<RealFaults::Killed> RealFaults::KillLoggers() {
  const Killed killed = {.process = CanLoggersDie() ? loggers_.Kill() : 0};
  if (killed.process > 0) return killed;
  const std::string why = loop_.WhyLoggers();
  return absl::FailedPreconditionError(
      "recovery from the previous kill is still in progress" +
      (why.empty() ? "" : fmt::format(": only loggers have {}", why)));
}

// Packets wait for somebody: perhaps for one that stands still.
void RealFaults::KillFrozen() {
  const Instant now = loop_.now();
  frozen_.Begin(now);
  const pid_t launcher = processes_.launcher_pid();
  if (frozen_.Look(now, processes_.size(), launcher, 0)) {
    ::kill(launcher, SIGCONT);
    if (notice_ != nullptr) {
      notice_(
          fmt::format("the launcher of units (process {}) was stopped for "
                      "{}, and is continued",
                      launcher, FormatDuration(FrozenWatch::kPatience)));
    }
  }
  const auto tell = [this](const std::string& what, pid_t pid) {
    if (notice_ == nullptr) return;
    notice_(
        fmt::format("{} (process {}) made no progress for {}, and is killed",
                    what, pid, FormatDuration(FrozenWatch::kPatience)));
  };
  for (size_t i = 0; i < lives_.size(); ++i) {
    const pid_t pid = lives_[i].is_down ? 0 : processes_.pid(i);
    const uint64_t done = loops_[i].progress->received.load();
    if (!frozen_.Look(now, i, pid, done)) continue;
    tell(fmt::format("unit loop {}", i), pid);
    lives_[i].Kill(loop_.ReadClock());
    ::kill(pid, SIGKILL);
  }
  const size_t loggers = processes_.loggers();
  const pid_t pid = loggers_.is_down() ? 0 : processes_.pid(loggers);
  if (!frozen_.Look(now, loggers, pid, 0)) return;
  tell("the loggers", pid);
  loggers_.KillFrozen();
}

// Nothing more is taken from them already. What a process has said that has
// ended, or is killed anyway, is over with it.
void RealFaults::KillHostile() {
  for (uint32_t i = 0; i < lives_.size(); ++i) {
    if (lives_[i].starts)
      continue;  // it is killed once it is known to be ready
    const auto what = wire_.TakeBlame(i);
    if (what.has_value()) EndHostileUnits(i, *what);
  }
  if (!loggers_.MayBeKilled()) return;
  const auto what = wire_.TakeBlame(static_cast<uint32_t>(lives_.size()));
  if (what.has_value()) EndHostileLoggers(*what);
}

// All wait for the reports of which a controller is made: who withholds one
// would stop them for ever.
void RealFaults::KillSilent() {
  const uint32_t epoch = loop_.succession()->epoch();
  const Instant now = loop_.now();
  if (std::exchange(asked_epoch_, epoch) != epoch) asked_ = now;
  if (now - asked_ < report_patience_) return;
  asked_ = now;  // those that come in their place report anew
  const std::string what =
      fmt::format("it did not report to the new controller within {}",
                  FormatDuration(report_patience_));
  for (size_t i = 0; i < lives_.size(); ++i) {
    if (loop_.AwaitsReport(i, false)) EndHostileUnits(i, what);
  }
  // They report what they have of units after these.
  for (size_t i = 0; i < lives_.size() && loggers_.MayBeKilled(); ++i) {
    if (loop_.AwaitsReport(i, false) || !loop_.AwaitsReport(i, true)) continue;
    return EndHostileLoggers(what);
  }
}

void RealFaults::EndHostileUnits(size_t loop, std::string_view what) {
  ProcessLife& life = lives_[loop];
  if (life.is_down || life.is_killed()) return;
  if (IsTolerated(loop, life.begun, what)) ++figures_.processes_hostile;
  life.Kill(loop_.ReadClock());
  if (const pid_t pid = processes_.pid(loop); pid > 1) ::kill(pid, SIGKILL);
}

void RealFaults::EndHostileLoggers(std::string_view what) {
  if (IsTolerated(lives_.size(), loggers_.begun(), what)) {
    ++figures_.loggers_hostile;
  }
  loggers_.KillFrozen();
}

// Tells of a process of units, or of the loggers, which has begun then and is
// hostile; or ends the run and returns false.
bool RealFaults::IsTolerated(size_t process, Instant begun,
                             std::string_view what) {
  const bool is_units = process < lives_.size();
  if (IsTooMany(process, begun, what)) return false;
  if (notice_ == nullptr) return true;
  const pid_t pid = processes_.pid(is_units ? process : processes_.loggers());
  const std::string of = pid > 1 ? fmt::format(" (process {})", pid) : "";
  notice_(is_units
              ? fmt::format("unit loop {}{} is killed: {}", process, of, what)
              : fmt::format("the loggers{} are killed: {}", of, what));
  return true;
}

// Counts a failure of a process that began at `begun`. Ends the run and returns
// true if too many processes in a row have failed.
bool RealFaults::IsTooMany(size_t process, Instant begun,
                           std::string_view what) {
  if (loop_.ReadClock() - begun >= kGoodLife) hostile_[process] = 0;
  if (++hostile_[process] <= kMostHostile) return false;
  processes_.EndRun(fmt::format(
      "{}, and so did {} earlier processes of {}", what, kMostHostile,
      process < lives_.size() ? fmt::format("unit loop {}", process)
                              : "the loggers"));
  return true;
}

// --- What follows. ---

bool RealFaults::TurnNow() {
  if (wire_.has_blame()) KillHostile();
  plan_.due(loop_.now(), [this](const Kill& kill) { KillOne(kill); });
  bool did = false;
  while (const auto ended = processes_.TakeEnd()) {
    did = true;
    if (ended->process < processes_.units()) {
      on_end(*ended);
    } else {
      on_loggers_end(*ended);
    }
  }
  for (size_t i = 0; down_ > 0 && i < lives_.size(); ++i) {
    if (wanted_[i]) BringUp(i);
  }
  if (loggers_.is_down() && loggers_.BringUp()) {
    did = true;
    if (notice_ != nullptr) {
      notice_(fmt::format("loggers are back as process {}",
                          processes_.pid(processes_.loggers())));
    }
  }
  NoteRecovery();
  return did;
}

void RealFaults::on_end(const UnitProcesses::End& end) {
  const size_t ended = end.process;
  ProcessLife& life = lives_[ended];
  const Instant now = loop_.ReadClock();
  const std::vector<UnitId> units = UnitsOf(ended);
  if (end.has_failed) {
    const std::string of_nf = Condemn(end);
    if (notice_ != nullptr) {
      notice_(
          fmt::format("unit loop {}{} {}{}{}", ended,
                      end.pid == 0 ? "" : fmt::format(" (process {})", end.pid),
                      end.how, end.was_ready ? Named(units) : "", of_nf));
    }
    ++figures_.processes_uncounted;
    if (life.is_killed()) figures_.detection_ns.Record((now - life.died).ns);
    deaths_.push_back(life.End(now));
  } else {
    life.Rest(now);
  }
  if (ended_ == nullptr) {
    Begin(ended);
  } else {
    down_ -= wanted_[ended] ? 1 : 0;
    wanted_[ended] = false;
    ended_(ended);
  }
  loop_.EndLoop(ended, egress_);
  // One that was told to stop, or is parked, has had nothing that others lack.
  const bool had_any = end.was_ready && (ended_ == nullptr ||
                                         (end.has_failed && !units.empty()));
  if (had_any) loggers_.on_units_killed();
  if (loggers_.is_down() && had_any) {
    EndForPair("units ended before the new loggers had their state");
  }
}

// If the failed process was amid a call of its NF, withholds the packet or flow
// of that call from other units. Returns text for the notice.
std::string RealFaults::Condemn(const UnitProcesses::End& end) {
  const PacketHandle in_call =
      loops_[end.process].progress->in_call.exchange(kNoPacket);
  std::string what =
      end.nf.has_value() ? fmt::format(": {}", end.nf->text.data()) : "";
  if (!loop_.is_led()) return what;  // all packets are lost
  const PacketsUnderWay::Sent* sent = loop_.FindIn(end.process, in_call);
  if (sent == nullptr && end.nf.has_value()) {
    sent = loop_.FindIn(end.process, end.nf->packet);
  }
  if (sent != nullptr) return what + NoteFailure(end, sent->meta, sent->packet);
  // The call was for a flow alone, which must be a flow of the failed process.
  if (!end.nf.has_value() || end.nf->flow == kNoFlow) return what;
  PacketMeta meta = {};
  meta.flow = end.nf->flow;
  meta.clock = Clock{end.nf->clock};
  const FlowTable& flows = loop_.controller().flows();
  const uint32_t slot = slot_of(meta.flow);
  if (packets_.FlowOf(meta.flow) == FlowKey{} ||
      value(flows.cold(slot).owner) % lives_.size() != end.process) {
    return what;
  }
  return what + NoteFailure(end, meta, kNoPacket);
}

std::string RealFaults::NoteFailure(const UnitProcesses::End& end,
                                    const PacketMeta& meta,
                                    PacketHandle packet) {
  const auto [drops, blocks] = quarantine_.on_end(
      loop_.now(), packets_.FlowOf(meta.flow), meta.clock, end.by_kill);
  std::string what = "; " + packets_.Name(meta, packet);
  if (!drops) return what;
  ++figures_.nf_failures;
  if (packet != kNoPacket) {
    loop_.Condemn(end.process, packet);
    const std::string why = end.nf.has_value() ? end.nf->text.data() : end.how;
    what += fmt::format("; the packet is dropped, and {}",
                        packets_.Keep(packet, why));
  }
  if (!blocks) return what;
  ++figures_.flows_blocked;
  loop_.CondemnFlow(end.process, meta.flow);
  return what + fmt::format(
                    "; the flow is blocked: the NF has failed on it {} "
                    "times",
                    Quarantine::kMostFailures);
}

// Returns the units that fail with the loop's process.
std::vector<UnitId> RealFaults::UnitsOf(size_t loop) const {
  std::vector<UnitId> units;
  for (auto i = static_cast<uint32_t>(loop); i < max_units_;
       i += static_cast<uint32_t>(lives_.size())) {
    const UnitId unit{static_cast<uint16_t>(i)};
    const UnitPool::State state = loop_.controller().units().state(unit);
    if (state != UnitPool::State::kStopped &&
        state != UnitPool::State::kCrashed) {
      units.push_back(unit);
    }
  }
  return units;
}

void RealFaults::on_loggers_end(const UnitProcesses::End& end) {
  if (notice_ != nullptr) {
    notice_(fmt::format("{} of loggers {}",
                        end.pid == 0 ? std::string("the process")
                                     : fmt::format("process {}", end.pid),
                        end.how));
  }
  const bool has_crashed = end.was_ready && !end.by_kill;
  if (has_crashed &&
      IsTooMany(lives_.size(), loggers_.begun(),
                fmt::format("the process of loggers {}", end.how))) {
    return;
  }
  const std::string lost = loggers_.on_end(end.was_ready);
  if (!lost.empty()) {
    EndForPair(fmt::format("loggers ended before other units had {}", lost));
  }
}

// Nobody has what the units did.
void RealFaults::EndForPair(std::string_view how) {
  processes_.EndRun(fmt::format(
      "units and their loggers failed at once: {} (proto/protocol.md, section "
      "6)",
      how));
}

void RealFaults::BringUp(size_t down) {
  ProcessLife& life = lives_[down];
  if (life.starts) {
    if (!processes_.is_ready(down)) {
      const pid_t pid = processes_.pid(down);
      if (pid > 1 && loop_.now() - life.begun > kStartPatience) {
        ::kill(pid, SIGKILL);
      }
      return;
    }
    life.Begin(loop_.now());
    --down_;
    wanted_[down] = false;
    loop_.BeginLoop(down);
    if (notice_ != nullptr && ended_ == nullptr) {
      notice_(fmt::format("unit loop {} is back as process {}", down,
                          processes_.pid(down)));
    }
    return;
  }
  if (stops_ || !life.may_start(loop_.now()) || !loop_.MayBegin(down)) return;
  life.Start(loop_.now());
  wire_.TakeBlame(static_cast<uint32_t>(down));  // of the one before, late
  LogControl& control = *loops_[down].log_control;
  control.begun = control.ends.load();
  renew_(down, loggers_.told_process());
  loop_.StartLoop(down);
  processes_.StartAgain(down);
}

void RealFaults::NoteRecovery() {
  if (deaths_.empty() || !loop_.is_led() ||
      loop_.controller().is_recovering()) {
    return;
  }
  for (const Instant died : deaths_) {
    figures_.recovery_ns.Record((loop_.now() - died).ns);
  }
  if (notice_ != nullptr) {
    const Nanos took = loop_.now() - deaths_.back();
    notice_(took.ns == 0
                ? "recovered: no unit had anything of the process that "
                  "failed"
                : fmt::format("recovered {} after a process failed",
                              FormatDuration(took)));
  }
  deaths_.clear();
}

}  // namespace snf
