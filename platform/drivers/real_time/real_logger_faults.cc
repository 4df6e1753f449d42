// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_logger_faults.h"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace snf {

pid_t RealLoggerFaults::Kill() {
  const pid_t pid = processes_.pid(processes_.loggers());
  if (pid <= 1 || !CanSpareUnits() || loop_.NeedsLoggers()) {
    ++figures_.kills_without_logger;
    return 0;
  }
  life_.Kill(loop_.ReadClock());
  had_none_ = true;
  ++figures_.logger_kills;
  ::kill(pid, SIGKILL);
  return pid;
}

void RealLoggerFaults::KillFrozen() {
  had_none_ = !loop_.NeedsLoggers();
  life_.Kill(loop_.ReadClock());
  ::kill(processes_.pid(processes_.loggers()), SIGKILL);
}

// A unit that had not begun when its process ended, as it was told, may fail
// meanwhile: nobody has anything of it.
std::string RealLoggerFaults::on_end(bool was_ready) {
  const bool had_none = std::exchange(had_none_, false) || !was_ready;
  std::string lost = had_none ? "" : loop_.WhyLoggers();
  ++figures_.logger_failures;
  died_ = std::min(died_, life_.End(loop_.ReadClock()));
  is_down_ = true;
  return lost;
}

bool RealLoggerFaults::BringUp() {
  const size_t loggers = processes_.loggers();
  if (!stops_ && life_.may_start(loop_.now())) {
    life_.Start(loop_.now());
    ++process_;
    loop_.ReopenLoggers();
    wire_.TakeBlame(static_cast<uint32_t>(loops_.size()));  // late
    processes_.StartAgain(loggers);
  } else if (life_.starts && processes_.is_ready(loggers)) {
    life_.Begin(loop_.now());
    told_process_ = process_;
    for (const LoopRegion::Loop& loop : loops_) {
      loop.control->logger_process.store(process_, std::memory_order_release);
      loop.bell->Ring();
    }
  }
  if (life_.is_down || !HaveAll()) return false;
  is_down_ = false;
  const Instant died = std::exchange(died_, Instant::max());
  figures_.logger_recovery_ns.Record((loop_.ReadClock() - died).ns);
  figures_.records_restored = 0;
  for (const LoopRegion::Loop& loop : loops_) {
    figures_.records_restored += loop.log_control->records.load();
  }
  return true;
}

bool RealLoggerFaults::HaveAll() const {
  return std::ranges::all_of(loops_, [this](const LoopRegion::Loop& loop) {
    return loop.log_control->restored.load(std::memory_order_acquire) ==
           process_;
  });
}

}  // namespace snf
