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
  if (has_faults_ && IsLost(event, shell)) {
    Lose(event, shell);
    return;
  }
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
    case Event::Kind::kDoneQueryAtUnit:
      on_done_query(shell, event.done_query);
      return;
    case Event::Kind::kPacketAtUnit:
      if (has_faults_) {
        shell.process.inside.insert_or_assign(
            {event.meta.flow, event.meta.clock},
            UnitProcess::Inside{event.packet, event.meta});
      }
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
  units_.of(unit).process.state = UnitProcess::State::kStopped;
  PushInOrder(now_ + options_.hop_delay,
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
    case Event::Kind::kRedirectAtUnit:
      shell.unit.on_redirect(now_, event.redirect, unit_out_);
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
    --shell.process.waiting;
    observers_.on_service_again(now_, self, meta);
  } else {
    observers_.on_service_begin(now_, self, meta, wait);
    if (CountMove(result_.state, self, meta, wait)) {
      result_.state.worst.key = KeyOf(meta.flow);
    }
  }
  Push(now_ + (meta.has_payload() ? service_.ServiceTime(meta.original_length)
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
    if (has_faults_) NoteLeft(shell, command);
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
      Send({.kind = command.to_logger ? Event::Kind::kPullAtLogger
                                      : Event::Kind::kPullAtUnit,
            .unit = command.unit,
            .pull = command.pull});
      break;
    case Kind::kSendState:
      SendState(self, command.unit, command.state,
                shell.unit.state_bytes(command.state.flow));
      break;
    case Kind::kSendTakeover:
      Send({.kind = command.to_logger ? Event::Kind::kTakeoverAtLogger
                                      : Event::Kind::kTakeoverAtUnit,
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
      PushInOrder(after_hop, {.kind = Event::Kind::kTakeoverAtController,
                              .unit = self,
                              .takeover = command.takeover});
      break;
    case Kind::kWait:
      ++waiting_;
      ++shell.process.waiting;
      break;
    case Kind::kSendAlias:
      aliases_.push_back(shell.unit.alias(command.meta.flow));
      PushInOrder(after_hop,
                  Event::OfUnit(Event::Kind::kAliasAtController, self));
      break;
    case Kind::kSendNote:
      PushInOrder(after_hop, {.kind = Event::Kind::kNoteAtController,
                              .unit = self,
                              .note = command.note});
      break;
    case Kind::kSendTimerDue:
      PushInOrder(after_hop, {.kind = Event::Kind::kTimerDueAtController,
                              .unit = self,
                              .timer_due = command.timer_due});
      break;
    case Kind::kRequestPieces:
      PushInOrder(after_hop, {.kind = Event::Kind::kPieceRequestAtController,
                              .unit = self,
                              .piece_request = command.request});
      break;
    case Kind::kReturnPieces:
      PushInOrder(after_hop, {.kind = Event::Kind::kPiecesAtController,
                              .unit = self,
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
  PushInOrder(now_ + options_.hop_delay, {.kind = Event::Kind::kRelease,
                                          .generated = generated,
                                          .unit = unit,
                                          .packet = packet,
                                          .meta = meta});
}

void VirtualDriver::Send(const Event& message) {
  for (const Nanos delay : network_.Send()) {
    if (network_.in_order()) {
      PushInOrder(now_ + delay, message);
    } else {
      Push(now_ + delay, message);
    }
  }
}

void VirtualDriver::SendState(UnitId from, UnitId to, const State& state,
                              std::span<const std::byte> record) {
  StateFigures& figures = result_.state;
  ++(state.pushed ? figures.pushes : figures.answers);
  figures.bytes += state.bytes;
  if (state.pushed) figures.pushed_bytes += state.bytes;
  observers_.on_state_sent(now_, from, to, state);
  const auto bytes = record.first(state.bytes);
  for (const Nanos delay : network_.SendState(state.bytes)) {
    const uint32_t kept = network_.Keep(bytes);
    if (kept == StateNetwork::kNoRecord) continue;
    Push(now_ + delay, {.kind = Event::Kind::kStateAtUnit,
                        .unit = to,
                        .record = kept,
                        .state = state});
  }
}

void VirtualDriver::Drained(UnitId unit, const PacketMeta& meta) {
  --in_channels_;
  --units_.of(unit).process.in_channel;
  last_drain_ = now_;
  const uint32_t cost = controller_.CostOf(meta.original_length);
  if (meta.has_payload()) observers_.on_drained(now_, unit, 1, cost);
  controller_.on_drained(now_, {.unit = unit, .packets = 1, .bytes = cost});
}

void VirtualDriver::ScheduleTimer(VirtualUnit& shell) {
  const Instant wakeup = shell.unit.next_wakeup();
  if (wakeup >= shell.timer) return;
  shell.timer = wakeup;
  Push(std::max(wakeup, now_),
       Event::OfUnit(Event::Kind::kUnitTimer, shell.unit.id()));
}

}  // namespace snf
