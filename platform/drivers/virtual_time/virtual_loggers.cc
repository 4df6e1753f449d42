// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/virtual_loggers.h"

#include <span>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "platform/drivers/virtual_time/log_channel.h"

namespace snf {

VirtualLoggers::VirtualLoggers(const RunOptions& options, Host& units,
                               VirtualNetwork& network, Observers& observers,
                               Checker& checker, PacketExits& exits,
                               RunResult& result)
    : controllers_fail_(options.faults.any_controller()),
      hop_delay_(options.hop_delay),
      heartbeat_{2 * options.logger_delay.ns + options.state_retry.ns},
      units_(units),
      network_(network),
      log_network_(NetworkToLoggers(options)),
      observers_(observers),
      checker_(checker),
      exits_(exits),
      result_(result) {}

void VirtualLoggers::AddTotals(RunResult& result) const {
  result.loggers.messages_lost = log_network_.lost();
  result.loggers.messages_duplicated = log_network_.duplicated();
}

// --- The unit's end of the channel. ---

bool VirtualLoggers::Take(VirtualUnit& shell, const UnitCommand& command) {
  LogChannel& log = *shell.log;
  if (command.kind == UnitCommand::Kind::kStopped && !log.empty()) {
    log.has_stopped = true;
    return true;
  }
  const EntryMaker::Taken taken = log.maker().Take(command, shell.unit);
  if (taken == EntryMaker::Taken::kNot) return false;
  // The unit is done with it.
  if (command.kind <= UnitCommand::Kind::kAdvance) {
    units_.Drained(shell.unit.id(), command.meta);
  }
  if (taken == EntryMaker::Taken::kEntry) {
    units_.on_updates(shell.unit.id(), log.maker().updates());
    SendEntry(shell);
  }
  return true;
}

void VirtualLoggers::SendEntry(VirtualUnit& shell) {
  const uint64_t number = shell.log->Keep(result_.loggers);
  SendByLog(shell, {.kind = Event::Kind::kEntryAtLogger, .number = number});
  if (!shell.log->has_heartbeat) SendHeartbeatLater(shell);
}

void VirtualLoggers::SendByLog(VirtualUnit& shell, Event event) {
  event.unit = shell.unit.id();
  event.life = shell.process.log_life;
  for (const Nanos delay : log_network_.Send()) network_.After(delay, event);
}

void VirtualLoggers::SendHeartbeatLater(VirtualUnit& shell) {
  shell.log->has_heartbeat = true;
  network_.After(heartbeat_,
                 Event::OfUnit(Event::Kind::kHeartbeatAtUnit, shell.unit.id()));
}

void VirtualLoggers::on_heartbeat_due(VirtualUnit& shell) {
  LogChannel& log = *shell.log;
  log.has_heartbeat = false;
  if (log.empty() || log.is_broken) return;
  SendByLog(shell, {.kind = Event::Kind::kHeartbeatAtLogger,
                    .number = log.maker().number()});
  SendHeartbeatLater(shell);
}

void VirtualLoggers::on_asked(VirtualUnit& shell,
                              const LoggerCommand::Ask& ask) {
  LogChannel& log = *shell.log;
  for (uint64_t number = ask.first; number <= ask.last; ++number) {
    if (log.entry(number).empty()) continue;
    ++result_.loggers.sent_again;
    // A unit may answer a hole either way (L4).
    if (ask.flow != kNoFlow || number % 2 == 1) {
      log.Replace(number, shell.unit);
    }
    SendByLog(shell, {.kind = Event::Kind::kEntryAtLogger, .number = number});
  }
}

// The logger has taken the entries up to this one.
void VirtualLoggers::on_taken(VirtualUnit& shell, uint64_t number) {
  LogChannel& log = *shell.log;
  while (!log.empty() && log.first() <= number) {
    const std::vector<std::byte> bytes = log.Pop();
    const auto entry = log.Parse(bytes);
    SNF_CHECK(entry.has_value());
    on_released(shell, *entry);
  }
  if (log.has_stopped && log.empty()) {
    log.has_stopped = false;
    units_.on_stopped(shell);
  }
}

void VirtualLoggers::on_released(VirtualUnit& shell,
                                 const LogEntryView& entry) {
  TellController(shell, entry);
  if (entry->kind == LogEntry::Kind::kForget && entry->block.unit == kNoUnit) {
    AcknowledgeForget(entry->meta.flow, entry->meta.clock);
  }
  if (entry->kind == LogEntry::Kind::kGrant) {
    units_.on_grants_logged(shell.unit.id(), entry->argument);
  }
  if (entry->kind != LogEntry::Kind::kClock) return;
  for (size_t i = 0; i < entry->pieces; ++i) {
    const PieceUse use = entry.piece(i);
    if (use.gives == 0) continue;
    units_.CallUnit(shell, [&](UnitOut& out) {
      shell.unit.on_pieces_released({.word = use.piece / 64,
                                     .pool = use.pool,
                                     .unit = shell.unit.id(),
                                     .mask = uint64_t{1} << use.piece % 64},
                                    out);
    });
  }
  units_.on_released(shell, entry->meta);
}

// Sends what an entry has for the controller. The logger keeps it until the
// controller has acknowledged it.
void VirtualLoggers::TellController(VirtualUnit& shell,
                                    const LogEntryView& entry) {
  if (!entry->tells()) return;
  const UnitId self = shell.unit.id();
  const Nanos there_and_back{2 * hop_delay_.ns};
  const auto tell = [&](const UnitCommand& command) {
    Event event = Event::Of(Event::Kind::kToController, self, command);
    event.record = static_cast<uint32_t>(entry->number);
    network_.AfterHop(event);
  };
  if (entry->is(LogEntry::kEnd)) {
    const EndFlow end = {entry->meta.flow, entry->meta.clock};
    tell(UnitCommand::Ended(end));
    network_.After(there_and_back, {.kind = Event::Kind::kEndToldAtUnit,
                                    .unit = self,
                                    .ended = {end, entry->number}});
    return;
  }
  if (entry->kind == LogEntry::Kind::kReturn) {
    tell(UnitCommand::Return(entry->block));
  } else {
    tell(UnitCommand::Send(FlowNote{.flow = entry->meta.flow,
                                    .clock = entry->meta.clock,
                                    .idle_timeout = entry->idle_timeout,
                                    .over = entry->is(LogEntry::kOver)}));
  }
  network_.After(there_and_back, {.kind = Event::Kind::kToldAtUnit,
                                  .unit = self,
                                  .number = entry->number});
}

// --- At the loggers. ---

bool VirtualLoggers::Handle(const Event& event, VirtualUnit& shell) {
  out_.clear();
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
    case Event::Kind::kUpdatesMergedAtUnit:
      shell.log->on_updates_merged(event.number);
      return false;
    case Event::Kind::kToldAtUnit:
      shell.log->maker().MakeTold(event.number);
      SendEntry(shell);
      return false;
    case Event::Kind::kEndToldAtUnit: {
      EntryMaker& maker = shell.log->maker();
      maker.MakeTold(event.ended.number);
      SendEntry(shell);
      maker.MakeEnded(event.ended.end.flow, event.ended.end.last);
      SendEntry(shell);
      return false;
    }
    default:
      SNF_CHECK(event.kind == Event::Kind::kTakenAtUnit);
      on_taken(shell, event.number);
      return true;
  }
}

void VirtualLoggers::on_pull(VirtualUnit& shell, const Pull& pull) {
  out_.clear();
  shell.log->logger().on_pull(pull, out_);
  ExecuteAll(shell);
}

void VirtualLoggers::on_takeover(VirtualUnit& shell, const Takeover& takeover) {
  out_.clear();
  shell.log->logger().on_takeover(takeover, out_);
  ExecuteAll(shell);
}

// There may be room for entries that waited for it.
void VirtualLoggers::on_updates_merged(VirtualUnit& shell) {
  const OutputLogger& logger = shell.log->logger();
  const uint64_t taken = logger.taken();
  Resume(shell);
  if (logger.taken() > taken) Acknowledge(shell);
  SendByLog(shell, {.kind = Event::Kind::kUpdatesMergedAtUnit,
                    .number = logger.updates().entries_merged(taken)});
}

void VirtualLoggers::on_entry(VirtualUnit& shell, uint64_t number) {
  LogChannel& log = *shell.log;
  const std::span<const std::byte> bytes = log.entry(number);
  // What is not there is a repetition of what the unit knows to be taken.
  if (bytes.empty() || log.is_broken) return;
  const uint64_t taken = log.logger().taken();
  const OutputLogger::Result result = log.logger().on_entry(bytes, out_);
  ExecuteAll(shell);
  Resume(shell);
  if (result == OutputLogger::Result::kImpossible || log.logger().is_broken()) {
    log.is_broken = true;
    checker_.on_copy_differs(
        network_.now(), shell.unit.id(), LoadAs<LogEntry>(bytes.data()).meta,
        fmt::format("has an impossible entry for its logger, {} or one behind",
                    number));
  }
  if (log.logger().taken() > taken) Acknowledge(shell);
}

void VirtualLoggers::on_heartbeat(VirtualUnit& shell, uint64_t sent) {
  shell.log->logger().on_heartbeat(sent, out_);
  ExecuteAll(shell);
  Acknowledge(shell);
}

void VirtualLoggers::LosePackets(VirtualUnit& shell, uint64_t first,
                                 uint64_t last) {
  const UnitId self = shell.unit.id();
  for (uint64_t number = first; number <= last; ++number) {
    const std::span<const std::byte> bytes = shell.log->entry(number);
    if (bytes.empty()) continue;
    const auto entry = shell.log->Parse(bytes);
    SNF_CHECK(entry.has_value());
    const PacketMeta& meta = (*entry)->meta;
    const bool is_end = (meta.flags & PacketMeta::kEnd) != 0;
    if ((*entry)->kind != LogEntry::Kind::kClock) continue;
    FaultFigures& figures = result_.faults;
    for (size_t i = 0; i < (*entry)->emitted; ++i) {
      const bool is_packet =
          exits_.Lose(network_.now(), self, meta, entry->emitted(i), true);
      figures.logger_packets_lost += is_packet ? 1 : 0;
    }
    if (is_end) continue;
    ++figures.logger_clocks_kept;
    const PacketHandle packet = (*entry)->packet;
    figures.logger_packets_lost += packet == kNoPacket ? 0 : 1;
    EndPacket(
        self,
        packet == kNoPacket ? UnitCommand::Kind::kAdvance
                            : UnitCommand::Kind::kDrop,
        {.reason = DropReason::kUnitFailed, .packet = packet, .meta = meta});
  }
}

void VirtualLoggers::AskForAll(VirtualUnit& shell) {
  out_.clear();
  on_heartbeat(shell, shell.log->maker().number());
}

void VirtualLoggers::Acknowledge(VirtualUnit& shell) {
  SendByLog(shell, {.kind = Event::Kind::kTakenAtUnit,
                    .number = shell.log->logger().taken()});
}

void VirtualLoggers::on_seal(VirtualUnit& shell, const Seal& seal) {
  shell.process.seal = seal;
  OutputLogger& logger = shell.log->logger();
  if (seal.is_sealed || logger.sealed()) {
    logger.Report();
  } else {
    logger.Seal();
  }
  Resume(shell);
}

// Lets the logger do what its last call left over.
void VirtualLoggers::Resume(VirtualUnit& shell) {
  while (shell.log->logger().has_more()) {
    out_.clear();
    shell.log->logger().Resume(out_);
    ExecuteAll(shell);
  }
}

void VirtualLoggers::ExecuteAll(VirtualUnit& shell) {
  for (const LoggerCommand& command : out_.commands()) Execute(shell, command);
}

void VirtualLoggers::Execute(VirtualUnit& shell, const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  const UnitId self = shell.unit.id();
  switch (command.kind) {
    case Kind::kRelease:
      observers_.on_logged(network_.now(), self, command.meta);
      [[fallthrough]];
    case Kind::kEmit:
      network_.AfterHop(
          Event::Of(Event::Kind::kRelease, self,
                    UnitCommand::OfPacket(command.kind == Kind::kEmit
                                              ? UnitCommand::Kind::kEmit
                                              : UnitCommand::Kind::kRelease,
                                          command.packet, command.meta)));
      break;
    case Kind::kNfDrop:
      EndPacket(self, UnitCommand::Kind::kNfDrop, command);
      break;
    case Kind::kDrop:
      // What waited behind a hole is lost with what never came, and counted
      // there (VirtualFaults).
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
      SendByLog(shell, {.kind = Event::Kind::kAskAtUnit, .ask = command.ask});
      break;
    case Kind::kSendTakeoverAck:
      if (command.unit == kNoUnit) {
        AcknowledgeForget(command.takeover_ack.flow,
                          command.takeover_ack.clock);
        break;
      }
      network_.Send(self, UnitCommand::Send(
                              command.unit,
                              TakeoverAck{.flow = command.takeover_ack.flow,
                                          .clock = command.takeover_ack.clock,
                                          .sender = self}));
      break;
    default:
      ExecuteSealed(shell, command);
      break;
  }
}

// The logger has forgotten a copy of the flow, in place of a unit that failed
// or because the flow was given up.
void VirtualLoggers::AcknowledgeForget(FlowId flow, Clock clock) {
  if (!controllers_fail_) return;
  SendByLogger(kNoUnit,
               UnitCommand::Report(Takeover{.flow = flow, .clock = clock}));
}

void VirtualLoggers::EndPacket(UnitId unit, UnitCommand::Kind kind,
                               const LoggerCommand& command) {
  observers_.on_logged(network_.now(), unit, command.meta);
  exits_.End(network_.now(), {.kind = kind,
                              .reason = command.reason,
                              .nf_reason = command.nf_reason,
                              .unit = unit,
                              .packet = command.packet,
                              .meta = command.meta});
}

void VirtualLoggers::SendByLogger(UnitId unit, const UnitCommand& command) {
  network_.AfterHop(Event::Of(Event::Kind::kFromLogger, unit, command));
}

// Executes what a sealed logger commands.
void VirtualLoggers::ExecuteSealed(VirtualUnit& shell,
                                   const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  const UnitId self = shell.unit.id();
  const Seal& seal = shell.process.seal;
  switch (command.kind) {
    case Kind::kSendState:
      CountSent(result_.state, command.state);
      network_.SendState(self, command.unit, command.state,
                         shell.log->logger().state_bytes(command.state.flow));
      break;
    case Kind::kTell:
      on_tell(shell, command.tell);
      break;
    case Kind::kFreePieces:
      SendPieces(self, command.pieces);
      break;
    case Kind::kApplied:
      SendByLogger(self, UnitCommand::Done({.flow = command.applied.flow,
                                            .applied = command.applied.clock,
                                            .round = seal.round,
                                            .unit = self,
                                            .is_over = command.applied.ended}));
      break;
    case Kind::kSealed:
      // Else another process has grants by now, with numbers of its own.
      if (!seal.is_sealed) {
        SendByLogger(self, UnitCommand::Grants(command.sealed.grant));
      }
      SendByLogger(self,
                   UnitCommand::Done({.round = seal.round, .unit = self}));
      break;
    default:
      SNF_CHECK(false);
  }
}

// The controller hears what the unit has not told it itself.
void VirtualLoggers::on_tell(VirtualUnit& shell, const LoggerTell& tell) {
  if (tell.ended) {
    // The controller acknowledges it as soon as it comes.
    shell.log->logger().on_end_ack(tell.note.flow, tell.note.clock);
  }
  if (tell.number <= shell.process.told) return;
  ++result_.faults.tells_by_loggers;
  if (tell.ended) {
    SendByLogger(shell.unit.id(),
                 UnitCommand::Ended({tell.note.flow, tell.note.clock}));
    return;
  }
  if (tell.is_return) {
    SendPieces(shell.unit.id(), tell.pieces);
  } else {
    SendByLogger(shell.unit.id(), UnitCommand::Send(tell.note));
  }
}

// Returns a failed unit's pieces in its place.
void VirtualLoggers::SendPieces(UnitId unit, PieceBlock pieces) {
  pieces.unit = unit;
  SendByLogger(unit, UnitCommand::Return(pieces));
}

}  // namespace snf
