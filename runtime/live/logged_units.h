// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGED_UNITS_H_
#define SNF_RUNTIME_LIVE_LOGGED_UNITS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/ids.h"
#include "base/messages/unit_commands.h"
#include "runtime/live/log_handover.h"
#include "runtime/live/loop_unit.h"
#include "runtime/live/unit_logs.h"
#include "runtime/logger/log_entry.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/shell/unit_shell.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Turns the calls of units with output loggers into entries (UnitLogs), and the
// releases of entries into calls. If the loggers' process may end, hands over
// what units keep to the next process (LogHandover), and updates of shared
// tables are part of the entries: loggers send the updates to the homes, and
// tell which are merged.
//
// `Calls` is the loop's side:
//   CallNow()                    a UnitCall, with room for commands
//   Shell(unit)                  the unit of this id
//   Execute(shell, command)      executes a command that is not for loggers
//   ExecuteMore(shell)           executes all, and lets the unit go on with it
//   AfterCall(shell)             the same, at the end of a call
//   SendToUnit(command)          to command.unit
//   SendToController(command)
//
// Owner-thread only. Allocates as UnitLogs and LogHandover do.
class LoggedUnits {
 public:
  // The references must outlive the object. `reports`: the controller may fail.
  // `to_next` leads to the loggers' next process; absent: they do not end.
  LoggedUnits(UnitLogs logs, std::optional<LinkOut> to_next,
              const StateSchema& schema, bool reports, WireFaults& faults)
      : logs_(std::move(logs)), reports_(reports), faults_(faults) {
    if (to_next.has_value()) handover_.emplace(*std::move(to_next), schema);
  }

  UnitLogs& logs() { return logs_; }
  const UnitLogs& logs() const { return logs_; }
  // Returns true if the loggers' process may end.
  bool hands_over() const { return handover_.has_value(); }

  // Executes the commands of one call of the unit, which are for its logger
  // first, and clears them.
  template <typename Calls>
  void Execute(LoopUnit& shell, Calls calls);
  // Sees how far the loggers have come. A position that cannot be is a fault
  // about the loop `loop`.
  void LookForReleased(uint32_t loop);
  // Handles the entries that were released; returns true if there were any.
  template <typename Calls>
  bool HandleReleased(Calls calls);

  // Returns true while another process of loggers is to get what units keep.
  bool must_hand_over(const LoopControl& control) const {
    return handover_.has_value() && handover_->is_due(control);
  }
  // Returns true if that process has got nothing yet: Begin comes first.
  bool must_begin(uint32_t process) const {
    return handover_->process() != process;
  }
  void BeginHandover(uint32_t process, std::span<const LoopUnit> units);
  // Hands over as much as there is room for. Entries without room in the ring
  // stay here: its reader waits for the handover. So does a unit that waits for
  // an answer of a failed controller, whose successor waits for the loggers to
  // report.
  void HandOver() { handover_->Send(); }

 private:
  template <typename Calls>
  void on_released(LoopUnit& shell, const UnitLogs::Sent& entry, Calls& calls);

  UnitLogs logs_;
  const bool reports_;
  WireFaults& faults_;
  std::optional<LogHandover> handover_;
};

template <typename Calls>
void LoggedUnits::Execute(LoopUnit& shell, Calls calls) {
  UnitOut& out = calls.CallNow().out;
  for (const UnitCommand& command : out.commands()) {
    if (!logs_.Take(command, shell.unit)) calls.Execute(shell, command);
    if (shell.tables.are_logged()) {
      shell.tables.on_logged(logs_.updates(shell.unit.id()));
    }
  }
  logs_.EndCall(shell.unit.id());
  out.clear();
}

// AfterCall of a unit follows the last of its entries in a row.
template <typename Calls>
bool LoggedUnits::HandleReleased(Calls calls) {
  LoopUnit* shell = nullptr;
  while (const UnitLogs::Sent* const next = logs_.NextReleased()) {
    const UnitLogs::Sent entry = *next;
    logs_.PopReleased();
    LoopUnit* const of_entry = &calls.Shell(entry.unit);
    if (shell != nullptr && shell != of_entry) calls.AfterCall(*shell);
    shell = of_entry;
    on_released(*shell, entry, calls);
  }
  if (shell == nullptr) return false;
  calls.AfterCall(*shell);
  return true;
}

template <typename Calls>
void LoggedUnits::on_released(LoopUnit& shell, const UnitLogs::Sent& entry,
                              Calls& calls) {
  UnitOut& out = calls.CallNow().out;
  out.clear();
  if (entry.kind == LogEntry::Kind::kForget) {
    // The flow is given up, or a controller that may fail has named the taker.
    if (entry.taker == kNoUnit) {
      if (!reports_) return;
      UnitCommand gone = UnitCommand::Report({.flow = entry.meta.flow,
                                              .clock = entry.meta.clock,
                                              .taker = entry.unit});
      gone.unit = entry.unit;
      calls.SendToController(gone);
      return;
    }
    calls.SendToUnit(
        UnitCommand::Send(entry.taker, TakeoverAck{.flow = entry.meta.flow,
                                                   .clock = entry.meta.clock,
                                                   .sender = entry.unit}));
    return;
  }
  if (entry.kind != LogEntry::Kind::kClock) return;
  // The controller has ended the flow by itself.
  if (entry.is_end()) {
    logs_.SendEnded(entry.unit, entry.meta.flow, entry.meta.clock);
  }
  for (uint32_t i = 0; i < entry.gives; ++i) {
    shell.unit.on_pieces_released(logs_.TakeGiven(), out);
    calls.ExecuteMore(shell);
  }
  shell.on_released(calls.CallNow(), entry.meta);
  calls.ExecuteMore(shell);
}

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGED_UNITS_H_
