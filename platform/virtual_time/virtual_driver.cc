// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/virtual_driver.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/counters.h"
#include "base/packet/flow_key_text.h"
#include "platform/run/run_setup.h"
#include "platform/run/run_totals.h"
#include "platform/virtual_time/virtual_driver_event.h"
#include "runtime/core/state_figures.h"

namespace snf {

VirtualDriver::VirtualDriver(const RunOptions& options,
                             const PlacementPolicy& policy, const NfSpec& nf,
                             Observers observers)
    : options_(options),
      nf_(nf),
      example_(nf.create()),
      schema_(example_->schema()),
      buffers_(options.buffers),
      ingress_(options, HasSides(*example_), buffers_),
      controller_(options.controller, policy),
      service_(options.controller.unit_capacity_bps),
      network_(options, schema_.record_bytes()),
      tables_(options, *example_),
      events_(std::make_unique<EventQueue<Event>>()),
      units_(options.controller.max_units),
      observers_(std::move(observers)),
      checker_(options.check ? &nf : nullptr,
               [this](FlowId flow) {
                 const FlowKey key = KeyOf(flow);
                 return key == FlowKey{} ? "" : ToString(key);
               }),
      provisioning_(options.controller.unit_capacity_bps,
                    options.controller.max_units),
      result_(EmptyResult(*example_)) {
  observers_.Add(provisioning_);
  observers_.Add(digest_);
  if (options.check) observers_.Add(checker_);
  controller_.set_decision_observer(observers_.decision_observer());
  SNF_CHECK(example_->drop_reasons().size() <= Chain::kMaxReasons);
  SNF_CHECK(!result_.aliases.has_sides ||
            options.flow.kind == FlowKeyKind::kConnection);
  AddPiecePools(*example_, controller_);
}

VirtualDriver::~VirtualDriver() = default;

void VirtualDriver::Offer(const CapturedPacket& captured) {
  if (result_.packets_in == 0) {
    result_.first_packet = captured.time;
    observers_.on_start(captured.time);
  } else if (captured.time < result_.last_packet) {
    ++result_.late_packets;
  }
  const Instant arrival = std::max(captured.time, now_);
  AdvanceTo(arrival);
  ++result_.packets_in;
  result_.bytes_in += captured.original_bytes;
  result_.last_packet = arrival;

  const Ingress::Taken& taken = ingress_.Take(arrival, captured);
  if (taken.fate == Ingress::Taken::Fate::kPassesThrough) {
    PassThrough(captured);
    return;
  }
  observers_.on_arrival(arrival, *taken.flow, captured.original_bytes);
  if (taken.fate == Ingress::Taken::Fate::kDropped) {
    ++result_.dropped[static_cast<size_t>(taken.reason)];
    observers_.on_drop(ReleasedPacket::Of(now_, captured),
                       ToString(taken.reason));
    return;
  }
  Arrive(*taken.key, taken.by_alias, taken.packet);
}

void VirtualDriver::PassThrough(const CapturedPacket& captured) {
  ++result_.packets_passed_through;
  observers_.on_release(ReleasedPacket::Of(now_, captured));
}

void VirtualDriver::Arrive(const FlowKey& key, bool by_alias,
                           PacketHandle packet) {
  const PacketInfo& info = buffers_.info(packet);
  const Arrival arrived = {.key = key,
                           .time = info.arrival,
                           .original_length = info.original_length,
                           .packet = packet,
                           .by_alias = by_alias};
  controller_out_.clear();
  SNF_CHECK(controller_.on_packets(now_, {&arrived, 1}, controller_out_) == 1);
  if (by_alias) {
    ++result_.aliases.packets_offered;
    const bool is_lost = std::ranges::any_of(
        controller_out_.commands(), [](const ControllerCommand& command) {
          return command.kind == ControllerCommand::Kind::kDrop &&
                 command.reason == DropReason::kNoAlias;
        });
    result_.aliases.packets_found += is_lost ? 0 : 1;
  }
  ExecuteAll();
}

void VirtualDriver::AdvanceTo(Instant time) {
  if (time < now_) return;
  RunUntil(time);
  now_ = time;
}

RunResult VirtualDriver::Finish() {
  RunUntil(Instant::max());
  observers_.on_end(now_);
  result_.violations = checker_.violations();
  result_.violation_messages = checker_.messages();
  if (const SingleUnitOracle* oracle = checker_.oracle(); oracle != nullptr) {
    result_.i6_compared = oracle->compared();
    result_.i6_not_compared = oracle->not_compared();
  }
  result_.state.messages_lost = network_.lost();
  result_.state.messages_duplicated = network_.duplicated();
  AddNfCounters(*example_, result_);
  for (const std::unique_ptr<UnitShell>& shell : units_) {
    if (shell == nullptr) continue;
    AddCounters(result_.state.units, shell->unit.counters());
    AddNfCounts(*shell->nf, result_);
  }
  result_.state.pulls -= result_.state.units.pulls_repeated;
  AddTotals(controller_, ingress_, provisioning_, result_);
  tables_.Finish(*example_, result_);
  AddNfReports(*example_, result_);
  result_.digest = digest_.value();
  return std::move(result_);
}

void VirtualDriver::RunUntil(Instant time) {
  while (true) {
    const Instant event = events_->next_time();
    const Instant timer = controller_.next_wakeup();
    const Instant tables = tables_.next_time();
    const Instant next = std::min({event, timer, tables});
    // Times saturate: an event may be due at the last instant, a timer never.
    if (next > time || (events_->empty() && timer == Instant::max() &&
                        tables == Instant::max())) {
      return;
    }
    // At the end packets that nothing is under way to move, or nothing but
    // repetitions that change nothing, would wait for ever, and their units
    // with them. The checker says which. The controller answers by itself those
    // that wait for pieces.
    if (time == Instant::max() && in_channels_ > 0 &&
        ((events_->empty() && waiting_ == 0) ||
         next - std::max(last_drain_, result_.last_packet) > kPatience)) {
      return;
    }
    now_ = std::max(now_, next);
    ++events_handled_;
    if (!events_->empty() && event == next) {
      Handle(events_->Pop());
    } else if (tables == next && timer > tables) {
      tables_.RunNext(now_);
      for (const UnitId unit : tables_.TakeGone()) SendStopped(unit);
    } else {
      controller_out_.clear();
      controller_.on_timers(now_, controller_out_);
      ExecuteAll();
    }
  }
}

void VirtualDriver::ExecuteAll() {
  for (const ControllerCommand& command : controller_out_.commands()) {
    Execute(command);
  }
}

void VirtualDriver::Execute(const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  const Instant after_hop = now_ + options_.hop_delay;
  switch (command.kind) {
    case Kind::kReplicas:
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kReplicasAtUnit,
                                       .unit = command.unit,
                                       .replicas = command.replicas});
      break;
    case Kind::kEnqueue:
      ++in_channels_;
      observers_.on_enqueue(now_, command.unit, command.meta);
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kPacketAtUnit,
                                       .unit = command.unit,
                                       .packet = command.packet,
                                       .meta = command.meta});
      break;
    case Kind::kDrop:
      Drop(command.packet,
           {.latency = now_ - buffers_.info(command.packet).arrival},
           command.reason);
      buffers_.Free(command.packet);
      break;
    case Kind::kStartUnit:
      observers_.on_unit_up(now_, command.unit);
      events_->Push(now_ + (command.warm ? options_.warm_start_delay
                                         : options_.unit_start_delay),
                    {.kind = Event::Kind::kUnitReady,
                     .cold = !command.warm,
                     .unit = command.unit,
                     .incarnation = command.incarnation});
      break;
    case Kind::kParkUnit:
      observers_.on_unit_down(now_, command.unit);
      Shell(command.unit).ready = false;
      break;
    case Kind::kStopUnit:
      events_->PushInOrder(
          after_hop, Event::OfUnit(Event::Kind::kStopAtUnit, command.unit));
      break;
    case Kind::kEndFlow:
      observers_.on_end_flow(now_, command.unit, command.end);
      ingress_.ForgetAlias(command.end.flow, command.end.last);
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kEndFlowAtUnit,
                                       .unit = command.unit,
                                       .end = command.end});
      break;
    case Kind::kAliasAck:
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kAliasAckAtUnit,
                                       .unit = command.unit,
                                       .alias_ack = command.alias_ack});
      break;
    case Kind::kPieces:
      observers_.on_pieces_granted(now_, command.pieces);
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kPiecesAtUnit,
                                       .unit = command.unit,
                                       .pieces = command.pieces});
      break;
    case Kind::kReclaim:
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kReclaimAtUnit,
                                       .unit = command.unit,
                                       .pieces = command.pieces});
      break;
  }
}

void VirtualDriver::Release(const Event& event) {
  ++result_.packets_released;
  PacketRoute route = RouteOf(event.unit, event.meta);
  route.generated = event.generated;
  if (!event.generated) result_.latency_ns.Record(route.latency.ns);
  observers_.on_release(
      ReleasedPacket::Of(now_, buffers_, event.packet, route));
  std::optional<FlowKey> to;
  if (!event.generated) to = ingress_.ComesBack(now_, event.packet);
  if (!to.has_value()) {
    buffers_.Free(event.packet);
    return;
  }
  ++result_.aliases.packets_hairpinned;
  events_->PushInOrder(
      now_ + options_.hop_delay,
      {.kind = Event::Kind::kHairpin, .packet = event.packet, .key = *to});
}

void VirtualDriver::Drop(PacketHandle packet, const PacketRoute& route,
                         DropReason reason) {
  ++result_.dropped[static_cast<size_t>(reason)];
  observers_.on_drop(ReleasedPacket::Of(now_, buffers_, packet, route),
                     ToString(reason));
}

PacketRoute VirtualDriver::RouteOf(UnitId unit, const PacketMeta& meta) const {
  return {.unit = unit,
          .flow = meta.flow,
          .flowlet = meta.flowlet,
          .clock = meta.clock,
          .latency = now_ - meta.arrival};
}

FlowKey VirtualDriver::KeyOf(FlowId flow) const {
  const FlowTable& flows = controller_.flows();
  const uint32_t slot = slot_of(flow);
  const bool is_there = slot < flows.used() &&
                        flows.numbers(slot).generation == generation_of(flow);
  return is_there ? flows.hot(slot).key : FlowKey{};
}

uint64_t VirtualDriver::flows_at_units() const {
  uint64_t sum = 0;
  for (const std::unique_ptr<UnitShell>& shell : units_) {
    if (shell != nullptr) sum += shell->unit.flows() - shell->unit.replicas();
  }
  return sum;
}

uint64_t VirtualDriver::replicas_at_units() const {
  uint64_t sum = 0;
  for (const std::unique_ptr<UnitShell>& shell : units_) {
    if (shell != nullptr) sum += shell->unit.replicas();
  }
  return sum;
}

void VirtualDriver::HandleAtController(const Event& event) {
  controller_out_.clear();
  switch (event.kind) {
    case Event::Kind::kTakeoverAtController:
      controller_.on_takeover(event.takeover);
      return;
    case Event::Kind::kStoppedAtController:
      controller_.on_unit_stopped(event.unit);
      return;
    case Event::Kind::kHairpin:
      on_hairpin(event);
      return;
    case Event::Kind::kAliasAtController:
      on_alias_at_controller();
      break;
    case Event::Kind::kNoteAtController:
      observers_.on_flow_note(event.note);
      if (event.note.over) {
        ingress_.ForgetAlias(event.note.flow, event.note.clock);
      }
      controller_.on_flow_note(now_, event.note, controller_out_);
      break;
    case Event::Kind::kPieceRequestAtController:
      controller_.on_piece_request(now_, event.piece_request, controller_out_);
      break;
    case Event::Kind::kPiecesAtController:
      observers_.on_pieces_returned(now_, event.pieces);
      controller_.on_pieces_returned(now_, event.pieces, controller_out_);
      break;
    default:
      SNF_CHECK(false);
  }
  ExecuteAll();
}

void VirtualDriver::on_alias_at_controller() {
  const Alias alias = aliases_.front();
  aliases_.pop_front();
  controller_.on_alias(alias, controller_out_);
  for (const ControllerCommand& command : controller_out_.commands()) {
    if (command.kind != ControllerCommand::Kind::kAliasAck) continue;
    const AliasResult result = command.alias_ack.result;
    observers_.on_alias(now_, alias, result);
    if (result != AliasResult::kGranted) continue;
    const FlowKey& inside = controller_.flows().hot(slot_of(alias.flow)).key;
    ingress_.on_alias(alias, inside);
  }
}

void VirtualDriver::on_hairpin(const Event& event) {
  PacketInfo& info = buffers_.info(event.packet);
  info.arrival = now_;
  observers_.on_arrival(now_, ingress_.FlowOf(event.key), info.original_length);
  Arrive(event.key, true, event.packet);
}

}  // namespace snf
