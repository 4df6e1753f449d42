// SPDX-License-Identifier: Apache-2.0
//
// What a loop of units does where its units have output loggers.
#include "runtime/live/unit_loop.h"

namespace snf {

// What a unit commands in one call is for its logger first.
void UnitLoop::ExecuteLogged(UnitShell& shell) {
  for (const UnitCommand& command : out_.commands()) {
    if (!logs_->Take(command, shell.unit)) Execute(shell, command);
  }
  logs_->EndCall(shell.unit.id());
  out_.clear();
}

void UnitLoop::LookForReleased() {
  logs_->LookForReleased();
  if (!logs_->TakeFault()) [[likely]]
    return;
  links_.faults->Add({.loop = index_,
                      .kind = "ring",
                      .field = "position",
                      .value = logs_->acknowledged(),
                      .of_logger = true});
}

// Returns true if there was any. What follows each call of a unit follows the
// last of them.
bool UnitLoop::HandleReleased() {
  UnitShell* shell = nullptr;
  while (const UnitLogs::Sent* const next = logs_->NextReleased()) {
    const UnitLogs::Sent entry = *next;
    logs_->PopReleased();
    UnitShell* const of_entry = &Shell(entry.unit);
    if (shell != nullptr && shell != of_entry) AfterCall(*shell);
    shell = of_entry;
    on_released(*shell, entry);
  }
  if (shell == nullptr) return false;
  AfterCall(*shell);
  return true;
}

void UnitLoop::on_released(UnitShell& shell, const UnitLogs::Sent& entry) {
  out_.clear();
  if (entry.kind == LogEntry::Kind::kForget) {
    SendToUnit(
        UnitCommand::Send(entry.taker, TakeoverAck{.flow = entry.meta.flow,
                                                   .clock = entry.meta.clock,
                                                   .sender = entry.unit}),
        {});
    return;
  }
  if (entry.kind != LogEntry::Kind::kClock) return;
  // The controller has ended the flow by itself.
  if (entry.is_end()) {
    logs_->SendEnded(entry.unit, entry.meta.flow, entry.meta.clock);
  }
  for (uint32_t i = 0; i < entry.gives; ++i) {
    shell.unit.on_pieces_released(logs_->TakeGiven(), out_);
    ExecuteMore(shell);
  }
  Call(shell, nullptr, [&] {
    shell.unit.on_released(now_, entry.meta, {*shell.nf, links_.buffers}, out_);
  });
  ExecuteMore(shell);
}

}  // namespace snf
