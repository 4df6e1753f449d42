// SPDX-License-Identifier: Apache-2.0
//
// What goes through the units' loggers, where they have some.
#include <string>

#include "base/check.h"
#include "platform/virtual_time/virtual_driver.h"
#include "platform/virtual_time/virtual_driver_event.h"
#include "platform/virtual_time/virtual_logger.h"

namespace snf {

void VirtualDriver::ExecuteThroughLogger(VirtualUnit& shell, FlowId flow) {
  using Kind = UnitCommand::Kind;
  const UnitId self = shell.unit.id();
  for (const UnitCommand& command : unit_out_.commands()) {
    if (command.kind == Kind::kLog) {
      shell.logger->Seal(command.meta, shell.unit.change());
      SendToLogger(self);
    } else if (VirtualLogger::IsPart(command.kind)) {
      shell.logger->Add(flow, command);
      // Its slot of the channel is free: the unit is done with it.
      if (command.kind != Kind::kEmit && command.kind != Kind::kSendNote &&
          command.kind != Kind::kGivePieces) {
        Drained(self, command.meta);
      }
    } else {
      Execute(shell, command);
    }
  }
}

void VirtualDriver::SendToLogger(UnitId unit) {
  events_->Push(now_ + options_.logger_delay,
                Event::OfUnit(Event::Kind::kEntryAtLogger, unit));
}

// The logger has applied the entry, and lets out what it has.
void VirtualDriver::on_entry(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  std::string wrong;
  const VirtualLogger::Entry entry = shell.logger->Take(wrong);
  if (entry.kind == VirtualLogger::Entry::Kind::kTakeoverAck) {
    const UnitCommand& ack = entry.commands.front();
    Send({.kind = Event::Kind::kTakeoverAckAtUnit,
          .unit = ack.unit,
          .takeover_ack = ack.takeover_ack});
    return;
  }
  if (entry.kind == VirtualLogger::Entry::Kind::kEnd) return;
  if (wrong.empty()) {
    observers_.on_logged(now_, self, entry.meta);
  } else {
    checker_.on_copy_differs(now_, self, entry.meta, wrong);
  }
  for (const UnitCommand& command : entry.commands) LetOut(self, command);
  events_->Push(
      now_ + options_.logger_delay,
      {.kind = Event::Kind::kReleasedAtUnit, .unit = self, .meta = entry.meta});
}

void VirtualDriver::LetOut(UnitId unit, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  switch (command.kind) {
    case Kind::kRelease:
    case Kind::kEmit:
      ReleaseAfterHop(unit, command);
      break;
    case Kind::kSendNote:
      events_->PushInOrder(
          now_ + options_.hop_delay,
          {.kind = Event::Kind::kNoteAtController, .note = command.note});
      break;
    case Kind::kGivePieces:
      events_->Push(now_ + options_.logger_delay,
                    {.kind = Event::Kind::kPiecesReleasedAtUnit,
                     .unit = unit,
                     .pieces = command.pieces});
      break;
    default:
      exits_.End(now_, unit, command);
  }
}

void VirtualDriver::CompareLoggers() {
  units_.ForEach([this](const VirtualUnit& shell) {
    const UnitId self = shell.unit.id();
    if (shell.logger->under_way() > 0) return;
    shell.logger->Compare(shell.unit,
                          [&](const PacketMeta& meta, const std::string& what) {
                            checker_.on_copy_differs(now_, self, meta, what);
                          });
  });
}

}  // namespace snf
