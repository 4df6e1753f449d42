// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/real_faults.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace snf {

RealFaults::RealFaults(const RunOptions& options, Notice notice,
                       std::span<const LoopRegion::Loop> loops,
                       UnitProcesses& processes, ControllerLoop& loop,
                       Egress& egress, FaultFigures& figures)
    : options_(options.faults),
      notice_(std::move(notice)),
      max_units_(options.controller.max_units),
      processes_(processes),
      loop_(loop),
      egress_(egress),
      figures_(figures),
      rng_(Rng(options.controller.seed).Fork(6)),
      kill_times_(options.faults.kills.size(), Instant::max()),
      loops_(loops),
      loggers_(loops, processes, loop, figures),
      lives_(loops.size()) {}

// --- Deaths. ---

void RealFaults::on_start(Instant first_packet) {
  for (size_t i = 0; i < options_.kills.size(); ++i) {
    const Kill& kill = options_.kills[i];
    if (kill.at.ns < 0) {
      has_chances_ = true;
    } else {
      kill_times_[i] = first_packet + kill.at;
      next_kill_ = std::min(next_kill_, kill_times_[i]);
    }
  }
}

void RealFaults::KillByChance() {
  for (const Kill& kill : options_.kills) {
    if (kill.at.ns < 0 && rng_.Chance(kill.chance_65536)) KillOne(kill);
  }
}

void RealFaults::KillPlanned() {
  next_kill_ = Instant::max();
  for (size_t i = 0; i < kill_times_.size(); ++i) {
    if (kill_times_[i] <= loop_.now()) {
      kill_times_[i] = Instant::max();
      KillOne(options_.kills[i]);
    }
    next_kill_ = std::min(next_kill_, kill_times_[i]);
  }
}

bool RealFaults::CanDie(UnitId unit) const {
  const ProcessLife& of_unit = lives_[value(unit) % lives_.size()];
  if (of_unit.is_down || of_unit.is_killed() || !loggers_.CanSpareUnits()) {
    return false;
  }
  switch (loop_.controller().units().state(unit)) {
    case UnitPool::State::kStopped:
    case UnitPool::State::kCrashed:
    case UnitPool::State::kFailed:
      return false;
    default:
      return true;
  }
}

void RealFaults::KillOne(const Kill& kill) {
  if (kill.is_of_logger()) {
    // A unit whose end nobody has seen yet needs them.
    if (std::ranges::none_of(lives_, &ProcessLife::is_killed)) {
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
  const size_t loop = value(units[rng_.Below(units.size())]) % lives_.size();
  const pid_t pid = processes_.pid(loop);
  if (pid <= 1) {
    ++figures_.kills_without_unit;
    return;
  }
  lives_[loop].Kill(loop_.ReadClock());
  ++figures_.kills;
  ::kill(pid, SIGKILL);
}

// --- What follows. ---

bool RealFaults::TurnNow() {
  if (next_kill_ <= loop_.now()) KillPlanned();
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
    if (lives_[i].is_down) BringUp(i);
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
  if (notice_ != nullptr) {
    notice_(fmt::format("unit loop {} (process {}) was killed by signal {}{}",
                        ended, end.pid, SIGKILL, UnitsOf(ended)));
  }
  ++figures_.processes_uncounted;
  if (life.is_killed()) figures_.detection_ns.Record((now - life.died).ns);
  down_ += life.is_down ? 0 : 1;
  deaths_.push_back(life.End(now));
  loop_.EndLoop(ended, egress_);
  if (loggers_.is_down()) {
    EndForPair("units ended before another process of loggers had all");
  }
}

// Names the units that fail with the loop's process.
std::string RealFaults::UnitsOf(size_t loop) const {
  constexpr uint32_t kMostNamed = 8;
  std::string text;
  uint32_t count = 0;
  for (auto i = static_cast<uint32_t>(loop); i < max_units_;
       i += static_cast<uint32_t>(lives_.size())) {
    const UnitPool::State state =
        loop_.controller().units().state(UnitId{static_cast<uint16_t>(i)});
    if (state == UnitPool::State::kStopped ||
        state == UnitPool::State::kCrashed) {
      continue;
    }
    if (++count > kMostNamed) continue;
    text += fmt::format("{}{}", count == 1 ? ", with units " : ", ", i);
  }
  if (count > kMostNamed)
    text += fmt::format(" and {} more", count - kMostNamed);
  return text;
}

void RealFaults::on_loggers_end(const UnitProcesses::End& end) {
  if (notice_ != nullptr) {
    notice_(fmt::format("process {} of loggers was killed by signal {}",
                        end.pid, SIGKILL));
  }
  const bool is_fine = loggers_.CanBeReplaced();
  loggers_.on_end();
  if (!is_fine) EndForPair("loggers ended before other units had all");
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
    if (!processes_.is_ready(down)) return;
    life.Begin(loop_.now());
    --down_;
    loop_.BeginLoop(down);
    if (notice_ != nullptr) {
      notice_(fmt::format("unit loop {} is back as process {}", down,
                          processes_.pid(down)));
    }
    return;
  }
  if (stops_ || !life.may_start(loop_.now()) || !loop_.MayBegin(down)) return;
  life.Start(loop_.now());
  LogControl& control = *loops_[down].log_control;
  control.begun = control.ends.load();
  processes_.StartAgain(down);
}

void RealFaults::NoteRecovery() {
  if (deaths_.empty() || loop_.controller().is_recovering()) return;
  for (const Instant died : deaths_) {
    figures_.recovery_ns.Record((loop_.now() - died).ns);
  }
  deaths_.clear();
}

}  // namespace snf
