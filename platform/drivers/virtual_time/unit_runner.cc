// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/unit_runner.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "platform/drivers/virtual_time/log_channel.h"
#include "platform/run/flow_keys.h"
#include "runtime/shell/state_figures.h"

namespace snf {

UnitRunner::UnitRunner(const RunOptions& options,
                       const NetworkFunction& example, UnitSharing* sharing,
                       Controller& controller, BufferPool& buffers,
                       VirtualUnits& units, VirtualNetwork& network,
                       ChannelUse& channels, ArrivingFlows& arriving,
                       Observers& observers, Checker& checker,
                       PacketExits& exits, RunResult& result)
    : options_(options),
      sharing_(sharing),
      controller_(controller),
      buffers_(buffers),
      units_(units),
      network_(network),
      channels_(channels),
      arriving_(arriving),
      observers_(observers),
      exits_(exits),
      result_(result),
      service_(options.controller.unit_capacity_bps,
               options.controller.unit_packets_ps),
      tables_(options, example, *this,
              sharing == nullptr ? nullptr : &sharing->tables()),
      loggers_(options, *this, network, observers, checker, exits, result) {
  if (options.state == StateMode::kExternal) {
    store_.emplace(options, example.schema().record_bytes());
  }
}

void UnitRunner::AddTotals(RunResult& result) const {
  loggers_.AddTotals(result);
  if (store_.has_value()) store_->AddTotals(result);
}

void UnitRunner::Handle(const Event& event) {
  VirtualUnit& shell = units_.of(event.unit);
  if (faults_ != nullptr && faults_->Lose(event, shell)) return;
  const bool may_go_on = HandleAtUnit(event, shell);
  if (tables_.is_logged()) {
    tables_.on_logged(now(), event.unit);
    SendStoppedOfTables();
  }
  if (!may_go_on) return;
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

// Returns true if the unit may have something to do now.
bool UnitRunner::HandleAtUnit(const Event& event, VirtualUnit& shell) {
  switch (event.kind) {
    case Event::Kind::kToUnit:
      return Deliver(event.order, shell);
    case Event::Kind::kBetweenUnits:
      return Deliver(event.command, event.record, shell);
    case Event::Kind::kServiceEnd:
      EndService(shell);
      return true;
    case Event::Kind::kUnitReady:
      return BecomeReady(event.order, shell);
    case Event::Kind::kUnitTimer:
      CallUnit(shell, [&](UnitOut& out) { RunTimers(shell, out); });
      return true;
    case Event::Kind::kLoggerReady:
      faults_->of_loggers().on_ready(shell);
      return true;
    case Event::Kind::kLoggerRestored:
      faults_->of_loggers().on_restored(shell);
      return true;
    default:
      return loggers_.Handle(event, shell);
  }
}

bool UnitRunner::BecomeReady(const ControllerCommand& start,
                             VirtualUnit& shell) {
  if (sharing_ != nullptr) {
    BeginAgain(shell);
    shell.leaves = false;
  } else {
    if (!controller_.on_unit_ready(now(), start.unit)) return false;
    if (!start.warm) BeginAgain(shell);
  }
  tables_.on_ready(
      now(), start.unit,
      tables_.is_logged() ? shell.log->incarnation() : start.incarnation,
      *shell.nf);
  shell.ready = true;
  return true;
}

void UnitRunner::RunTimers(VirtualUnit& shell, UnitOut& out) {
  // An earlier wake-up has scheduled the next one.
  if (now() < shell.timer) return;
  timers_at_end_ += is_ending_ ? 1 : 0;
  shell.timer = Instant::max();
  shell.unit.on_timers(now(), out);
}

void UnitRunner::on_done_query(VirtualUnit& shell, DoneQuery query) {
  const UnitId self = shell.unit.id();
  uint32_t at = 0;
  while (true) {
    const auto done = shell.unit.NextDone(at);
    const DoneAnswer answer = done.value_or(DoneAnswer{});
    network_.SendToController(self,
                              UnitCommand::Done({.flow = answer.flow,
                                                 .applied = answer.applied,
                                                 .round = query.round,
                                                 .unit = self}));
    if (!done.has_value()) return;
  }
}

void UnitRunner::RunTables() {
  tables_.RunNext(now());
  SendStoppedOfTables();
}

// The homes have now merged the updates of units that stop. A unit may have
// failed meanwhile.
void UnitRunner::SendStoppedOfTables() {
  for (const UnitId unit : tables_.TakeGone()) {
    if (units_.of(unit).process.lives()) SendStopped(unit);
  }
}

UpdateLog* UnitRunner::UpdatesOf(UnitId unit) {
  LogChannel& log = *units_.of(unit).log;
  return log.failure.has_value() ? nullptr : &log.logger().updates();
}

void UnitRunner::on_updates_merged(UnitId unit) {
  loggers_.on_updates_merged(units_.of(unit));
}

// Sends kStopped behind the pieces that the unit returned.
void UnitRunner::SendStopped(UnitId unit) {
  units_.of(unit).process.state = UnitProcess::State::kStopped;
  network_.SendToController(unit, UnitCommand::Stopped());
}

// Returns true if the unit may have something to do now.
bool UnitRunner::Deliver(const ControllerCommand& order, VirtualUnit& shell) {
  using Kind = ControllerCommand::Kind;
  switch (order.kind) {
    case Kind::kEnqueue:
      if (faults_ != nullptr) faults_->on_packet(order, shell);
      arriving_.on_packet(now(), order.meta, shell.unit);
      shell.unit.on_packet(order.packet, order.meta);
      return true;
    case Kind::kDoneQuery:
      on_done_query(shell, order.done_query);
      return false;
    case Kind::kSeal:
      faults_->on_seal(order.seal, shell);
      return false;
    case Kind::kForget: {
      const Takeover forget = {.flow = order.end.flow, .clock = order.end.last};
      if (order.of_logger) {
        loggers_.on_takeover(shell, forget);
        return false;
      }
      observers_.on_takeover(now(), order.unit, forget);
      break;
    }
    case Kind::kAliasAck:
      if (order.alias_ack.result != AliasResult::kGranted) {
        observers_.on_alias_refused(now(), order.alias_ack, buffers_);
      }
      if (shell.log != nullptr) {
        shell.log->maker().on_alias_ack(order.alias_ack);
      }
      break;
    case Kind::kPieces:
      if (controllers_ != nullptr) controllers_->kept().on_grant(order.pieces);
      break;
    default:
      break;
  }
  unit_out_.clear();
  const auto execute = [&] { ExecuteAll(shell); };
  if (!shell.Deliver(CallNow(), order, execute)) return false;
  shell.GoOn(CallNow(), execute);
  return true;
}

void UnitRunner::Forsake(UnitId unit, FlowId flow) {
  VirtualUnit& shell = units_.of(unit);
  unit_out_.clear();
  const auto execute = [&] { ExecuteAll(shell); };
  shell.Deliver(CallNow(), ControllerCommand::Forsake(unit, {.flow = flow}),
                execute);
  shell.GoOn(CallNow(), execute);
  Serve(shell);
  ScheduleTimer(shell);
}

// Returns true if the unit may have something to do now.
bool UnitRunner::Deliver(const UnitCommand& message, uint32_t record,
                         VirtualUnit& shell) {
  using Kind = UnitCommand::Kind;
  if (message.to_logger) {
    if (message.kind == Kind::kSendPull) {
      loggers_.on_pull(shell, message.pull);
    } else {
      loggers_.on_takeover(shell, message.takeover);
    }
    return false;
  }
  const UnitId self = shell.unit.id();
  const bool has_record = message.kind == Kind::kSendState;
  if (has_record) {
    observers_.on_state(now(), self, message.state);
    CountHandOver(shell, message.state.flow);
  } else if (message.kind == Kind::kSendPull) {
    observers_.on_pull(now(), self, message.pull);
  } else if (message.kind == Kind::kSendTakeover) {
    observers_.on_takeover(now(), self, message.takeover);
  }
  unit_out_.clear();
  shell.Deliver(CallNow(), message,
                has_record ? network_.states().record(record)
                           : std::span<const std::byte>{});
  if (has_record) network_.states().Free(record);
  shell.GoOn(CallNow(), [&] { ExecuteAll(shell); });
  return true;
}

void UnitRunner::Serve(VirtualUnit& shell) {
  if (shell.unit.busy()) return;
  if (!shell.ready || (shell.log != nullptr && shell.log->is_full())) {
    if (sharing_ != nullptr) sharing_->on_empty(shell.unit.id());
    return;
  }
  unit_out_.clear();
  const bool serves = shell.Begin(CallNow(), [&] { ExecuteAll(shell); });
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

// Returns true if the packet's state comes from another unit of the host.
bool UnitRunner::IsWithinHost(UnitId unit, const PacketMeta& meta) const {
  return meta.source_kind == StateSource::kUnit &&
         network_.hosts().Share(meta.source, unit);
}

// Counts a State that comes to a moved flowlet in the time of a hand-over.
void UnitRunner::CountHandOver(const VirtualUnit& shell, FlowId flow) {
  const PacketNode* const held = shell.unit.held(flow);
  if (held == nullptr || !BeginsMovedFlowlet(held->meta) ||
      !IsWithinHost(shell.unit.id(), held->meta)) {
    return;
  }
  const int64_t pull_and_answer =
      options_.hop_delay.ns + options_.local_handover.ns;
  const bool is_alone = (now() - held->held_since).ns <= pull_and_answer;
  result_.state.handed_over_within_host += is_alone ? 1 : 0;
}

void UnitRunner::BeginService(VirtualUnit& shell) {
  const PacketMeta& meta = shell.unit.in_service();
  const UnitId self = shell.unit.id();
  const Nanos wait = shell.unit.in_service_wait();
  if (shell.unit.in_service_again()) {
    channels_.on_served_again(shell.process);
    observers_.on_service_again(now(), self, meta);
  } else {
    observers_.on_service_begin(now(), self, meta, wait);
    if (CountMove(result_.state, self, meta, wait, IsWithinHost(self, meta))) {
      result_.state.worst.key = KeyOf(controller_.flows(), meta.flow);
    }
  }
  network_.After(
      meta.has_payload() ? service_.ServiceTime(meta.original_length) : Nanos{},
      Event::OfUnit(Event::Kind::kServiceEnd, self));
}

void UnitRunner::EndService(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  const PacketMeta meta = shell.unit.in_service();
  const PacketHandle packet = shell.unit.packet_in_service();
  observers_.on_service_end(now(), self, meta);
  if (packet != kNoPacket) {
    observers_.on_nf_begin(buffers_.info(packet), buffers_.bytes(packet));
  }
  unit_out_.clear();
  shell.Finish(CallNow());
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

// Executes the commands in unit_out_, and empties it.
void UnitRunner::ExecuteAll(VirtualUnit& shell) {
  for (const UnitCommand& command : unit_out_.commands()) {
    if (faults_ != nullptr) faults_->on_command(command, shell);
    if (shell.log != nullptr && loggers_.Take(shell, command)) continue;
    Execute(shell, command);
  }
  if (shell.log != nullptr) shell.log->maker().EndCall();
  unit_out_.clear();
}

void UnitRunner::CallUnit(VirtualUnit& shell,
                          absl::FunctionRef<void(UnitOut&)> call) {
  unit_out_.clear();
  call_mark_.Begin({.unit = shell.unit.id()});
  call(unit_out_);
  call_mark_.End();
  shell.GoOn(CallNow(), [&] { ExecuteAll(shell); });
}

void UnitRunner::on_released(VirtualUnit& shell, const PacketMeta& meta) {
  unit_out_.clear();
  shell.on_released(CallNow(), meta);
  shell.GoOn(CallNow(), [&] { ExecuteAll(shell); });
}

// The unit may have obeyed a Stop that was withdrawn meanwhile, or its logger
// may be about to say that it has.
void UnitRunner::BeginAgain(VirtualUnit& shell) {
  if (shell.process.state == UnitProcess::State::kStopped) {
    shell.process.state = UnitProcess::State::kRuns;
  }
  if (shell.log != nullptr) shell.log->has_stopped = false;
  shell.unit.on_start();
}

void UnitRunner::on_updates(UnitId unit, std::span<const std::byte> updates) {
  tables_.on_updates(unit, updates);
}

void UnitRunner::on_stopped(VirtualUnit& shell) {
  if (tables_.on_stop(now(), shell.unit.id())) SendStopped(shell.unit.id());
}

class UnitRunner::Outbox {
 public:
  Outbox(UnitRunner& runner, VirtualUnit& shell)
      : runner_(runner), shell_(shell), self_(shell.unit.id()) {}

  void SendPull(const UnitCommand& command) {
    auto& store = runner_.store_;
    if (store.has_value() && store->Read(runner_.now(), command.pull)) return;
    runner_.network_.Send(self_, command);
  }
  void SendState(const UnitCommand& command,
                 std::span<const std::byte> record) {
    VirtualNetwork& network = runner_.network_;
    if (!runner_.store_.has_value() &&
        network.hosts().Share(self_, command.unit)) {
      CountWithinHost(runner_.result_.state, command.state);
      network.HandOver(self_, command.unit, command.state, record);
      return;
    }
    if (!runner_.store_.has_value()) {
      network.SendState(self_, command.unit, command.state, record);
      return;
    }
    if (command.state.applied != Clock{}) {
      runner_.observers_.on_state_sent(runner_.now(), self_, kNoUnit,
                                       command.state);
    }
    runner_.store_->Write(runner_.now(), command.state, record);
  }
  void SendToUnit(const UnitCommand& command) {
    runner_.network_.Send(self_, command);
  }
  void SendAlias(const UnitCommand& command, const Alias& alias) {
    runner_.network_.SendAlias(self_, command, alias);
  }
  void SendToController(const UnitCommand& command) {
    runner_.network_.SendToController(self_, command);
  }
  void Wait() { runner_.channels_.on_wait(shell_.process); }
  void Stop() { runner_.on_stopped(shell_); }

 private:
  UnitRunner& runner_;
  VirtualUnit& shell_;
  const UnitId self_;
};

void UnitRunner::Execute(VirtualUnit& shell, const UnitCommand& command) {
  switch (command.kind) {
    case UnitCommand::Kind::kRelease:
    case UnitCommand::Kind::kEmit:
    case UnitCommand::Kind::kNfDrop:
    case UnitCommand::Kind::kDrop:
    case UnitCommand::Kind::kConsume:
    case UnitCommand::Kind::kAdvance:
    case UnitCommand::Kind::kDropPayload:
      ExecutePacket(shell.unit.id(), command);
      break;
    default:
      shell.Send(command, result_.state, Outbox(*this, shell));
      break;
  }
}

void UnitRunner::RunStore() {
  const auto answer = store_->RunNext(now());
  if (answer.has_value()) on_store_answer(*answer);
}

void UnitRunner::on_store_answer(const StoreAnswer& answer) {
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

void UnitRunner::ExecutePacket(UnitId unit, UnitCommand command) {
  using Kind = UnitCommand::Kind;
  command.unit = unit;
  if (command.kind != Kind::kRelease && command.kind != Kind::kEmit) {
    if (command.reason == DropReason::kUnitFailed) {
      faults_->LoseClock(unit, command.meta, command.packet);
    } else {
      exits_.End(now(), command);
    }
    // A packet whose payload is dropped still has to give its clock.
    if (command.kind != Kind::kDropPayload) Drained(unit, command.meta);
    return;
  }
  // Without a logger, a packet leaves a hop after its unit has released it.
  network_.AfterHop(Event::Of(Event::Kind::kRelease, command));
  if (command.kind == Kind::kRelease) Drained(unit, command.meta);
}

void UnitRunner::Drained(UnitId unit, const PacketMeta& meta) {
  channels_.on_drained(units_.of(unit).process, now());
  const uint32_t cost = controller_.CostOf(meta.original_length);
  if (meta.has_payload()) {
    observers_.on_drained(now(), unit, 1, cost);
  } else if (sharing_ != nullptr) {
    sharing_->on_advanced(meta.flow, meta.clock);
  }
  if (controllers_ != nullptr && controllers_->HoldDrain(unit, cost)) return;
  controller_.on_drained(now(), {.unit = unit, .packets = 1, .bytes = cost});
}

void UnitRunner::ScheduleTimer(VirtualUnit& shell) {
  const Instant wakeup = shell.unit.next_wakeup();
  if (wakeup >= shell.timer) return;
  shell.timer = wakeup;
  network_.At(std::max(wakeup, now()),
              Event::OfUnit(Event::Kind::kUnitTimer, shell.unit.id()));
}

void UnitRunner::SealLogger(const Seal& seal) {
  faults_->on_seal(seal, units_.of(seal.unit));
  tables_.on_logged(now(), seal.unit);
}

}  // namespace snf
