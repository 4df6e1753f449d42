// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/controller_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "platform/run/run_setup.h"

namespace snf {

ControllerRunner::ControllerRunner(
    const RunOptions& options, const PlacementPolicy& policy,
    const NetworkFunction& example, UnitSharing* sharing,
    Controller& controller, BufferPool& buffers, Ingress& ingress,
    VirtualUnits& units, VirtualNetwork& network, ChannelUse& channels,
    ArrivingFlows& arriving, Observers& observers, RunDigests& digests,
    PacketExits& exits, AliasFigures& figures)
    : options_(options),
      policy_(policy),
      example_(example),
      sharing_(sharing),
      controller_(controller),
      buffers_(buffers),
      ingress_(ingress),
      units_(units),
      network_(network),
      channels_(channels),
      arriving_(arriving),
      observers_(observers),
      digests_(digests),
      exits_(exits),
      figures_(figures),
      start_rng_(Rng(options.controller.seed).Fork(4)) {}

void ControllerRunner::AddPools() {
  if (sharing_ == nullptr) {
    AddPiecePools(example_, controller_);
  } else {
    sharing_->AddPiecePools(example_, controller_);
  }
}

void ControllerRunner::Call(absl::FunctionRef<void(ControllerOut&)> call) {
  out_.clear();
  call(out_);
  ExecuteAll();
}

void ControllerRunner::on_timers() {
  out_.clear();
  controller_.on_timers(now(), out_);
  ExecuteAll();
}

void ControllerRunner::Arrive(const FlowKey& key, bool by_alias,
                              PacketHandle packet) {
  if (controllers_ != nullptr && controllers_->Hold(key, by_alias, packet)) {
    return;
  }
  const PacketInfo& info = buffers_.info(packet);
  const Arrival arrived = {.key = key,
                           .time = info.arrival,
                           .original_length = info.original_length,
                           .packet = packet,
                           .by_alias = by_alias};
  out_.clear();
  SNF_CHECK(controller_.on_packets(now(), {&arrived, 1}, out_) == 1);
  if (by_alias) {
    ++figures_.packets_offered;
    const bool is_lost = std::ranges::any_of(
        out_.commands(), [](const ControllerCommand& command) {
          return command.kind == ControllerCommand::Kind::kDrop &&
                 command.reason == DropReason::kNoAlias;
        });
    figures_.packets_found += is_lost ? 0 : 1;
  }
  ExecuteAll();
}

void ControllerRunner::Execute(const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  switch (command.kind) {
    case Kind::kDrop:
      exits_.Drop(now(), command.packet, command.reason);
      return;
    case Kind::kStartUnit:
      Start(command);
      return;
    case Kind::kParkUnit:
      observers_.on_unit_down(now(), command.unit);
      units_.of(command.unit).ready = false;
      units_.of(command.unit).process.is_up = false;
      return;
    case Kind::kName:
      controllers_->kept().SendName(command.unit,
                                    controller_.NameOf(command.end.flow));
      return;
    case Kind::kEnqueue:
      Enqueue(command);
      break;
    case Kind::kStopUnit:
      units_.of(command.unit).stopping = true;
      break;
    case Kind::kForsake:
      if (command.end.last == Clock{}) break;
      observers_.on_end_flow(now(), kNoUnit, command.end);
      ingress_.ForgetAlias(command.end.flow, command.end.last);
      break;
    case Kind::kEndFlow:
      observers_.on_end_flow(now(), command.unit, command.end);
      ingress_.ForgetAlias(command.end.flow, command.end.last);
      break;
    case Kind::kPieces:
      observers_.on_pieces_granted(now(), command.pieces);
      break;
    default:
      break;
  }
  network_.AfterHop(VirtualEvent::Of(command));
}

void ControllerRunner::Enqueue(const ControllerCommand& command) {
  const PacketMeta& meta = command.meta;
  channels_.on_enqueue(units_.of(command.unit).process);
  const bool is_tombstone = (meta.flags & PacketMeta::kTombstone) != 0;
  if (is_tombstone &&
      controller_.aliases().clock(slot_of(meta.flow)) == Clock{}) {
    // The tombstone stands for the packet that had set the flow's alias.
    ingress_.ForgetAlias(meta.flow, meta.clock);
  }
  observers_.on_enqueue(now(), command.unit, meta);
}

void ControllerRunner::Start(const ControllerCommand& command) {
  // A successor may start a unit that its predecessor had started.
  const bool is_up = units_.of(command.unit).process.is_up;
  if (sharing_ == nullptr && !is_up) {
    observers_.on_unit_up(now(), command.unit);
  }
  if (faults_ != nullptr) faults_->on_start(command);
  if (controllers_ != nullptr) controllers_->kept().on_start(command);
  VirtualEvent ready = VirtualEvent::Of(command);
  ready.kind = VirtualEvent::Kind::kUnitReady;
  if (sharing_ != nullptr) {
    network_.AfterHop(ready);
    return;
  }
  // A start that fails is heard of no more.
  if (start_rng_.Chance(options_.chaos.start_failure_65536)) return;
  const bool cold = !command.warm;
  Nanos delay = cold ? options_.unit_start_delay : options_.warm_start_delay;
  // A Stop that is withdrawn comes first.
  const bool withdraws =
      std::exchange(units_.of(command.unit).stopping, false) && !cold;
  if (withdraws) delay = std::max(delay, options_.hop_delay);
  ready.order.warm = !cold && !withdraws;
  network_.After(delay, ready);
}

void ControllerRunner::Deliver(const UnitCommand& command, bool of_logger) {
  using Kind = UnitCommand::Kind;
  out_.clear();
  switch (command.kind) {
    case Kind::kReportTakeover:
      controller_.on_takeover(command.takeover);
      return;
    case Kind::kStopped:
      if (controller_.on_unit_stopped(command.unit) && sharing_ != nullptr) {
        sharing_->on_unit_stopped(command.unit);
      }
      return;
    case Kind::kSendAlias:
      on_alias();
      break;
    case Kind::kSendNote:
      observers_.on_flow_note(command.note);
      if (command.note.over) {
        ingress_.ForgetAlias(command.note.flow, command.note.clock);
      }
      controller_.on_flow_note(now(), command.note, out_);
      break;
    case Kind::kSendTimerDue:
      // If the timers are held, the unit asks again.
      if (timers_held_.contains(command.timer_due.flow)) return;
      controller_.on_timer_due(now(), command.timer_due, out_);
      break;
    case Kind::kRequestPieces:
      if (sharing_ != nullptr &&
          controller_.lacks_pieces(command.request.pool)) {
        sharing_->on_lack(command.request);
        return;
      }
      controller_.on_piece_request(now(), command.request, out_);
      break;
    case Kind::kReturnPieces:
      observers_.on_pieces_returned(now(), command.pieces);
      if (sharing_ != nullptr && command.pieces.mask != 0 &&
          sharing_->on_returned(command.pieces)) {
        return;
      }
      if (controllers_ != nullptr)
        controllers_->kept().on_returned(command.pieces);
      controller_.on_pieces_returned(now(), command.pieces, out_);
      break;
    case Kind::kSendDone:
      if (of_logger) {
        controller_.on_sealed(now(), command.done, out_);
      } else {
        controller_.on_done(now(), command.done, out_);
      }
      break;
    case Kind::kSendEnded:
      controller_.on_ended(command.ended.flow);
      return;
    case Kind::kSendGrants:
      observers_.on_grants_sealed(now(), command.unit, command.grants);
      if (controllers_ != nullptr) {
        controllers_->kept().on_grants_sealed(command.unit, command.grants);
      }
      controller_.on_grants_sealed(now(), command.unit, command.grants, out_);
      break;
    default:
      SNF_CHECK(false);
  }
  ExecuteAll();
}

void ControllerRunner::on_failure(UnitId unit) {
  NoteFailure(unit);
  out_.clear();
  SNF_CHECK(controller_.on_unit_failed(
      now(), unit, controller_.units().incarnation(unit), out_));
  ExecuteAll();
}

void ControllerRunner::on_alias() {
  const Alias alias = network_.TakeAlias();
  const AliasResult result = controller_.on_alias(alias, out_);
  observers_.on_alias(now(), alias, result);
  if (result != AliasResult::kGranted) return;
  if (sharing_ != nullptr) sharing_->on_alias(alias.key);
  const FlowKey& inside = controller_.flows().hot(slot_of(alias.flow)).key;
  ingress_.on_alias(alias, inside);
  digests_.on_granted(alias.key, inside);
}

// --- If a controller fails (controller_faults.h). ---

void ControllerRunner::Succeed(uint32_t epoch) {
  ControllerOptions options = options_.controller;
  options.epoch = epoch;
  controller_ = Controller(options, policy_);
  controller_.set_decision_observer(observers_.decision_observer());
  AddPools();
}

void ControllerRunner::on_rebuilt() {
  if (sharing_ != nullptr) sharing_->on_rebuilt();
}

void ControllerRunner::ExecuteOf(const ControllerOut& out) {
  for (const ControllerCommand& command : out.commands()) Execute(command);
}

void ControllerRunner::NoteFailure(UnitId unit) {
  channels_.on_failure(units_.of(unit).process);
  faults_->on_failure(unit);
  tables_->on_unit_failed(unit);
}

void ControllerRunner::on_found(FlowId flow, Clock newest, bool is_ending) {
  observers_.on_flow_found(flow, newest);
  if (!is_ending) observers_.on_end_unsent(now(), EndFlow{flow, newest});
}

void ControllerRunner::on_alias_withdrawn(FlowId flow, Clock clock) {
  ingress_.ForgetAlias(flow, clock);
  on_alias_lost(flow, clock);
}

// Undoes an order that was in the buffers of the controller that failed.
void ControllerRunner::Unsent(const VirtualEvent& event) {
  using Event = VirtualEvent;
  using Kind = ControllerCommand::Kind;
  if (event.kind != Event::Kind::kToUnit) return;
  const ControllerCommand& order = event.order;
  switch (order.kind) {
    case Kind::kEnqueue:
      channels_.on_unsent(units_.of(order.unit).process);
      observers_.on_unsent(now(), order.unit, order.meta);
      arriving_.on_unsent(order.meta.flow);
      if (order.packet == kNoPacket) return;
      exits_.Drop(now(), order.packet, DropReason::kControllerFailed);
      break;
    case Kind::kEndFlow:
      observers_.on_end_unsent(now(), order.end);
      break;
    case Kind::kAliasAck:
      // The flow does not have the alias, and asks again.
      on_alias_lost(order.alias_ack.flow, order.alias_ack.clock);
      break;
    case Kind::kPieces:
      if (order.pieces.mask != 0) {
        observers_.on_grant_unsent(now(), order.pieces);
      }
      break;
    default:
      break;
  }
}

void ControllerRunner::on_alias_lost(FlowId flow, Clock clock) {
  FlowNote lost;
  lost.flow = flow;
  lost.clock = clock;
  lost.over = true;
  observers_.on_flow_note(lost);
}

}  // namespace snf
