// SPDX-License-Identifier: Apache-2.0
//
// What happens at units, what they ask for, and what follows where a controller
// fails, or flows change theirs.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "platform/run/run_setup.h"
#include "platform/virtual_time/log_channel.h"
#include "platform/virtual_time/virtual_driver.h"
#include "runtime/core/state_figures.h"

namespace snf {

void VirtualDriver::Handle(const Event& event) {
  if (controllers_ != nullptr && controllers_->Take(event)) return;
  if (event.kind == Event::Kind::kRelease) {
    Release(event);
    return;
  }
  if (event.is_at_controller()) {
    HandleAtController(event);
    return;
  }
  VirtualUnit& shell = units_.of(event.unit);
  if (faults_ != nullptr && faults_->Lose(event, shell)) return;
  switch (event.kind) {
    case Event::Kind::kReplicasAtUnit:
      shell.unit.on_replicas(event.replicas);
      return;
    case Event::Kind::kForsakeAtUnit:
      for (bool has_more = true; has_more;) {
        CallUnit(shell, [&](UnitOut& out) {
          has_more = shell.unit.on_forsake(now(), event.end.flow, out);
        });
      }
      break;
    case Event::Kind::kDoneQueryAtUnit:
      on_done_query(shell, event.done_query);
      return;
    case Event::Kind::kSealAtLogger:
      faults_->on_seal(event.seal, shell);
      return;
    case Event::Kind::kLoggerReady:
      faults_->of_loggers().on_ready(shell);
      break;
    case Event::Kind::kLoggerRestored:
      faults_->of_loggers().on_restored(shell);
      break;
    case Event::Kind::kServiceEnd:
      EndService(shell);
      break;
    case Event::Kind::kUnitReady:
      if (sharing_ != nullptr) {
        BeginAgain(shell);
        shell.ready = true;
        shell.leaves = false;
        break;
      }
      if (!controller_.on_unit_ready(now(), event.unit)) return;
      if (event.cold) BeginAgain(shell);
      tables_.on_ready(now(), event.unit, event.incarnation, *shell.nf);
      shell.ready = true;
      break;
    case Event::Kind::kPacketAtUnit:
      if (faults_ != nullptr) faults_->on_packet(event, shell);
      if (!arriving_.empty()) TakeState(event.meta, shell);
      shell.unit.on_packet(event.packet, event.meta);
      break;
    default:
      if (event.is_of_logger()) {
        if (!loggers_.Handle(event, shell)) return;
        break;
      }
      CallUnit(shell, [&](UnitOut& out) { HandleAtUnit(event, shell, out); });
      break;
  }
  tables_.on_called(now(), event.unit);
  Serve(shell);
  ScheduleTimer(shell);
  if (sharing_ == nullptr) return;
  if (event.kind == Event::Kind::kServiceEnd) sharing_->on_served(event.unit);
  if (shell.leaves && shell.process.in_channel == 0) {
    shell.leaves = false;
    sharing_->on_left(event.unit);
  }
}

void VirtualDriver::on_done_query(VirtualUnit& shell, DoneQuery query) {
  const UnitId self = shell.unit.id();
  uint32_t at = 0;
  while (true) {
    const auto done = shell.unit.NextDone(at);
    const DoneAnswer answer = done.value_or(DoneAnswer{.unit = self});
    network_.AfterHop({.kind = Event::Kind::kDoneAtController,
                       .unit = self,
                       .done = {.flow = answer.flow,
                                .applied = answer.applied,
                                .round = query.round,
                                .unit = self}});
    if (!done.has_value()) return;
  }
}

// Its message stays behind the pieces that it returned.
void VirtualDriver::SendStopped(UnitId unit) {
  units_.of(unit).process.state = UnitProcess::State::kStopped;
  network_.AfterHop(Event::OfUnit(Event::Kind::kStoppedAtController, unit));
}

void VirtualDriver::HandleAtUnit(const Event& event, VirtualUnit& shell,
                                 UnitOut& out) {
  switch (event.kind) {
    case Event::Kind::kPullAtUnit:
      observers_.on_pull(now(), event.unit, event.pull);
      shell.unit.on_pull(now(), event.pull, out);
      break;
    case Event::Kind::kStateAtUnit:
      observers_.on_state(now(), event.unit, event.state);
      shell.unit.on_state(now(), event.state,
                          network_.states().record(event.record), out);
      network_.states().Free(event.record);
      break;
    case Event::Kind::kTakeoverAtUnit:
      observers_.on_takeover(now(), event.unit, event.takeover);
      shell.unit.on_takeover(now(), event.takeover, out);
      break;
    case Event::Kind::kTakeoverAckAtUnit:
      shell.unit.on_takeover_ack(now(), event.takeover_ack, out);
      break;
    case Event::Kind::kEndFlowAtUnit:
      shell.unit.on_end_flow(now(), event.end, {*shell.nf, buffers_}, out);
      break;
    case Event::Kind::kAliasAckAtUnit:
      if (event.alias_ack.result != AliasResult::kGranted) {
        observers_.on_alias_refused(now(), event.alias_ack, buffers_);
      }
      if (shell.log != nullptr)
        shell.log->maker().on_alias_ack(event.alias_ack);
      shell.unit.on_alias_ack(now(), event.alias_ack, {*shell.nf, buffers_},
                              out);
      break;
    case Event::Kind::kPiecesAtUnit:
      if (controllers_ != nullptr) controllers_->on_grant(event);
      shell.unit.on_pieces(now(), event.pieces, out);
      break;
    case Event::Kind::kReclaimAtUnit:
      shell.unit.on_reclaim(event.pieces.pool, out);
      break;
    case Event::Kind::kRedirectAtUnit:
      shell.unit.on_redirect(now(), event.redirect, out);
      break;
    case Event::Kind::kStopAtUnit:
      shell.leaves = true;
      shell.unit.on_stop(out);
      break;
    case Event::Kind::kUnitTimer:
      // Outdated by an earlier one, which has scheduled what comes next.
      if (now() < shell.timer) return;
      timers_at_end_ += is_ending_ ? 1 : 0;
      shell.timer = Instant::max();
      shell.unit.on_timers(now(), out);
      break;
    default:
      SNF_CHECK(false);
  }
}

void VirtualDriver::Serve(VirtualUnit& shell) {
  if (shell.unit.busy()) return;
  if (!shell.ready || (shell.log != nullptr && shell.log->is_full())) {
    if (sharing_ != nullptr) sharing_->on_empty(shell.unit.id());
    return;
  }
  unit_out_.clear();
  bool serves = shell.unit.begin(now(), unit_out_);
  ExecuteAll(shell);
  while (shell.unit.has_more()) {
    unit_out_.clear();
    serves = shell.unit.Resume(now(), unit_out_);
    ExecuteAll(shell);
  }
  result_.held_packets_max =
      std::max(result_.held_packets_max, shell.unit.held_packets());
  if (sharing_ == nullptr) {
    if (serves) BeginService(shell);
  } else if (serves) {
    sharing_->on_next(
        shell.unit.id(),
        controller_.CostOf(shell.unit.in_service().original_length));
  } else {
    sharing_->on_empty(shell.unit.id());
  }
}

void VirtualDriver::BeginService(Instant time, UnitId unit) {
  network_.AdvanceTo(time);
  BeginService(units_.of(unit));
}

void VirtualDriver::BeginService(VirtualUnit& shell) {
  const PacketMeta& meta = shell.unit.in_service();
  const UnitId self = shell.unit.id();
  const Nanos wait = shell.unit.in_service_wait();
  if (shell.unit.in_service_again()) {
    --waiting_;
    --shell.process.waiting;
    observers_.on_service_again(now(), self, meta);
  } else {
    observers_.on_service_begin(now(), self, meta, wait);
    if (CountMove(result_.state, self, meta, wait)) {
      result_.state.worst.key = KeyOf(meta.flow);
    }
  }
  network_.After(
      meta.has_payload() ? service_.ServiceTime(meta.original_length) : Nanos{},
      Event::OfUnit(Event::Kind::kServiceEnd, self));
}

void VirtualDriver::EndService(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  const PacketMeta meta = shell.unit.in_service();
  const PacketHandle packet = shell.unit.packet_in_service();
  observers_.on_service_end(now(), self, meta);
  if (packet != kNoPacket) {
    observers_.on_nf_begin(buffers_.info(packet), buffers_.bytes(packet));
  }
  unit_out_.clear();
  call_mark_.Begin({.unit = self, .meta = &meta, .packet = packet});
  shell.unit.finish(now(), {*shell.nf, buffers_}, unit_out_);
  call_mark_.End();
  if (packet != kNoPacket || meta.runs_timer()) {
    observers_.on_nf_end(
        now(), self, meta,
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
    if (faults_ != nullptr) faults_->on_command(command, shell);
    if (!loggers_.Take(shell, command)) Execute(shell, command);
  }
  shell.log->maker().EndCall();
}

void VirtualDriver::CallUnit(VirtualUnit& shell,
                             absl::FunctionRef<void(UnitOut&)> call) {
  unit_out_.clear();
  call_mark_.Begin({.unit = shell.unit.id()});
  call(unit_out_);
  call_mark_.End();
  ExecuteAll(shell);
  while (shell.unit.has_more()) {
    unit_out_.clear();
    shell.unit.Resume(now(), unit_out_);
    ExecuteAll(shell);
  }
}

void VirtualDriver::on_released(VirtualUnit& shell, const PacketMeta& meta) {
  CallUnit(shell, [&](UnitOut& out) {
    shell.unit.on_released(now(), meta, {*shell.nf, buffers_}, out);
  });
}

// It may have obeyed a Stop that was withdrawn meanwhile, or its logger may be
// about to say that it has.
void VirtualDriver::BeginAgain(VirtualUnit& shell) {
  if (shell.process.state == UnitProcess::State::kStopped) {
    shell.process.state = UnitProcess::State::kRuns;
  }
  if (shell.log != nullptr) shell.log->has_stopped = false;
  shell.unit.on_start();
}

void VirtualDriver::on_stopped(VirtualUnit& shell) {
  if (tables_.on_stop(now(), shell.unit.id())) SendStopped(shell.unit.id());
}

void VirtualDriver::Execute(VirtualUnit& shell, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  const UnitId self = shell.unit.id();
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
      if (store_.has_value() && store_->Read(now(), command.pull)) break;
      network_.Send(self,
                    {.kind = command.to_logger ? Event::Kind::kPullAtLogger
                                               : Event::Kind::kPullAtUnit,
                     .unit = command.unit,
                     .pull = command.pull});
      break;
    case Kind::kSendState:
      if (store_.has_value()) {
        WriteToStore(shell, command.state);
        break;
      }
      network_.SendState(self, command.unit, command.state,
                         shell.unit.state_bytes(command.state.flow));
      break;
    case Kind::kSendTakeover:
      network_.Send(self,
                    {.kind = command.to_logger ? Event::Kind::kTakeoverAtLogger
                                               : Event::Kind::kTakeoverAtUnit,
                     .unit = command.unit,
                     .takeover = command.takeover});
      break;
    case Kind::kPiecesCame:
    case Kind::kLog:
    case Kind::kSendDone:
    case Kind::kSendEnded:
    case Kind::kSendGrants:
    case Kind::kReportName:
    case Kind::kReportFlow:
    case Kind::kReportPacket:
    case Kind::kReportParked:
    case Kind::kReportWord:
    case Kind::kReportUnit:
    case Kind::kReported:
      SNF_CHECK(false);
      break;
    case Kind::kSendTakeoverAck:
      network_.Send(self, {.kind = Event::Kind::kTakeoverAckAtUnit,
                           .unit = command.unit,
                           .takeover_ack = command.takeover_ack});
      break;
    case Kind::kReportTakeover:
      network_.AfterHop({.kind = Event::Kind::kTakeoverAtController,
                         .unit = self,
                         .takeover = command.takeover});
      break;
    case Kind::kWait:
      ++waiting_;
      ++shell.process.waiting;
      break;
    case Kind::kSendAlias:
      aliases_.push_back(shell.unit.alias(command.meta.flow));
      network_.AfterHop(Event::OfUnit(Event::Kind::kAliasAtController, self));
      break;
    case Kind::kSendNote:
      network_.AfterHop({.kind = Event::Kind::kNoteAtController,
                         .unit = self,
                         .note = command.note});
      break;
    case Kind::kSendTimerDue:
      network_.AfterHop({.kind = Event::Kind::kTimerDueAtController,
                         .unit = self,
                         .timer_due = command.timer_due});
      break;
    case Kind::kRequestPieces:
      network_.AfterHop({.kind = Event::Kind::kPieceRequestAtController,
                         .unit = self,
                         .piece_request = command.request});
      break;
    case Kind::kReturnPieces:
      network_.AfterHop({.kind = Event::Kind::kPiecesAtController,
                         .unit = self,
                         .pieces = command.pieces});
      break;
    case Kind::kStopped:
      on_stopped(shell);
      break;
  }
}

void VirtualDriver::WriteToStore(const VirtualUnit& shell, const State& state) {
  if (state.applied == Clock{}) {
    store_->Write(now(), state, {});
    return;
  }
  StateFigures& figures = result_.state;
  ++(state.pushed ? figures.pushes : figures.answers);
  figures.bytes += state.bytes;
  if (state.pushed) figures.pushed_bytes += state.bytes;
  observers_.on_state_sent(now(), shell.unit.id(), kNoUnit, state);
  store_->Write(now(), state,
                shell.unit.state_bytes(state.flow).first(state.bytes));
}

void VirtualDriver::on_store_answer(const StoreAnswer& answer) {
  VirtualUnit& shell = units_.of(answer.unit);
  bool has_more = true;
  while (has_more) {
    CallUnit(shell, [&](UnitOut& out) {
      if (answer.is_there) {
        observers_.on_state(now(), answer.unit, answer.state);
        shell.unit.on_state(now(), answer.state, answer.record, out);
      }
      has_more = !answer.is_there &&
                 shell.unit.on_store_silent(answer.state.flow, out);
    });
  }
  tables_.on_called(now(), answer.unit);
  Serve(shell);
  ScheduleTimer(shell);
}

void VirtualDriver::ExecutePacket(UnitId unit, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  if (command.kind != Kind::kRelease && command.kind != Kind::kEmit) {
    if (command.reason == DropReason::kUnitFailed) {
      faults_->LoseClock(unit, command.meta, command.packet);
    } else {
      exits_.End(now(), unit, command);
    }
    // A packet whose payload is dropped still has to give its clock.
    if (command.kind != Kind::kDropPayload) Drained(unit, command.meta);
    return;
  }
  // Without a logger, what a unit lets go is released a hop later.
  network_.AfterHop({.kind = Event::Kind::kRelease,
                     .generated = command.kind == Kind::kEmit,
                     .unit = unit,
                     .packet = command.packet,
                     .meta = command.meta});
  if (command.kind == Kind::kRelease) Drained(unit, command.meta);
}

void VirtualDriver::Drained(UnitId unit, const PacketMeta& meta) {
  --in_channels_;
  --units_.of(unit).process.in_channel;
  last_drain_ = now();
  const uint32_t cost = controller_.CostOf(meta.original_length);
  if (meta.has_payload()) {
    observers_.on_drained(now(), unit, 1, cost);
  } else if (sharing_ != nullptr) {
    sharing_->on_advanced(meta.flow, meta.clock);
  }
  if (controllers_ != nullptr && controllers_->HoldDrain(unit, cost)) return;
  controller_.on_drained(now(), {.unit = unit, .packets = 1, .bytes = cost});
}

void VirtualDriver::ScheduleTimer(VirtualUnit& shell) {
  const Instant wakeup = shell.unit.next_wakeup();
  if (wakeup >= shell.timer) return;
  shell.timer = wakeup;
  network_.At(std::max(wakeup, now()),
              Event::OfUnit(Event::Kind::kUnitTimer, shell.unit.id()));
}

// --- Where a controller fails (controller_faults.h). ---

void VirtualDriver::Succeed(uint32_t epoch) {
  ControllerOptions options = options_.controller;
  options.epoch = epoch;
  controller_ = Controller(options, policy_);
  controller_.set_decision_observer(observers_.decision_observer());
  if (sharing_ == nullptr) {
    AddPiecePools(*example_, controller_);
  } else {
    sharing_->AddPiecePools(*example_, controller_);
  }
}

void VirtualDriver::on_rebuilt() {
  if (sharing_ != nullptr) sharing_->on_rebuilt();
}

void VirtualDriver::ExecuteOf(const ControllerOut& out) {
  for (const ControllerCommand& command : out.commands()) Execute(command);
}

Alias VirtualDriver::TakeAlias() {
  const Alias alias = aliases_.front();
  aliases_.pop_front();
  return alias;
}

void VirtualDriver::HandleHeld(const Event& event, const Alias& alias) {
  if (event.kind == Event::Kind::kAliasAtController) {
    aliases_.push_front(alias);
  }
  Handle(event);
}

void VirtualDriver::NoteFailure(UnitId unit) {
  UnitProcess& process = units_.of(unit).process;
  in_channels_ -= std::exchange(process.in_channel, 0);
  waiting_ -= std::exchange(process.waiting, 0);
  faults_->on_failure(unit);
}

void VirtualDriver::SealLogger(const Seal& seal) {
  faults_->on_seal(seal, units_.of(seal.unit));
}

void VirtualDriver::on_found(FlowId flow, Clock newest, bool is_ending) {
  observers_.on_flow_found(flow, newest);
  if (!is_ending) observers_.on_end_unsent(now(), EndFlow{flow, newest});
}

void VirtualDriver::on_alias_withdrawn(FlowId flow, Clock clock) {
  ingress_.ForgetAlias(flow, clock);
  FlowNote lost;
  lost.flow = flow;
  lost.clock = clock;
  lost.over = true;
  observers_.on_flow_note(lost);
}

// What the controller that failed had in its buffers.
void VirtualDriver::Unsent(const Event& event) {
  if (event.kind == Event::Kind::kPacketAtUnit) {
    --in_channels_;
    --units_.of(event.unit).process.in_channel;
    observers_.on_unsent(now(), event.unit, event.meta);
    arriving_.erase(event.meta.flow);
    if (event.packet == kNoPacket) return;
    exits_.Drop(now(), event.packet, DropReason::kControllerFailed);
  } else if (event.kind == Event::Kind::kEndFlowAtUnit) {
    observers_.on_end_unsent(now(), event.end);
  } else if (event.kind == Event::Kind::kAliasAckAtUnit) {
    // The flow does not have it, and asks again.
    FlowNote lost;
    lost.flow = event.alias_ack.flow;
    lost.clock = event.alias_ack.clock;
    lost.over = true;
    observers_.on_flow_note(lost);
  } else if (event.kind == Event::Kind::kPiecesAtUnit &&
             event.pieces.mask != 0) {
    observers_.on_grant_unsent(now(), event.pieces);
  }
}

// --- Flows that go on under the controllers of other drivers. ----------------

bool VirtualDriver::is_controller_up() const {
  return controllers_ == nullptr || controllers_->is_up();
}

void VirtualDriver::KillController(Instant time) {
  network_.AdvanceTo(time);
  controllers_->Kill();
}

bool VirtualDriver::HasFlow(const FlowKey& key) const {
  const FlowTable& flows = controller_.flows();
  return flows.Find(key, flows.HashOf(key)) != FlowTable::kNone;
}

bool VirtualDriver::AwaitsEnd(FlowId flow) const {
  const FlowTable& flows = controller_.flows();
  const uint32_t slot = slot_of(flow);
  return slot < flows.used() &&
         flows.numbers(slot).generation == generation_of(flow) &&
         flows.cold(slot).owner != kNoUnit &&
         (flows.hot(slot).flags & FlowHot::kEnding) != 0;
}

std::optional<MovedFlow> VirtualDriver::ReadFlow(FlowId flow) {
  const auto handed = FlowHandOver::Read(controller_, flow);
  if (!handed.has_value()) return std::nullopt;
  const UnitId owner = controller_.flows().cold(slot_of(flow)).owner;
  const Unit& unit = units_.of(owner).unit;
  const auto state = unit.StateToHandOver(flow, handed->last);
  if (!state.has_value()) return std::nullopt;
  const auto record = unit.state_bytes(flow).first(state->bytes);
  return MovedFlow{.flow = *handed,
                   .state = *state,
                   .record = {record.begin(), record.end()},
                   .digest = digest_.OfFlow(flow),
                   .digest_up_to_renaming = renaming_digest_ != nullptr
                                                ? renaming_digest_->OfFlow(flow)
                                                : 0,
                   .checked = checker_.Read(flow)};
}

void VirtualDriver::GiveFlow(Instant time, FlowId flow, bool again) {
  network_.AdvanceTo(time);
  const uint32_t slot = slot_of(flow);
  const EndFlow end = {flow, controller_.flows().hot(slot).clock};
  if (!again) {
    observers_.on_end_flow(now(), controller_.flows().cold(slot).owner, end);
  }
  FlowHandOver::Give(controller_, now(), flow);
}

// Its unit hears of it from the other controller's unit, as by a Takeover: what
// the controller here says may be lost with it.
void VirtualDriver::ForgetFlow(Instant time, FlowId flow) {
  network_.AdvanceTo(time);
  VirtualUnit& shell = units_.of(controller_.flows().cold(slot_of(flow)).owner);
  if (!controller_.on_ended(flow)) return;
  for (bool has_more = true; has_more;) {
    CallUnit(shell, [&](UnitOut& out) {
      has_more = shell.unit.on_forsake(now(), flow, out);
    });
  }
  Serve(shell);
  ScheduleTimer(shell);
}

std::optional<FlowId> VirtualDriver::TakeFlow(Instant time,
                                              const MovedFlow& moved) {
  network_.AdvanceTo(time);
  controller_out_.clear();
  const auto id =
      FlowHandOver::Take(controller_, now(), moved.flow, controller_out_);
  if (id.has_value()) {
    digest_.Continue(*id, moved.digest);
    const FlowName& name = moved.flow.name;
    if (renaming_digest_ != nullptr) {
      renaming_digest_->Continue(*id, moved.digest_up_to_renaming);
      if (name.alias != FlowKey{}) {
        renaming_digest_->on_granted(name.alias, name.key);
      }
    }
    ingress_.on_moved(name.flow, *id);
    checker_.on_moved_here(*id, moved.flow.last, moved.checked);
    if (name.alias != FlowKey{}) {
      // A controller that failed may have taken it before.
      FlowNote lost;
      lost.flow = name.flow;
      lost.clock = name.alias_clock;
      lost.over = true;
      checker_.on_flow_note(lost);
      checker_.on_alias(now(),
                        {.key = name.alias,
                         .flow = *id,
                         .clock = name.alias_clock,
                         .group = name.alias_group},
                        AliasResult::kGranted);
    }
    const auto [arriving, is_new] =
        arriving_.try_emplace(*id, Arriving{moved.state, moved.record});
    SNF_CHECK(is_new);
    arriving->second.state.flow = *id;
    arriving->second.state.pushed = true;
  }
  ExecuteAll();
  return id;
}

bool VirtualDriver::HasAlias(const FlowKey& alias) const {
  const uint64_t hash = controller_.flows().HashOf(alias);
  return controller_.aliases().Find(alias, hash) != AliasTable::kNone;
}

void VirtualDriver::AddPieces(Instant time, const PieceBlock& pieces,
                              bool were_out) {
  network_.AdvanceTo(time);
  if (were_out && controllers_ != nullptr) {
    // No unit of its own returns them, so any may have told.
    PieceBlock told = pieces;
    told.unit = UnitId{0};
    controllers_->on_returned(told);
  }
  checker_.on_pieces_came(pieces);
  controller_out_.clear();
  controller_.AddPieces(now(), pieces, were_out, controller_out_);
  ExecuteAll();
}

void VirtualDriver::AskForPieces(Instant time, const PieceRequest& request) {
  network_.AdvanceTo(time);
  controller_out_.clear();
  controller_.on_piece_request(now(), request, controller_out_);
  ExecuteAll();
}

void VirtualDriver::InheritPieces(Instant time, const PieceBlock& free,
                                  const PieceBlock& out) {
  AddPieces(time, free, false);
  if (out.mask == 0 || controllers_ == nullptr) return;
  PieceBlock told = out;
  told.unit = UnitId{0};
  controllers_->on_returned(told);
}

// The state of a flow comes with a packet without payload.
void VirtualDriver::TakeState(const PacketMeta& meta, VirtualUnit& shell) {
  const auto arriving = arriving_.find(meta.flow);
  if (arriving == arriving_.end()) return;
  const Arriving& came = arriving->second;
  SNF_CHECK(shell.unit.on_handed_over(now(), came.state, came.record));
  arriving_.erase(arriving);
}

void VirtualDriver::TakeWaiting(Instant time, const FlowKey& key, bool by_alias,
                                PacketHandle packet) {
  network_.AdvanceTo(time);
  Arrive(key, by_alias, packet);
}

}  // namespace snf
