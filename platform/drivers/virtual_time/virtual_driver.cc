// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/virtual_driver.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/counters.h"
#include "base/packet/flow_key_text.h"
#include "fmt/format.h"
#include "platform/drivers/virtual_time/log_check.h"
#include "platform/run/figures/run_totals.h"
#include "platform/run/run_setup.h"
#include "runtime/core/state_figures.h"

namespace snf {
namespace {

RunOptions WithEnds(RunOptions options) {
  AwaitEnds(options.loggers, options.faults.any_controller(),
            options.controller);
  return options;
}

}  // namespace

VirtualDriver::VirtualDriver(const RunOptions& options,
                             const PlacementPolicy& policy, const NfSpec& nf,
                             Observers observers, UnitSharing* sharing)
    : options_(WithEnds(options)),
      policy_(policy),
      example_(nf.create()),
      sharing_(sharing),
      own_buffers_(sharing != nullptr
                       ? nullptr
                       : std::make_unique<BufferPool>(options.buffers)),
      buffers_(sharing != nullptr ? sharing->buffers() : *own_buffers_),
      own_ingress_(sharing != nullptr ? nullptr
                                      : std::make_unique<Ingress>(
                                            options, *example_, buffers_)),
      ingress_(sharing != nullptr ? sharing->ingress() : *own_ingress_),
      controller_(options_.controller, policy),
      service_(options.controller.unit_capacity_bps,
               options.controller.unit_packets_ps),
      tables_(options, *example_, *this),
      start_rng_(Rng(options.controller.seed).Fork(4)),
      units_(UnitOptionsOf(options, controller_.replicas()), nf, *example_,
             options.controller.max_units, options.faults.any_of_loggers(),
             options.faults.any()),
      observers_(std::move(observers)),
      checker_(
          options.check ? &nf : nullptr,
          [this](FlowId flow) {
            const FlowKey key = KeyOf(flow);
            return key == FlowKey{} ? "" : ToString(key);
          },
          options.nf_logs),
      provisioning_(options.controller),
      result_(EmptyResult(*example_)),
      exits_(buffers_, observers_, provisioning_, result_,
             [](PacketHandle) { SNF_CHECK(false); }),
      network_(options, example_->schema().record_bytes(), units_, observers_),
      loggers_(options, *this, network_, observers_, checker_, exits_,
               result_) {
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
  if (options.faults.any()) {
    SNF_CHECK(options.loggers);
    checker_.ExpectLosses();
    faults_ = std::make_unique<VirtualFaults>(options, controller_, units_,
                                              network_, loggers_, observers_,
                                              exits_, result_.faults);
  }
  if (options.faults.any_controller()) {
    ControllerFaults::Host& host = *this;
    controllers_ = std::make_unique<ControllerFaults>(
        options_, host, controller_, units_, network_, observers_, exits_,
        result_.controller_faults);
    faults_->set_controllers(controllers_.get());
  }
  controller_.set_decision_observer(observers_.decision_observer());
  SNF_CHECK(example_->drop_reasons().size() <= Chain::kMaxReasons);
  SNF_CHECK(!result_.aliases.has_sides ||
            options.flow.kind == FlowKeyKind::kConnection);
  if (sharing_ == nullptr) {
    AddPiecePools(*example_, controller_);
  } else {
    SNF_CHECK(!options.faults.any_of_units() &&
              !options.faults.any_of_loggers());
    sharing_->AddPiecePools(*example_, controller_);
  }
  watchdog_.emplace(
      NfWatchdog::Options{.nf = nf.text(),
                          .patience = options.nf_patience,
                          .marks = {&call_mark_},
                          .describe = [this](PacketHandle packet) {
                            return Describe(buffers_, packet);
                          }});
}

VirtualDriver::~VirtualDriver() { nf_call.names = nullptr; }

void VirtualDriver::on_start(Instant first_packet) {
  result_.first_packet = first_packet;
  observers_.on_start(first_packet);
  if (faults_ != nullptr) faults_->PlanKills(first_packet);
}

void VirtualDriver::Offer(const CapturedPacket& captured) {
  if (result_.packets_in == 0) {
    on_start(captured.time);
  } else if (captured.time < result_.last_packet) {
    ++result_.late_packets;
  }
  const Instant arrival = std::max(captured.time, now());
  AdvanceTo(arrival);
  if (faults_ != nullptr) faults_->on_arrival();
  Take(arrival, captured, ingress_.Take(arrival, captured));
}

void VirtualDriver::Take(Instant arrival, const CapturedPacket& captured,
                         const Ingress::Taken& taken, bool waits) {
  network_.AdvanceTo(arrival);
  ++result_.packets_in;
  result_.bytes_in += captured.original_bytes;
  result_.last_packet = arrival;
  if (taken.fate == Ingress::Taken::Fate::kPassesThrough) {
    exits_.PassThrough(now(), captured);
    return;
  }
  if (taken.flow != nullptr) {
    observers_.on_arrival(arrival, *taken.flow, captured.original_bytes);
  }
  if (taken.fate == Ingress::Taken::Fate::kDropped) {
    exits_.Drop(now(), captured, taken.reason);
    return;
  }
  if (!waits) Arrive(*taken.key, taken.by_alias, taken.packet);
}

void VirtualDriver::Arrive(const FlowKey& key, bool by_alias,
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
  controller_out_.clear();
  SNF_CHECK(controller_.on_packets(now(), {&arrived, 1}, controller_out_) == 1);
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
  if (time < now()) return;
  RunUntil(time);
  network_.AdvanceTo(time);
}

RunResult VirtualDriver::Finish() {
  is_ending_ = true;
  RunUntil(now() + kTimersAfterLastPacket);
  units_.StopTimers();
  RunUntil(Instant::max());
  return TakeResult();
}

RunResult VirtualDriver::TakeResult() {
  observers_.on_end(now());
  exits_.RecordLatency();
  AddFindings();
  result_.state.messages_lost = network_.states().lost();
  result_.state.messages_duplicated = network_.states().duplicated();
  loggers_.AddTotals(result_);
  if (store_.has_value()) store_->AddTotals(result_);
  AddNfCounters(*example_, result_);
  units_.AddTotals(result_);
  result_.state.pulls -= result_.state.units.pulls_repeated;
  AddTotals(controller_, ingress_, provisioning_, result_);
  tables_.Finish(*example_, result_);
  AddNfReports(*example_, result_);
  result_.units_per_host = options_.controller.units_per_host;
  result_.digest = digest_.value();
  result_.digest_up_to_renaming =
      renaming_digest_ != nullptr ? renaming_digest_->value() : result_.digest;
  return std::move(result_);
}

// What the checker has found.
void VirtualDriver::AddFindings() {
  if (options_.loggers && options_.check) {
    result_.faults.records_left = CompareLoggers(
        now(), example_->pools().size(), units_,
        [this](FlowId flow, Clock clock) {
          return KeyOf(flow) == FlowKey{} ||
                 controller_.flows().hot(slot_of(flow)).clock > clock;
        },
        checker_);
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
}

// At the end packets that nothing is under way to move, or nothing but
// repetitions that change nothing, would wait for ever, and their units with
// them. The checker says which. The controller answers by itself those that
// wait for pieces, and makes starts again; others end what is served elsewhere.
bool VirtualDriver::IsStuck(Instant next) const {
  return is_ending_ && in_channels_ > 0 &&
         ((network_.empty() && waiting_ == 0 && sharing_ == nullptr &&
           !HasStoreEvents() && !controller_.is_recovering() &&
           controller_.units().pending_starts() == 0) ||
          next - std::max(last_drain_, result_.last_packet) > kPatience);
}

Instant VirtualDriver::next_time() const {
  const Instant next = std::min(
      {network_.next_time(), controller_.next_wakeup(), tables_.next_time()});
  return IsStuck(next) ? Instant::max() : next;
}

void VirtualDriver::RunUntil(Instant time) {
  nf_call.names = this;
  while (true) {
    const Instant event = network_.next_time();
    const Instant timer = controller_.next_wakeup();
    const Instant tables = tables_.next_time();
    const Instant store =
        store_.has_value() ? store_->next_time() : Instant::max();
    const Instant next = std::min({event, timer, tables, store});
    // Times saturate: an event may be due at the last instant, a timer never.
    if (next > time || (network_.empty() && timer == Instant::max() &&
                        tables == Instant::max() && store == Instant::max())) {
      return;
    }
    if (IsStuck(next)) return;
    network_.AdvanceTo(next);
    ++events_handled_;
    if (timers_at_end_ > kMaxTimersAtEnd) units_.StopTimers();
    if (!network_.empty() && event == next) {
      Handle(network_.Pop());
    } else if (store == next && timer > store) {
      if (const auto answer = store_->RunNext(now()); answer.has_value()) {
        on_store_answer(*answer);
      }
    } else if (tables == next && timer > tables) {
      tables_.RunNext(now());
      SendStoppedOfTables();
    } else {
      controller_out_.clear();
      controller_.on_timers(now(), controller_out_);
      ExecuteAll();
    }
    if (faults_ != nullptr) faults_->NoteRecovery();
  }
}

void VirtualDriver::ExecuteAll() {
  for (const ControllerCommand& command : controller_out_.commands()) {
    Execute(command);
  }
}

void VirtualDriver::Execute(const ControllerCommand& command) {
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
      controllers_->SendName(command.unit,
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
      [[fallthrough]];
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
  network_.AfterHop(Event::Of(command));
}

void VirtualDriver::Enqueue(const ControllerCommand& command) {
  const PacketMeta& meta = command.meta;
  ++in_channels_;
  ++units_.of(command.unit).process.in_channel;
  const bool is_tombstone = (meta.flags & PacketMeta::kTombstone) != 0;
  if (is_tombstone &&
      controller_.aliases().clock(slot_of(meta.flow)) == Clock{}) {
    // It stands for the packet that had set the flow's alias.
    ingress_.ForgetAlias(meta.flow, meta.clock);
  }
  observers_.on_enqueue(now(), command.unit, meta);
}

void VirtualDriver::Start(const ControllerCommand& command) {
  // A new controller may start what the one before had started.
  const bool is_up = units_.of(command.unit).process.is_up;
  if (sharing_ == nullptr && !is_up) {
    observers_.on_unit_up(now(), command.unit);
  }
  if (faults_ != nullptr) faults_->on_start(command);
  if (controllers_ != nullptr) controllers_->on_start(command);
  Event ready = Event::Of(command);
  ready.kind = Event::Kind::kUnitReady;
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

void VirtualDriver::Release(const UnitCommand& command) {
  std::optional<Ingress::Return> to;
  if (command.kind != UnitCommand::Kind::kEmit) {
    to = ingress_.ComesBack(now(), command.packet);
  } else if (exits_.has_records(command.packet)) {
    exits_.ReleaseRecords(command.packet);
    return;
  }
  exits_.Release(now(), command, to.has_value());
  if (!to.has_value()) return;
  ++result_.aliases.packets_hairpinned;
  network_.AfterHop({.kind = Event::Kind::kHairpin,
                     .hairpin = {to->key, command.packet, to->by_alias}});
}

FlowKey VirtualDriver::KeyOf(FlowId flow) const {
  const FlowTable& flows = controller_.flows();
  const uint32_t slot = slot_of(flow);
  const bool is_there = slot < flows.used() &&
                        flows.numbers(slot).generation == generation_of(flow);
  return is_there ? flows.hot(slot).key : FlowKey{};
}

void VirtualDriver::HandleAtController(const Event& event) {
  if (faults_ != nullptr && event.is_from_unit() && faults_->IsRefused(event)) {
    if (event.Says(UnitCommand::Kind::kSendAlias)) aliases_.pop_front();
    return;
  }
  switch (event.kind) {
    case Event::Kind::kHairpin:
      on_hairpin(event.hairpin);
      break;
    case Event::Kind::kKill:
      faults_->on_kill(event.number);
      break;
    case Event::Kind::kFailureAtController:
      on_failure(event.unit);
      break;
    default:
      Deliver(event.command, event.kind == Event::Kind::kFromLogger);
      break;
  }
}

// Delivers a command of a unit, or of a logger, to the controller.
void VirtualDriver::Deliver(const UnitCommand& command, bool of_logger) {
  using Kind = UnitCommand::Kind;
  controller_out_.clear();
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
      controller_.on_flow_note(now(), command.note, controller_out_);
      break;
    case Kind::kSendTimerDue:
      // If the timers are held, the unit asks again.
      if (moves_.holds_timers(command.timer_due.flow)) return;
      controller_.on_timer_due(now(), command.timer_due, controller_out_);
      break;
    case Kind::kRequestPieces:
      if (sharing_ != nullptr &&
          controller_.lacks_pieces(command.request.pool)) {
        sharing_->on_lack(command.request);
        return;
      }
      controller_.on_piece_request(now(), command.request, controller_out_);
      break;
    case Kind::kReturnPieces:
      observers_.on_pieces_returned(now(), command.pieces);
      if (sharing_ != nullptr && command.pieces.mask != 0 &&
          sharing_->on_returned(command.pieces)) {
        return;
      }
      if (controllers_ != nullptr) controllers_->on_returned(command.pieces);
      controller_.on_pieces_returned(now(), command.pieces, controller_out_);
      break;
    case Kind::kSendDone:
      if (of_logger) {
        controller_.on_sealed(now(), command.done, controller_out_);
      } else {
        controller_.on_done(now(), command.done, controller_out_);
      }
      break;
    case Kind::kSendEnded:
      controller_.on_ended(command.ended.flow);
      return;
    case Kind::kSendGrants:
      observers_.on_grants_sealed(now(), command.unit, command.grants);
      if (controllers_ != nullptr) {
        controllers_->on_grants_sealed(command.unit, command.grants);
      }
      controller_.on_grants_sealed(now(), command.unit, command.grants,
                                   controller_out_);
      break;
    default:
      SNF_CHECK(false);
  }
  ExecuteAll();
}

// The controller learns that a unit's process is gone.
void VirtualDriver::on_failure(UnitId unit) {
  NoteFailure(unit);
  controller_out_.clear();
  SNF_CHECK(controller_.on_unit_failed(
      now(), unit, controller_.units().incarnation(unit), controller_out_));
  ExecuteAll();
}

void VirtualDriver::on_alias() {
  const Alias alias = aliases_.front();
  aliases_.pop_front();
  const AliasResult result = controller_.on_alias(alias, controller_out_);
  observers_.on_alias(now(), alias, result);
  if (result != AliasResult::kGranted) return;
  if (sharing_ != nullptr) sharing_->on_alias(alias.key);
  const FlowKey& inside = controller_.flows().hot(slot_of(alias.flow)).key;
  ingress_.on_alias(alias, inside);
  if (renaming_digest_ != nullptr) {
    renaming_digest_->on_granted(alias.key, inside);
  }
}

void VirtualDriver::on_hairpin(const Event::Hairpin& hairpin) {
  if (sharing_ != nullptr) {
    sharing_->on_hairpin(hairpin.to, hairpin.by_alias, hairpin.packet);
  } else {
    TakeBack(now(), hairpin.to, hairpin.by_alias, hairpin.packet);
  }
}

void VirtualDriver::TakeBack(Instant time, const FlowKey& to, bool by_alias,
                             PacketHandle packet, bool waits) {
  network_.AdvanceTo(time);
  PacketInfo& info = buffers_.info(packet);
  info.arrival = now();
  observers_.on_arrival(now(), ingress_.FlowOf(to), info.original_length);
  if (!waits) Arrive(to, by_alias, packet);
}

bool VirtualDriver::Lease(Instant time, UnitId unit, uint32_t share) {
  network_.AdvanceTo(time);
  controller_out_.clear();
  const bool is_leased =
      controller_.on_lease(now(), unit, share, controller_out_);
  ExecuteAll();
  return is_leased;
}

bool VirtualDriver::Revoke(Instant time, UnitId unit, bool at_once) {
  network_.AdvanceTo(time);
  controller_out_.clear();
  const bool is_revoked =
      controller_.on_revoke(now(), unit, at_once, controller_out_);
  ExecuteAll();
  return is_revoked;
}

}  // namespace snf
