// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/virtual_driver.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/packet/flow_key_text.h"
#include "platform/drivers/virtual_time/log_check.h"
#include "platform/run/figures/run_totals.h"
#include "platform/run/flow_keys.h"
#include "platform/run/run_setup.h"

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
      units_(UnitOptionsOf(options, controller_.replicas()), nf, *example_,
             options.controller.max_units, options.faults.any_of_loggers(),
             options.faults.any()),
      observers_(std::move(observers)),
      checker_(
          options.check ? &nf : nullptr,
          [this](FlowId flow) {
            const FlowKey key = FlowOf(flow);
            return key == FlowKey{} ? "" : ToString(key);
          },
          options.nf_logs),
      provisioning_(options.controller),
      result_(EmptyResult(*example_)),
      digests_(result_.aliases.has_sides, options.flow.fragments),
      exits_(buffers_, observers_, provisioning_, result_,
             [](PacketHandle) { SNF_CHECK(false); }),
      network_(options, example_->schema().record_bytes(), units_, observers_),
      controller_runner_(options_, policy, *example_, sharing, controller_,
                         buffers_, ingress_, units_, network_, channels_,
                         arriving_, observers_, digests_, exits_,
                         result_.aliases),
      unit_runner_(options_, *example_, sharing, controller_, buffers_, units_,
                   network_, channels_, arriving_, observers_, checker_, exits_,
                   result_),
      moves_(controller_, controller_runner_, unit_runner_, units_, network_,
             arriving_, ingress_, observers_, digests_, checker_) {
  observers_.Add(provisioning_);
  digests_.AddTo(observers_);
  if (options.check) observers_.Add(checker_);
  if (options.loggers) checker_.ExpectLoggers();
  if (options.faults.any()) {
    SNF_CHECK(options.loggers);
    checker_.ExpectLosses();
    faults_ = std::make_unique<VirtualFaults>(
        options, controller_, units_, network_, unit_runner_.loggers(),
        observers_, exits_, result_.faults);
  }
  if (options.faults.any_controller()) {
    ControllerFaults::Driver& driver = *this;
    controllers_ = std::make_unique<ControllerFaults>(
        options_, controller_runner_, driver, controller_, units_, network_,
        observers_, exits_, result_.controller_faults);
    faults_->set_controllers(controllers_.get());
  }
  controller_runner_.set_faults(faults_.get(), controllers_.get(),
                                &unit_runner_.tables());
  unit_runner_.set_faults(faults_.get(), controllers_.get());
  controller_.set_decision_observer(observers_.decision_observer());
  SNF_CHECK(example_->drop_reasons().size() <= Chain::kMaxReasons);
  SNF_CHECK(!result_.aliases.has_sides ||
            options.flow.kind == FlowKeyKind::kConnection);
  SNF_CHECK(sharing_ == nullptr || (!options.faults.any_of_units() &&
                                    !options.faults.any_of_loggers()));
  controller_runner_.AddPools();
  if (own_ingress_ != nullptr) own_ingress_->KeepEarlyFragments();
  watchdog_.emplace(
      NfWatchdog::Options{.nf = nf.text(),
                          .patience = options.nf_patience,
                          .marks = {&unit_runner_.call_mark()},
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
  if (!std::exchange(has_started_, true)) {
    on_start(captured.time);
  } else if (captured.time < result_.last_packet) {
    ++result_.late_packets;
  }
  const Instant arrival = std::max(captured.time, now());
  AdvanceTo(arrival);
  if (faults_ != nullptr) faults_->on_arrival();
  Take(arrival, captured, ingress_.Take(arrival, captured));
  TakeKept(arrival, arrival);
}

void VirtualDriver::TakeKept(Instant arrival, Instant until) {
  while (const CapturedPacket* const kept = ingress_.NextKept(until)) {
    Take(arrival, *kept, ingress_.Take(arrival, *kept));
  }
}

void VirtualDriver::Take(Instant arrival, const CapturedPacket& captured,
                         const Ingress::Taken& taken, bool waits) {
  network_.AdvanceTo(arrival);
  if (taken.fate == Ingress::Taken::Fate::kKept) return;
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
  if (waits) return;
  controller_runner_.Arrive(*taken.key, taken.by_alias, taken.packet);
}

void VirtualDriver::AdvanceTo(Instant time) {
  if (time < now()) return;
  RunUntil(time);
  network_.AdvanceTo(time);
}

void VirtualDriver::BeginEnd(Instant time) {
  is_ending_ = true;
  unit_runner_.BeginEnd();
  channels_.BeginEnd(time);
}

RunResult VirtualDriver::Finish() {
  TakeKept(now(), Instant::max());
  BeginEnd(Instant::min());
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
  unit_runner_.AddTotals(result_);
  AddNfCounters(*example_, result_);
  units_.AddTotals(result_);
  result_.state.pulls -= result_.state.units.pulls_repeated;
  AddTotals(controller_, ingress_, provisioning_, result_);
  unit_runner_.tables().Finish(*example_, result_);
  AddNfReports(*example_, result_);
  result_.units_per_host = options_.controller.units_per_host;
  result_.digest = digests_.exact();
  result_.digest_up_to_renaming = digests_.up_to_renaming();
  return std::move(result_);
}

// What the checker has found.
void VirtualDriver::AddFindings() {
  if (options_.loggers && options_.check) {
    result_.faults.records_left = CompareLoggers(
        now(), example_->pools().size(), units_,
        [this](FlowId flow, Clock clock) {
          return FlowOf(flow) == FlowKey{} ||
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
  return is_ending_ && channels_.slots() > 0 &&
         ((network_.empty() && channels_.waiting() == 0 &&
           sharing_ == nullptr &&
           unit_runner_.next_store_time() == Instant::max() &&
           !controller_.is_recovering() &&
           controller_.units().pending_starts() == 0) ||
          next - std::max(channels_.last_drain(), result_.last_packet) >
              kPatience);
}

Instant VirtualDriver::next_time() const {
  const Instant next =
      std::min({network_.next_time(), controller_.next_wakeup(),
                unit_runner_.next_table_time()});
  return IsStuck(next) ? Instant::max() : next;
}

void VirtualDriver::RunUntil(Instant time) {
  nf_call.names = this;
  while (true) {
    const Instant event = network_.next_time();
    const Instant timer = controller_.next_wakeup();
    const Instant tables = unit_runner_.next_table_time();
    const Instant store = unit_runner_.next_store_time();
    const Instant next = std::min({event, timer, tables, store});
    // Times saturate: an event may be due at the last instant, a timer never.
    if (next > time || (network_.empty() && timer == Instant::max() &&
                        tables == Instant::max() && store == Instant::max())) {
      return;
    }
    if (IsStuck(next)) return;
    network_.AdvanceTo(next);
    ++events_handled_;
    if (unit_runner_.timers_at_end() > kMaxTimersAtEnd) units_.StopTimers();
    if (!network_.empty() && event == next) {
      Handle(network_.Pop());
    } else if (store == next && timer > store) {
      unit_runner_.RunStore();
    } else if (tables == next && timer > tables) {
      unit_runner_.RunTables();
    } else {
      controller_runner_.on_timers();
    }
    if (faults_ != nullptr) faults_->NoteRecovery();
  }
}

void VirtualDriver::Handle(const Event& event) {
  if (controllers_ != nullptr && controllers_->Take(event)) return;
  if (event.kind == Event::Kind::kRelease) {
    Release(event.command);
  } else if (event.is_at_controller()) {
    HandleAtController(event);
  } else {
    unit_runner_.Handle(event);
  }
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

FlowKey VirtualDriver::FlowOf(FlowId flow) const {
  return KeyOf(controller_.flows(), flow);
}

void VirtualDriver::HandleAtController(const Event& event) {
  if (faults_ != nullptr && event.is_from_unit() && faults_->IsRefused(event)) {
    if (event.Says(UnitCommand::Kind::kSendAlias)) network_.TakeAlias();
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
      controller_runner_.on_failure(event.unit);
      break;
    default:
      controller_runner_.Deliver(event.command,
                                 event.kind == Event::Kind::kFromLogger);
      break;
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
  if (!waits) controller_runner_.Arrive(to, by_alias, packet);
}

// --- One of several that share units. ---

bool VirtualDriver::Lease(Instant time, UnitId unit, uint32_t share) {
  network_.AdvanceTo(time);
  bool is_leased = false;
  controller_runner_.Call([&](ControllerOut& out) {
    is_leased = controller_.on_lease(now(), unit, share, out);
  });
  return is_leased;
}

bool VirtualDriver::Revoke(Instant time, UnitId unit, bool at_once) {
  network_.AdvanceTo(time);
  bool is_revoked = false;
  controller_runner_.Call([&](ControllerOut& out) {
    is_revoked = controller_.on_revoke(now(), unit, at_once, out);
  });
  return is_revoked;
}

bool VirtualDriver::is_controller_up() const {
  return controllers_ == nullptr || controllers_->is_up();
}

void VirtualDriver::KillController(Instant time) {
  network_.AdvanceTo(time);
  controllers_->Kill();
}

void VirtualDriver::AddPieces(Instant time, const PieceBlock& pieces,
                              bool were_out) {
  network_.AdvanceTo(time);
  if (were_out) NoteTold(pieces);
  checker_.on_pieces_came(pieces);
  controller_runner_.Call([&](ControllerOut& out) {
    controller_.AddPieces(now(), pieces, were_out, out);
  });
}

void VirtualDriver::AskForPieces(Instant time, const PieceRequest& request) {
  network_.AdvanceTo(time);
  controller_runner_.Call([&](ControllerOut& out) {
    controller_.on_piece_request(now(), request, out);
  });
}

void VirtualDriver::InheritPieces(Instant time, const PieceBlock& free,
                                  const PieceBlock& out) {
  AddPieces(time, free, false);
  if (out.mask != 0) NoteTold(out);
}

// A successor hears of the pieces from a unit's report. The controller's own
// units do not return the pieces, so any unit's report will do.
void VirtualDriver::NoteTold(PieceBlock pieces) {
  if (controllers_ == nullptr) return;
  pieces.unit = UnitId{0};
  controllers_->kept().on_returned(pieces);
}

void VirtualDriver::TakeWaiting(Instant time, const FlowKey& key, bool by_alias,
                                PacketHandle packet) {
  network_.AdvanceTo(time);
  controller_runner_.Arrive(key, by_alias, packet);
}

}  // namespace snf
