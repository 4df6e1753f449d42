// SPDX-License-Identifier: Apache-2.0
//
// What happens at units, and what they ask for.
#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "platform/virtual_time/log_channel.h"
#include "platform/virtual_time/virtual_driver.h"
#include "platform/virtual_time/virtual_driver_event.h"
#include "runtime/core/state_figures.h"

namespace snf {
namespace {

bool FreesSlot(UnitCommand::Kind kind) {
  return kind <= UnitCommand::Kind::kAdvance;
}

}  // namespace

void VirtualDriver::Handle(const Event& event) {
  if (event.kind == Event::Kind::kRelease) {
    Release(event);
    return;
  }
  if (event.is_at_controller()) {
    HandleAtController(event);
    return;
  }
  VirtualUnit& shell = units_.of(event.unit);
  if (event.is_of_logger()) {
    if (!HandleOfLogger(event, shell)) return;
    tables_.on_called(now_, event.unit);
    Serve(shell);
    ScheduleTimer(shell);
    return;
  }
  switch (event.kind) {
    case Event::Kind::kServiceEnd:
      EndService(shell);
      break;
    case Event::Kind::kUnitReady:
      if (!controller_.on_unit_ready(now_, event.unit)) return;
      if (event.cold) shell.unit.on_start();
      tables_.on_ready(now_, event.unit, event.incarnation, *shell.nf);
      shell.ready = true;
      break;
    case Event::Kind::kReplicasAtUnit:
      shell.unit.on_replicas(event.replicas);
      return;
    case Event::Kind::kPacketAtUnit:
      shell.unit.on_packet(event.packet, event.meta);
      break;
    default:
      CallUnit(shell, [&] { HandleAtUnit(event, shell); });
      break;
  }
  tables_.on_called(now_, event.unit);
  Serve(shell);
  ScheduleTimer(shell);
}

// Its message stays behind the pieces that it returned.
void VirtualDriver::SendStopped(UnitId unit) {
  events_->PushInOrder(now_ + options_.hop_delay,
                       Event::OfUnit(Event::Kind::kStoppedAtController, unit));
}

void VirtualDriver::HandleAtUnit(const Event& event, VirtualUnit& shell) {
  switch (event.kind) {
    case Event::Kind::kPullAtUnit:
      observers_.on_pull(now_, event.unit, event.pull);
      shell.unit.on_pull(now_, event.pull, unit_out_);
      break;
    case Event::Kind::kStateAtUnit:
      observers_.on_state(now_, event.unit, event.state);
      shell.unit.on_state(now_, event.state, network_.record(event.record),
                          unit_out_);
      network_.Free(event.record);
      break;
    case Event::Kind::kTakeoverAtUnit:
      observers_.on_takeover(now_, event.unit, event.takeover);
      shell.unit.on_takeover(now_, event.takeover, unit_out_);
      break;
    case Event::Kind::kTakeoverAckAtUnit:
      shell.unit.on_takeover_ack(now_, event.takeover_ack, unit_out_);
      break;
    case Event::Kind::kEndFlowAtUnit:
      shell.unit.on_end_flow(now_, event.end, {*shell.nf, buffers_}, unit_out_);
      break;
    case Event::Kind::kAliasAckAtUnit:
      if (event.alias_ack.result != AliasResult::kGranted) {
        observers_.on_alias_refused(now_, event.alias_ack, buffers_);
      }
      if (shell.log != nullptr)
        shell.log->maker().on_alias_ack(event.alias_ack);
      shell.unit.on_alias_ack(now_, event.alias_ack, {*shell.nf, buffers_},
                              unit_out_);
      break;
    case Event::Kind::kPiecesAtUnit:
      shell.unit.on_pieces(now_, event.pieces, unit_out_);
      break;
    case Event::Kind::kReclaimAtUnit:
      shell.unit.on_reclaim(event.pieces.pool, unit_out_);
      break;
    case Event::Kind::kStopAtUnit:
      shell.unit.on_stop(unit_out_);
      break;
    case Event::Kind::kUnitTimer:
      // Outdated by an earlier one, which has scheduled what comes next.
      if (now_ < shell.timer) return;
      timers_at_end_ += is_ending_ ? 1 : 0;
      shell.timer = Instant::max();
      shell.unit.on_timers(now_, unit_out_);
      break;
    default:
      SNF_CHECK(false);
  }
}

void VirtualDriver::Serve(VirtualUnit& shell) {
  if (!shell.ready || shell.unit.busy()) return;
  if (shell.log != nullptr && shell.log->is_full()) return;
  unit_out_.clear();
  bool serves = shell.unit.begin(now_, unit_out_);
  ExecuteAll(shell);
  while (shell.unit.has_more()) {
    unit_out_.clear();
    serves = shell.unit.Resume(now_, unit_out_);
    ExecuteAll(shell);
  }
  result_.held_packets_max =
      std::max(result_.held_packets_max, shell.unit.held_packets());
  if (!serves) return;
  const PacketMeta& meta = shell.unit.in_service();
  const UnitId self = shell.unit.id();
  const Nanos wait = shell.unit.in_service_wait();
  if (shell.unit.in_service_again()) {
    --waiting_;
    observers_.on_service_again(now_, self, meta);
  } else {
    observers_.on_service_begin(now_, self, meta, wait);
    if (CountMove(result_.state, self, meta, wait)) {
      result_.state.worst.key = KeyOf(meta.flow);
    }
  }
  events_->Push(
      now_ + (meta.has_payload() ? service_.ServiceTime(meta.original_length)
                                 : Nanos{}),
      Event::OfUnit(Event::Kind::kServiceEnd, self));
}

void VirtualDriver::EndService(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  const PacketMeta meta = shell.unit.in_service();
  const PacketHandle packet = shell.unit.packet_in_service();
  observers_.on_service_end(now_, self, meta);
  if (packet != kNoPacket) {
    observers_.on_nf_begin(buffers_.info(packet), buffers_.bytes(packet));
  }
  unit_out_.clear();
  call_mark_.Begin({.unit = self, .meta = &meta, .packet = packet});
  shell.unit.finish(now_, {*shell.nf, buffers_}, unit_out_);
  call_mark_.End();
  if (packet != kNoPacket || meta.runs_timer()) {
    observers_.on_nf_end(
        now_, self, meta,
        NfOutcome{.buffers = buffers_,
                  .packet = packet,
                  .commands = unit_out_.commands(),
                  .pieces_taken = shell.unit.pieces_taken(),
                  .record = [&] { return shell.unit.state_bytes(meta.flow); }});
  }
  ExecuteAll(shell);
}

void VirtualDriver::ExecuteAll(VirtualUnit& shell) {
  if (shell.log == nullptr) [[likely]] {
    for (const UnitCommand& command : unit_out_.commands()) {
      Execute(shell, command);
    }
    return;
  }
  for (const UnitCommand& command : unit_out_.commands()) {
    if (!TakeForLogger(shell, command)) Execute(shell, command);
  }
  shell.log->maker().EndCall();
}

void VirtualDriver::CallUnit(VirtualUnit& shell,
                             absl::FunctionRef<void()> call) {
  unit_out_.clear();
  call_mark_.Begin({.unit = shell.unit.id()});
  call();
  call_mark_.End();
  ExecuteAll(shell);
  while (shell.unit.has_more()) {
    unit_out_.clear();
    shell.unit.Resume(now_, unit_out_);
    ExecuteAll(shell);
  }
}

void VirtualDriver::Execute(VirtualUnit& shell, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  const UnitId self = shell.unit.id();
  const Instant after_hop = now_ + options_.hop_delay;
  switch (command.kind) {
    case Kind::kRelease:
    case Kind::kEmit:
    case Kind::kNfDrop:
    case Kind::kDrop:
    case Kind::kConsume:
    case Kind::kAdvance:
    case Kind::kDropPayload:
      ExecutePacket(self, command);
      break;
    case Kind::kSendPull:
      ++result_.state.pulls;
      if (store_.has_value() && store_->Read(now_, command.pull)) break;
      Send({.kind = Event::Kind::kPullAtUnit,
            .unit = command.unit,
            .pull = command.pull});
      break;
    case Kind::kSendState:
      SendState(shell, command);
      break;
    case Kind::kSendTakeover:
      Send({.kind = Event::Kind::kTakeoverAtUnit,
            .unit = command.unit,
            .takeover = command.takeover});
      break;
    case Kind::kPiecesCame:
    case Kind::kLog:
      SNF_CHECK(false);
      break;
    case Kind::kSendTakeoverAck:
      Send({.kind = Event::Kind::kTakeoverAckAtUnit,
            .unit = command.unit,
            .takeover_ack = command.takeover_ack});
      break;
    case Kind::kReportTakeover:
      events_->PushInOrder(after_hop,
                           {.kind = Event::Kind::kTakeoverAtController,
                            .takeover = command.takeover});
      break;
    case Kind::kWait:
      ++waiting_;
      break;
    case Kind::kSendAlias:
      aliases_.push_back(shell.unit.alias(command.meta.flow));
      events_->PushInOrder(
          after_hop, Event::OfUnit(Event::Kind::kAliasAtController, self));
      break;
    case Kind::kSendNote:
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kNoteAtController,
                                       .note = command.note});
      break;
    case Kind::kSendTimerDue:
      events_->PushInOrder(after_hop,
                           {.kind = Event::Kind::kTimerDueAtController,
                            .timer_due = command.timer_due});
      break;
    case Kind::kRequestPieces:
      events_->PushInOrder(after_hop,
                           {.kind = Event::Kind::kPieceRequestAtController,
                            .piece_request = command.request});
      break;
    case Kind::kReturnPieces:
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kPiecesAtController,
                                       .pieces = command.pieces});
      break;
    case Kind::kStopped:
      if (tables_.on_stop(now_, self)) SendStopped(self);
      break;
  }
}

void VirtualDriver::ExecutePacket(UnitId unit, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  if (command.kind != Kind::kRelease && command.kind != Kind::kEmit) {
    exits_.End(now_, unit, command);
    // A packet whose payload is dropped still has to give its clock.
    if (command.kind != Kind::kDropPayload) Drained(unit, command.meta);
    return;
  }
  // Without a logger, what a unit lets go is released a hop later.
  ReleaseAfterHop(unit, command.packet, command.meta,
                  command.kind == Kind::kEmit);
  if (command.kind == Kind::kRelease) Drained(unit, command.meta);
}

void VirtualDriver::ReleaseAfterHop(UnitId unit, PacketHandle packet,
                                    const PacketMeta& meta, bool generated) {
  result_.packets_generated += generated ? 1 : 0;
  events_->PushInOrder(now_ + options_.hop_delay,
                       {.kind = Event::Kind::kRelease,
                        .generated = generated,
                        .unit = unit,
                        .packet = packet,
                        .meta = meta});
}

void VirtualDriver::Send(const Event& message) {
  for (const Nanos delay : network_.Send()) {
    if (network_.in_order()) {
      events_->PushInOrder(now_ + delay, message);
    } else {
      events_->Push(now_ + delay, message);
    }
  }
}

void VirtualDriver::SendState(const VirtualUnit& shell,
                              const UnitCommand& command) {
  const State& state = command.state;
  if (state.applied == Clock{}) {
    store_->Write(now_, state, {});
    return;
  }
  StateFigures& figures = result_.state;
  ++(state.pushed ? figures.pushes : figures.answers);
  figures.bytes += state.bytes;
  if (state.pushed) figures.pushed_bytes += state.bytes;
  observers_.on_state_sent(now_, shell.unit.id(), command.unit, state);
  const auto bytes = shell.unit.state_bytes(state.flow).first(state.bytes);
  if (store_.has_value()) {
    store_->Write(now_, state, bytes);
    return;
  }
  for (const Nanos delay : network_.SendState(state.bytes)) {
    const uint32_t record = network_.Keep(bytes);
    if (record == StateNetwork::kNoRecord) continue;
    events_->Push(now_ + delay, {.kind = Event::Kind::kStateAtUnit,
                                 .unit = command.unit,
                                 .record = record,
                                 .state = state});
  }
}

void VirtualDriver::on_store_answer(const StoreAnswer& answer) {
  VirtualUnit& shell = units_.of(answer.unit);
  bool has_more = true;
  while (has_more) {
    CallUnit(shell, [&] {
      if (answer.is_there) {
        observers_.on_state(now_, answer.unit, answer.state);
        shell.unit.on_state(now_, answer.state, answer.record, unit_out_);
      }
      has_more = !answer.is_there &&
                 shell.unit.on_store_silent(answer.state.flow, unit_out_);
    });
  }
  tables_.on_called(now_, answer.unit);
  Serve(shell);
  ScheduleTimer(shell);
}

void VirtualDriver::Drained(UnitId unit, const PacketMeta& meta) {
  --in_channels_;
  last_drain_ = now_;
  const uint32_t cost = controller_.CostOf(meta.original_length);
  if (meta.has_payload()) observers_.on_drained(now_, unit, 1, cost);
  controller_.on_drained(now_, {.unit = unit, .packets = 1, .bytes = cost});
}

void VirtualDriver::ScheduleTimer(VirtualUnit& shell) {
  const Instant wakeup = shell.unit.next_wakeup();
  if (wakeup >= shell.timer) return;
  shell.timer = wakeup;
  events_->Push(std::max(wakeup, now_),
                Event::OfUnit(Event::Kind::kUnitTimer, shell.unit.id()));
}

// --- The channel to its logger. ---

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
  if (FreesSlot(command.kind)) Drained(shell.unit.id(), command.meta);
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
  for (const Nanos delay : log_network_.Send()) {
    events_->Push(now_ + delay, event);
  }
}

void VirtualDriver::SendHeartbeatLater(VirtualUnit& shell) {
  shell.log->has_heartbeat = true;
  const Nanos delay{2 * options_.logger_delay.ns + options_.state_retry.ns};
  events_->Push(now_ + delay,
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
    events_->PushInOrder(after_hop, {.kind = Event::Kind::kPiecesAtController,
                                     .pieces = entry->block});
  } else {
    events_->PushInOrder(after_hop,
                         {.kind = Event::Kind::kNoteAtController,
                          .note = {.flow = entry->meta.flow,
                                   .clock = entry->meta.clock,
                                   .idle_timeout = entry->idle_timeout,
                                   .over = entry->is(LogEntry::kOver)}});
  }
  events_->Push(after_hop + options_.hop_delay,
                {.kind = Event::Kind::kToldAtUnit,
                 .unit = self,
                 .number = entry->number});
}

}  // namespace snf
