// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/real_faults.h"

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace snf {

RealFaults::RealFaults(const RunOptions& options, UnitProcesses& processes,
                       ControllerLoop& loop, Egress& egress,
                       FaultFigures& figures)
    : options_(options.faults),
      max_units_(options.controller.max_units),
      processes_(processes),
      loop_(loop),
      egress_(egress),
      figures_(figures),
      rng_(Rng(options.controller.seed).Fork(6)),
      kill_times_(options.faults.kills.size(), Instant::max()),
      loops_(processes.size()) {}

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
  const Loop& of_unit = loops_[value(unit) % loops_.size()];
  if (of_unit.is_down || of_unit.died != Instant::max()) return false;
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
  const size_t loop = value(units[rng_.Below(units.size())]) % loops_.size();
  const pid_t pid = processes_.pid(loop);
  if (pid <= 1) {
    ++figures_.kills_without_unit;
    return;
  }
  loops_[loop].died = loop_.ReadClock();
  ++figures_.kills;
  ::kill(pid, SIGKILL);
}

// --- What follows. ---

bool RealFaults::TurnNow() {
  if (next_kill_ <= loop_.now()) KillPlanned();
  bool did = false;
  while (const auto ended = processes_.TakeEnd()) {
    on_end(*ended);
    did = true;
  }
  for (size_t i = 0; down_ > 0 && i < loops_.size(); ++i) {
    if (loops_[i].is_down) BringUp(i);
  }
  NoteRecovery();
  return did;
}

void RealFaults::on_end(size_t ended) {
  Loop& loop = loops_[ended];
  const Instant now = loop_.ReadClock();
  const Instant died = std::exchange(loop.died, Instant::max());
  if (died != Instant::max()) figures_.detection_ns.Record((now - died).ns);
  deaths_.push_back(std::min(died, now));
  const bool was_short = now - loop.begun < Nanos{kLongLife * loop.pause.ns};
  loop.pause = was_short ? std::min(Nanos{2 * loop.pause.ns}, kLongestPause)
                         : kFirstPause;
  loop.start_at = now + loop.pause;
  down_ += std::exchange(loop.is_down, true) ? 0 : 1;
  loop.starts = false;
  loop_.EndLoop(ended, egress_);
}

void RealFaults::BringUp(size_t down) {
  Loop& loop = loops_[down];
  if (loop.starts) {
    if (!processes_.is_ready(down)) return;
    loop.is_down = loop.starts = false;
    loop.begun = loop_.now();
    --down_;
    loop_.BeginLoop(down);
    return;
  }
  if (stops_ || loop_.now() < loop.start_at || !loop_.MayBegin(down)) return;
  loop.starts = true;
  loop.begun = loop_.now();
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
