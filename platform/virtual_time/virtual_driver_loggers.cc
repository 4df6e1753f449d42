// SPDX-License-Identifier: Apache-2.0
//
// Units' output loggers, and the channels to them.
#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "platform/virtual_time/log_channel.h"
#include "platform/virtual_time/virtual_driver.h"
#include "platform/virtual_time/virtual_driver_event.h"

namespace snf {

// --- The unit's end of the channel. ---

// Returns false if the command is not for the logger.
bool VirtualDriver::TakeForLogger(VirtualUnit& shell,
                                  const UnitCommand& command) {
  LogChannel& log = *shell.log;
  if (command.kind == UnitCommand::Kind::kStopped && !log.empty()) {
    log.has_stopped = true;
    return true;
  }
  const EntryMaker::Taken taken = log.maker().Take(command, shell.unit);
  if (taken == EntryMaker::Taken::kNot) return false;
  // The unit is done with it.
  if (command.kind <= UnitCommand::Kind::kAdvance)
    Drained(shell.unit.id(), command.meta);
  if (taken == EntryMaker::Taken::kEntry) SendEntry(shell);
  return true;
}

void VirtualDriver::SendEntry(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  const uint64_t number = shell.log->Keep(result_.loggers);
  SendByLog(
      {.kind = Event::Kind::kEntryAtLogger, .unit = self, .number = number});
  if (!shell.log->has_heartbeat) SendHeartbeatLater(shell);
}

void VirtualDriver::SendByLog(const Event& event) {
  Event sent = event;
  sent.life = units_.of(event.unit).process.log_life;
  for (const Nanos delay : log_network_.Send()) {
    Push(now_ + delay, sent);
  }
}

void VirtualDriver::SendHeartbeatLater(VirtualUnit& shell) {
  shell.log->has_heartbeat = true;
  const Nanos delay{2 * options_.logger_delay.ns + options_.state_retry.ns};
  Push(now_ + delay,
       Event::OfUnit(Event::Kind::kHeartbeatAtUnit, shell.unit.id()));
}

void VirtualDriver::on_heartbeat_due(VirtualUnit& shell) {
  LogChannel& log = *shell.log;
  log.has_heartbeat = false;
  if (log.empty() || log.is_broken) return;
  SendByLog({.kind = Event::Kind::kHeartbeatAtLogger,
             .unit = shell.unit.id(),
             .number = log.maker().number()});
  SendHeartbeatLater(shell);
}

void VirtualDriver::on_asked(VirtualUnit& shell,
                             const LoggerCommand::Ask& ask) {
  LogChannel& log = *shell.log;
  for (uint64_t number = ask.first; number <= ask.last; ++number) {
    if (log.entry(number).empty()) continue;
    ++result_.loggers.sent_again;
    // A unit may answer a hole either way (L4).
    if (ask.flow != kNoFlow || number % 2 == 1) {
      log.Replace(number, shell.unit);
    }
    SendByLog({.kind = Event::Kind::kEntryAtLogger,
               .unit = shell.unit.id(),
               .number = number});
  }
}

// The logger has taken the entries up to this one.
void VirtualDriver::on_taken(VirtualUnit& shell, uint64_t number) {
  LogChannel& log = *shell.log;
  while (!log.empty() && log.first() <= number) {
    const std::vector<std::byte> bytes = log.Pop();
    const auto entry = log.Parse(bytes);
    SNF_CHECK(entry.has_value());
    on_released(shell, *entry);
  }
  if (log.has_stopped && log.empty()) {
    log.has_stopped = false;
    Execute(shell, UnitCommand::Stopped());
  }
}

void VirtualDriver::on_released(VirtualUnit& shell, const LogEntryView& entry) {
  TellController(shell, entry);
  if (entry->kind != LogEntry::Kind::kClock) return;
  const UnitId self = shell.unit.id();
  for (size_t i = 0; i < entry->pieces; ++i) {
    const PieceUse use = entry.piece(i);
    if (use.gives == 0) continue;
    CallUnit(shell, [&] {
      shell.unit.on_pieces_released({.word = use.piece / 64,
                                     .pool = use.pool,
                                     .unit = self,
                                     .mask = uint64_t{1} << use.piece % 64},
                                    unit_out_);
    });
  }
  CallUnit(shell, [&] {
    shell.unit.on_released(now_, entry->meta, {*shell.nf, buffers_}, unit_out_);
  });
}

// What an entry has for the controller goes on its way, and the logger keeps it
// until the controller has acknowledged it.
void VirtualDriver::TellController(VirtualUnit& shell,
                                   const LogEntryView& entry) {
  if (!entry->tells()) return;
  LogChannel& log = *shell.log;
  const UnitId self = shell.unit.id();
  const Instant after_hop = now_ + options_.hop_delay;
  if (entry->is(LogEntry::kEnd)) {
    // The controller has ended the flow by itself.
    log.maker().MakeTold(entry->number);
    SendEntry(shell);
    log.maker().MakeEnded(entry->meta.flow, entry->meta.clock);
    SendEntry(shell);
    return;
  }
  if (entry->kind == LogEntry::Kind::kReturn) {
    PushInOrder(after_hop, {.kind = Event::Kind::kPiecesAtController,
                            .unit = self,
                            .record = static_cast<uint32_t>(entry->number),
                            .pieces = entry->block});
  } else {
    PushInOrder(after_hop, {.kind = Event::Kind::kNoteAtController,
                            .unit = self,
                            .record = static_cast<uint32_t>(entry->number),
                            .note = {.flow = entry->meta.flow,
                                     .clock = entry->meta.clock,
                                     .idle_timeout = entry->idle_timeout,
                                     .over = entry->is(LogEntry::kOver)}});
  }
  Push(after_hop + options_.hop_delay, {.kind = Event::Kind::kToldAtUnit,
                                        .unit = self,
                                        .number = entry->number});
}

// --- At the loggers. ---

// Returns whether it was something for the unit.
bool VirtualDriver::HandleOfLogger(const Event& event, VirtualUnit& shell) {
  switch (event.kind) {
    case Event::Kind::kEntryAtLogger:
      on_entry(shell, event.number);
      return false;
    case Event::Kind::kHeartbeatAtLogger:
      on_heartbeat(shell, event.number);
      return false;
    case Event::Kind::kHeartbeatAtUnit:
      on_heartbeat_due(shell);
      return false;
    case Event::Kind::kAskAtUnit:
      on_asked(shell, event.ask);
      return false;
    case Event::Kind::kToldAtUnit:
      shell.log->maker().MakeTold(event.number);
      SendEntry(shell);
      return false;
    case Event::Kind::kPullAtLogger:
      logger_out_.clear();
      shell.log->logger().on_pull(event.pull, logger_out_);
      ExecuteLogger(shell);
      return false;
    case Event::Kind::kTakeoverAtLogger:
      logger_out_.clear();
      shell.log->logger().on_takeover(event.takeover, logger_out_);
      ExecuteLogger(shell);
      return false;
    case Event::Kind::kSealAtLogger:
      on_seal(shell, event.seal);
      return false;
    default:
      on_taken(shell, event.number);
      return true;
  }
}

void VirtualDriver::on_entry(VirtualUnit& shell, uint64_t number) {
  LogChannel& log = *shell.log;
  const std::span<const std::byte> bytes = log.entry(number);
  // What is not there is a repetition of what the unit knows to be taken.
  if (bytes.empty() || log.is_broken) return;
  const uint64_t taken = log.logger().taken();
  logger_out_.clear();
  const OutputLogger::Result result = log.logger().on_entry(bytes, logger_out_);
  ExecuteLogger(shell);
  while (log.logger().has_more()) {
    logger_out_.clear();
    log.logger().Resume(logger_out_);
    ExecuteLogger(shell);
  }
  if (result == OutputLogger::Result::kImpossible || log.logger().is_broken()) {
    log.is_broken = true;
    checker_.on_copy_differs(
        now_, shell.unit.id(), LoadAs<LogEntry>(bytes.data()).meta,
        fmt::format("has an impossible entry for its logger, {} or one behind",
                    number));
  }
  if (log.logger().taken() > taken) Acknowledge(shell);
}

void VirtualDriver::on_heartbeat(VirtualUnit& shell, uint64_t sent) {
  logger_out_.clear();
  shell.log->logger().on_heartbeat(sent, logger_out_);
  ExecuteLogger(shell);
  Acknowledge(shell);
}

void VirtualDriver::Acknowledge(VirtualUnit& shell) {
  SendByLog({.kind = Event::Kind::kTakenAtUnit,
             .unit = shell.unit.id(),
             .number = shell.log->logger().taken()});
}

void VirtualDriver::ExecuteLogger(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  for (const LoggerCommand& command : logger_out_.commands()) {
    using Kind = LoggerCommand::Kind;
    switch (command.kind) {
      case Kind::kRelease:
        observers_.on_logged(now_, self, command.meta);
        ReleaseAfterHop(self, command.packet, command.meta, false);
        break;
      case Kind::kEmit:
        ReleaseAfterHop(self, command.packet, command.meta, true);
        break;
      case Kind::kNfDrop:
        EndPacket(self, UnitCommand::Kind::kNfDrop, command);
        break;
      case Kind::kDrop:
        // What waited behind a hole is lost with what never came (LoseEntries).
        if (command.reason == DropReason::kUnitFailed) break;
        EndPacket(self, UnitCommand::Kind::kDrop, command);
        break;
      case Kind::kConsume:
        EndPacket(self, UnitCommand::Kind::kConsume, command);
        break;
      case Kind::kReleased:
        // Packets were let go above, and the end of a flow is none.
        if (!command.meta.has_payload() &&
            (command.meta.flags & PacketMeta::kEnd) == 0) {
          EndPacket(self, UnitCommand::Kind::kAdvance, command);
        }
        break;
      case Kind::kAskAgain:
      case Kind::kAskWhole:
        SendByLog({.kind = Event::Kind::kAskAtUnit,
                   .unit = self,
                   .ask = command.ask});
        break;
      case Kind::kSendTakeoverAck:
        Send({.kind = Event::Kind::kTakeoverAckAtUnit,
              .unit = command.unit,
              .takeover_ack = {.flow = command.takeover_ack.flow,
                               .clock = command.takeover_ack.clock,
                               .sender = self}});
        break;
      default:
        ExecuteSealed(shell, command);
        break;
    }
  }
}

void VirtualDriver::EndPacket(UnitId unit, UnitCommand::Kind kind,
                              const LoggerCommand& command) {
  observers_.on_logged(now_, unit, command.meta);
  exits_.End(now_, unit,
             {.kind = kind,
              .reason = command.reason,
              .nf_reason = command.nf_reason,
              .packet = command.packet,
              .meta = command.meta});
}

}  // namespace snf
