// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/logger_faults.h"

#include "platform/drivers/virtual_time/log_channel.h"

namespace snf {
namespace {

// A new logger looks so often whether its unit still waits for the controller.
constexpr Nanos kParkedRetry = Microseconds(10);

}  // namespace

LoggerFaults::LoggerFaults(const RunOptions& options, VirtualNetwork& network,
                           VirtualLoggers& loggers, FaultFigures& figures)
    : detection_(options.faults.detection),
      logger_delay_(options.logger_delay),
      network_(network),
      loggers_(loggers),
      figures_(figures) {}

bool LoggerFaults::CanDie(const VirtualUnit& shell) {
  return shell.process.state == UnitProcess::State::kRuns &&
         !shell.log->failure.has_value();
}

void LoggerFaults::KillLogger(Instant now, Kill::Victim form,
                              VirtualUnit& shell, Rng& rng) {
  ++figures_.logger_kills;
  LogChannel& log = *shell.log;
  const uint64_t taken = log.logger().taken();
  LogChannel::Failure failure = {.died = now,
                                 .with_host = form == Kill::Victim::kLoggerHost,
                                 .released = taken};
  // It may have died between noting and sending.
  if (!failure.with_host && !log.entry(taken + 1).empty() && rng.Chance(32'768))
    ++failure.released;
  log.failure = failure;
  network_.After(
      Nanos{detection_.ns + logger_delay_.ns},
      VirtualEvent::OfUnit(VirtualEvent::Kind::kLoggerReady, shell.unit.id()));
}

bool LoggerFaults::IsLost(const VirtualEvent& event, const VirtualUnit& shell) {
  using Kind = VirtualEvent::Kind;
  if (shell.log == nullptr || !shell.log->failure.has_value()) return false;
  return event.kind == Kind::kEntryAtLogger ||
         event.kind == Kind::kHeartbeatAtLogger || event.is_to_other_logger() ||
         (event.Is(ControllerCommand::Kind::kForget) && event.order.of_logger);
}

void LoggerFaults::on_ready(VirtualUnit& shell) {
  LogChannel& log = *shell.log;
  if (shell.unit.has_parked()) {
    // What is here of the flow is more than the logger is to have. The
    // controller, or its successor, answers, and until then the unit begins
    // nothing. A hop may take no time, and a successor does.
    log.failure->pauses_unit = true;
    network_.After(kParkedRetry,
                   VirtualEvent::OfUnit(VirtualEvent::Kind::kLoggerReady,
                                        shell.unit.id()));
    return;
  }
  log.failure->pauses_unit = false;
  if (log.failure->with_host) log.failure->released = log.maker().number();
  figures_.records_restored += log.Restore(shell.unit, log.failure->released);
  network_.After(logger_delay_,
                 VirtualEvent::OfUnit(VirtualEvent::Kind::kLoggerRestored,
                                      shell.unit.id()));
}

void LoggerFaults::on_restored(VirtualUnit& shell) {
  LogChannel& log = *shell.log;
  const LogChannel::Failure failure = *log.failure;
  const uint64_t taken = log.logger().taken();
  if (!log.Replace()) return on_ready(shell);
  loggers_.LosePackets(shell, taken + 1, failure.released);
  figures_.logger_recovery_ns.Record((network_.now() - failure.died).ns);
  if (failure.is_asked) loggers_.on_seal(shell, shell.process.seal);
  loggers_.AskForAll(shell);
}

}  // namespace snf
