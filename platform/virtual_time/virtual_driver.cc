// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/virtual_driver.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/counters.h"
#include "base/packet/flow_key_text.h"
#include "fmt/format.h"
#include "platform/run/run_setup.h"
#include "platform/run/run_totals.h"
#include "platform/virtual_time/log_channel.h"
#include "platform/virtual_time/log_check.h"
#include "platform/virtual_time/virtual_driver_event.h"
#include "runtime/core/state_figures.h"

namespace snf {

VirtualDriver::VirtualDriver(const RunOptions& options,
                             const PlacementPolicy& policy, const NfSpec& nf,
                             Observers observers)
    : options_(options),
      example_(nf.create()),
      buffers_(options.buffers),
      ingress_(options, HasSides(*example_), buffers_),
      controller_(options.controller, policy),
      service_(options.controller.unit_capacity_bps,
               options.controller.unit_packets_ps),
      network_(options, example_->schema().record_bytes()),
      log_network_(NetworkToLoggers(options)),
      tables_(options, *example_),
      start_rng_(Rng(options.controller.seed).Fork(4)),
      events_(std::make_unique<EventQueue<Event>>()),
      units_(UnitOptionsOf(options, controller_.replicas()), nf, *example_,
             options.controller.max_units),
      observers_(std::move(observers)),
      checker_(options.check ? &nf : nullptr,
               [this](FlowId flow) {
                 const FlowKey key = KeyOf(flow);
                 return key == FlowKey{} ? "" : ToString(key);
               }),
      provisioning_(options.controller),
      result_(EmptyResult(*example_)),
      exits_(buffers_, observers_, result_) {
  if (options.state == StateMode::kExternal) {
    store_.emplace(options, example_->schema().record_bytes());
  }
  observers_.Add(provisioning_);
  observers_.Add(digest_);
  if (result_.aliases.has_sides) {
    renaming_digest_ = std::make_unique<RenamingDigest>(options.flow.fragments);
    observers_.Add(*renaming_digest_);
  }
  if (options.check) observers_.Add(checker_);
  if (options.loggers) checker_.ExpectLoggers();
  controller_.set_decision_observer(observers_.decision_observer());
  SNF_CHECK(example_->drop_reasons().size() <= Chain::kMaxReasons);
  SNF_CHECK(!result_.aliases.has_sides ||
            options.flow.kind == FlowKeyKind::kConnection);
  AddPiecePools(*example_, controller_);
  watchdog_.emplace(
      NfWatchdog::Options{.nf = nf.text(),
                          .patience = options.nf_patience,
                          .marks = {&call_mark_},
                          .describe = [this](PacketHandle packet) {
                            return Describe(buffers_, packet);
                          }});
}

VirtualDriver::~VirtualDriver() { nf_call.names = nullptr; }

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
    exits_.PassThrough(now_, captured);
    return;
  }
  observers_.on_arrival(arrival, *taken.flow, captured.original_bytes);
  if (taken.fate == Ingress::Taken::Fate::kDropped) {
    exits_.Drop(now_, captured, taken.reason);
    return;
  }
  Arrive(*taken.key, taken.by_alias, taken.packet);
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
  is_ending_ = true;
  RunUntil(now_ + kTimersAfterLastPacket);
  units_.StopTimers();
  RunUntil(Instant::max());
  observers_.on_end(now_);
  if (options_.loggers && options_.check) {
    CompareLoggers(now_, example_->pools().size(), units_, checker_);
  }
  result_.violations = checker_.violations();
  result_.violation_messages = checker_.messages();
  if (const SingleUnitOracle* oracle = checker_.oracle(); oracle != nullptr) {
    result_.i6_compared = oracle->compared();
    using Cause = SingleUnitOracle::Cause;
    result_.i6_not_compared = oracle->not_compared();
    result_.i6_after_table_read = oracle->not_compared(Cause::kTableRead);
    result_.i6_after_difference = oracle->not_compared(Cause::kDifference);
  }
  result_.state.messages_lost = network_.lost();
  result_.state.messages_duplicated = network_.duplicated();
  result_.loggers.messages_lost = log_network_.lost();
  result_.loggers.messages_duplicated = log_network_.duplicated();
  if (store_.has_value()) store_->AddTotals(result_);
  AddNfCounters(*example_, result_);
  units_.AddTotals(result_);
  result_.state.pulls -= result_.state.units.pulls_repeated;
  AddTotals(controller_, ingress_, provisioning_, result_);
  tables_.Finish(*example_, result_);
  AddNfReports(*example_, result_);
  result_.digest = digest_.value();
  result_.digest_up_to_renaming =
      renaming_digest_ != nullptr ? renaming_digest_->value() : result_.digest;
  return std::move(result_);
}

void VirtualDriver::RunUntil(Instant time) {
  nf_call.names = this;
  while (true) {
    const Instant event = events_->next_time();
    const Instant timer = controller_.next_wakeup();
    const Instant tables = tables_.next_time();
    const Instant store =
        store_.has_value() ? store_->next_time() : Instant::max();
    const Instant next = std::min({event, timer, tables, store});
    // Times saturate: an event may be due at the last instant, a timer never.
    if (next > time || (events_->empty() && timer == Instant::max() &&
                        tables == Instant::max() && store == Instant::max())) {
      return;
    }
    // At the end packets that nothing is under way to move, or nothing but
    // repetitions that change nothing, would wait for ever, and their units
    // with them. The checker says which. The controller answers by itself those
    // that wait for pieces, and makes starts again.
    if (is_ending_ && in_channels_ > 0 &&
        ((events_->empty() && store == Instant::max() && waiting_ == 0 &&
          controller_.units().pending_starts() == 0) ||
         next - std::max(last_drain_, result_.last_packet) > kPatience)) {
      return;
    }
    now_ = std::max(now_, next);
    ++events_handled_;
    if (timers_at_end_ > kMaxTimersAtEnd) units_.StopTimers();
    if (!events_->empty() && event == next) {
      Handle(events_->Pop());
    } else if (store == next && timer > store) {
      if (const auto answer = store_->RunNext(now_); answer.has_value()) {
        on_store_answer(*answer);
      }
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
      exits_.Drop(now_, command.packet, command.reason);
      break;
    case Kind::kStartUnit:
      observers_.on_unit_up(now_, command.unit);
      // A start that fails is heard of no more.
      if (start_rng_.Chance(options_.chaos.start_failure_65536)) break;
      events_->Push(now_ + (command.warm ? options_.warm_start_delay
                                         : options_.unit_start_delay),
                    {.kind = Event::Kind::kUnitReady,
                     .cold = !command.warm,
                     .unit = command.unit,
                     .incarnation = command.incarnation});
      break;
    case Kind::kParkUnit:
      observers_.on_unit_down(now_, command.unit);
      units_.of(command.unit).ready = false;
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
    case Kind::kSeal:
    case Kind::kDoneQuery:
    case Kind::kRedirect:
      SNF_CHECK(false);  // no unit fails
  }
}

void VirtualDriver::Release(const Event& event) {
  exits_.Release(now_, event.unit, event.meta, event.packet, event.generated);
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

FlowKey VirtualDriver::KeyOf(FlowId flow) const {
  const FlowTable& flows = controller_.flows();
  const uint32_t slot = slot_of(flow);
  const bool is_there = slot < flows.used() &&
                        flows.numbers(slot).generation == generation_of(flow);
  return is_there ? flows.hot(slot).key : FlowKey{};
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
    case Event::Kind::kTimerDueAtController:
      controller_.on_timer_due(now_, event.timer_due, controller_out_);
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
  const AliasResult result = controller_.on_alias(alias, controller_out_);
  observers_.on_alias(now_, alias, result);
  if (result != AliasResult::kGranted) return;
  const FlowKey& inside = controller_.flows().hot(slot_of(alias.flow)).key;
  ingress_.on_alias(alias, inside);
  if (renaming_digest_ != nullptr) {
    renaming_digest_->on_granted(alias.key, inside);
  }
}

void VirtualDriver::on_hairpin(const Event& event) {
  PacketInfo& info = buffers_.info(event.packet);
  info.arrival = now_;
  observers_.on_arrival(now_, ingress_.FlowOf(event.key), info.original_length);
  Arrive(event.key, true, event.packet);
}

// --- At units' loggers. ---

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
        SNF_CHECK(false);  // only a sealed logger says more
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
