// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counters.h"
#include "base/messages/drop_reason.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/drivers/real_time/unit_process.h"
#include "platform/run/figures/run_totals.h"
#include "platform/run/figures/table_totals.h"
#include "platform/run/flow_keys.h"
#include "platform/run/own_keys.h"
#include "platform/run/run_setup.h"
#include "runtime/core/state_figures.h"

namespace snf {
namespace {

// The shortest time between two notices about flows that lost their state.
constexpr Nanos kBetweenNotices = Seconds(10);

absl::Status NoneMayDie() {
  return absl::FailedPreconditionError(
      "only processes with loggers can be killed: use --isolation=process or "
      "lxc, and --loggers=on");
}

}  // namespace

void RealDriver::Begin(Instant now) {
  has_begun_ = true;
  if (!is_heir_) clock_.Start(now);
  SetClocks();
  look_.Begin(loop_.ReadClock());
  // Of several controllers, each counts from the first packet of all.
  if (controller_faults_.has_value() && first_packet_.has_value()) {
    controller_faults_->on_start(*first_packet_);
  }
}

// Makes the controller of what the units of a process had that was killed.
absl::Status RealDriver::TakeOver() {
  const Instant begin = RealClock::Monotonic();
  egress_.on_start(loop_.ReadClock());
  loop_.Succeed();
  while (!loop_.is_led() && !has_failed() &&
         RealClock::Monotonic() - begin < UnitProcesses::kPatience) {
    if (!Turn()) std::this_thread::yield();
  }
  if (!loop_.is_led()) {
    return absl::UnavailableError(
        "units did not report the state of the previous process: " +
        (has_failed() ? WhyFailed() : std::string("timeout")));
  }
  inherited_flows_ = controller().flows().size();
  if (real_.notice != nullptr) {
    real_.notice(
        fmt::format("took over {} flows and {} packets in units from the "
                    "killed process, after {}",
                    *inherited_flows_, result_.packets_inherited,
                    FormatDuration(RealClock::Monotonic() - begin)));
  }
  return absl::OkStatus();
}

// Processes of units read clocks of their own.
void RealDriver::SetClocks() {
  for (const LoopRegion::Loop& loop : loops_) loop.clock->Follow(clock_);
}

bool RealDriver::Poll() {
  loop_.HandleBatch(egress_);
  return Turn();
}

bool RealDriver::Tune(const ControllerOptions& options) {
  return loop_.controller().Tune(loop_.ReadClock(), options);
}

absl::StatusOr<RealFaults::Killed> RealDriver::KillUnit(UnitId unit) {
  if (!unit_faults_.has_value()) return NoneMayDie();
  return unit_faults_->KillUnit(unit);
}

std::string_view RealDriver::HostOf(UnitId unit) const {
  if (hosted_units_.has_value()) return hosted_units_->HostOf(unit);
  const auto loops = static_cast<uint32_t>(loops_.size());
  const HostPlace* const host = real_.hosts.Of(
      value(unit) % loops, PlacedLoops(loops, options_.controller.max_units));
  return host == nullptr ? "" : host->name.data();
}

void RealDriver::AddHosts(LiveFigures& figures) const {
  if (hosted_units_.has_value()) {
    hosted_units_->AddTo(figures);
  } else {
    for (const HostPlace& host : real_.hosts.hosts()) {
      figures.hosts.push_back({.name = host.name.data(),
                               .address = host.address.data(),
                               .state = "joined",
                               .units = host.processes});
    }
  }
  if (figures.hosts.empty()) return;
  for (LiveFigures::Unit& unit : figures.units) unit.host = HostOf(unit.id);
}

absl::StatusOr<RealFaults::Killed> RealDriver::KillLoggers() {
  if (!unit_faults_.has_value()) return NoneMayDie();
  return unit_faults_->KillLoggers();
}

Nanos RealDriver::MayWait(Nanos most) const {
  if (loop_.in_channels() > 0) return Nanos{};
  if (!loop_.is_led()) return Nanos{};
  const Instant due = loop_.NextDue();
  const Instant now = clock_.Now();
  most = std::min(most, LongestWait());
  return due - now < most ? std::max(due - now, Nanos{}) : most;
}

void RealDriver::AwaitUnits(Nanos most,
                            absl::FunctionRef<bool()> is_other_work) {
  if (has_threads() && loop_.is_led()) {
    loop_.AwaitUnits(most, is_other_work);
  } else {
    std::this_thread::yield();
  }
}

void RealDriver::Offer(const CapturedPacket& captured) {
  if (result_.packets_in == 0) {
    if (!has_begun_) Begin(captured.time);
    result_.first_packet = first_packet_.value_or(captured.time);
    if (!is_heir_) egress_.on_start(result_.first_packet);
    const Instant began = loop_.ReadClock();
    look_.set_began(began);
    if (unit_faults_.has_value()) unit_faults_->on_start(began);
    if (controller_faults_.has_value() && !first_packet_.has_value()) {
      controller_faults_->on_start(began);
    }
  } else if (captured.time < last_captured_) {
    ++result_.late_packets;
  }
  if (unit_faults_.has_value()) unit_faults_->on_arrival();
  if (controller_faults_.has_value()) controller_faults_->on_arrival();
  last_captured_ = std::max(last_captured_, captured.time);
  Instant arrival = loop_.now();
  if (pace_.has_schedule()) {
    arrival = pace_.Due(captured.time, captured.original_bytes);
    if (arrival > loop_.now()) loop_.ReadClock();
    if (arrival > loop_.now()) WaitUntil(arrival);
    if (arrival > loop_.now()) arrival = loop_.now();  // interrupted
    result_.real.schedule_error_ns.Record((loop_.now() - arrival).ns);
  }
  if (real_.wait_for_room) {
    WaitForRoom(captured);
    if (!pace_.has_schedule()) arrival = loop_.now();
  }
  ++result_.packets_in;
  result_.bytes_in += captured.original_bytes;
  result_.last_packet = arrival;
  if (has_failed()) [[unlikely]] {
    egress_.Drop(loop_.now(), captured, WhyDropped());
    return;
  }
  Take(arrival, captured);
  const bool is_full = loop_.batch_size() >= ControllerLoop::kBatch;
  if (!is_full && loop_.is_led()) return;
  loop_.HandleBatch(egress_);
  Turn();
}

void RealDriver::WaitUntil(Instant due) {
  loop_.HandleBatch(egress_);
  while (true) {
    const bool did = Turn();
    const Nanos left = due - loop_.now();
    if (left.ns <= 0 || is_interrupted()) return;
    // A signal does not end the wait, so it is cut into short ones.
    if (!did) loop_.IdleWait(std::min(left, LongestWait()));
  }
}

Nanos RealDriver::LongestWait() const {
  Nanos most = Milliseconds(100);
  if (unit_faults_.has_value()) most = std::min(unit_faults_->MayWait(), most);
  if (controller_faults_.has_value()) {
    most = std::min(controller_faults_->MayWait(), most);
  }
  if (unit_starts_.has_value()) most = std::min(unit_starts_->MayWait(), most);
  return most;
}

void RealDriver::WaitForRoom(const CapturedPacket& captured) {
  const auto& sizes = BufferPool::kBufferBytes;
  const size_t length = captured.bytes.size();
  const size_t buffer = length <= sizes[0] ? 0 : length <= sizes[1] ? 1 : 2;
  // What survives a unit is nowhere until recovery has a place for it.
  const auto is_full = [&] {
    return controller().is_recovering() ||
           loop_.in_channels() + loop_.batch_size() >= most_under_way_[buffer];
  };
  if (!is_full()) return;
  loop_.HandleBatch(egress_);
  const Instant begin = clock_.Now();
  while (is_full() && loop_.now() - begin < patience_ && !is_interrupted()) {
    if (!Turn()) loop_.IdleWait(Nanos{});
  }
}

void RealDriver::Take(Instant arrival, const CapturedPacket& captured) {
  using Fate = Ingress::Taken::Fate;
  // It becomes what TakeAgain returns.
  const Ingress::Taken& taken = ingress_.Take(arrival, captured);
  if (taken.fate == Fate::kPassesThrough) {
    egress_.PassThrough(loop_.now(), captured);
    return;
  }
  if (taken.fate == Fate::kDropped && real_.wait_for_room &&
      WaitForCause(taken)) {
    // A unit may have failed meanwhile, and what it had fill another.
    WaitForRoom(captured);
    ingress_.TakeAgain(arrival, captured);
  }
  egress_.on_offered(loop_.now(), captured.original_bytes);
  if (taken.fate == Fate::kPacket && unit_faults_.has_value() &&
      unit_faults_->has_blocked() &&
      unit_faults_->IsBlocked(taken.flow != nullptr ? *taken.flow : *taken.key))
      [[unlikely]] {
    egress_.on_drop(loop_.now(), taken.packet, DropReason::kNfFailed);
    return;
  }
  if (taken.fate == Fate::kDropped) {
    egress_.Drop(loop_.now(), captured, taken.reason);
    return;
  }
  loop_.Arrive(*taken.key, arrival, captured.original_bytes, taken.packet,
               taken.by_alias);
}

// A packet was dropped for what packets under way may change: for want of a
// buffer, or of an alias that its flow may be about to get. Waits until they
// are through; returns false if there are none.
bool RealDriver::WaitForCause(const Ingress::Taken& taken) {
  const bool wants_alias = taken.reason == DropReason::kNotTranslated;
  if (!wants_alias && taken.reason != DropReason::kBufferPoolEmpty)
    return false;
  loop_.HandleBatch(egress_);
  // A controller that is made anew knows flows again once it is.
  while (!loop_.is_led() && !is_interrupted()) Turn();
  uint32_t slot = FlowTable::kNone;
  if (wants_alias) {
    const FlowTable& flows = controller().flows();
    slot = flows.Find(*taken.flow, flows.HashOf(*taken.flow));
    if (slot == FlowTable::kNone) return false;
  }
  const auto under_way = [&] {
    const uint64_t survive = controller().is_recovering() ? 1 : 0;
    return survive +
           (wants_alias ? loop_.under_way(slot) : loop_.in_channels());
  };
  uint64_t left = under_way();
  if (left == 0) return false;
  Instant last_move = clock_.Now();  // the loop's time may be long ago
  while (left > 0 && loop_.now() - last_move < patience_ && !is_interrupted()) {
    if (!Turn()) loop_.IdleWait(Nanos{});
    const uint64_t before = std::exchange(left, under_way());
    if (left != before) last_move = loop_.now();
  }
  return true;
}

void RealDriver::BecomeOlder() {
  look_.Stop();
  looker_.emplace(options_.flow);
  older_since_ = clock_.Now();
}

bool RealDriver::MayHaveAskedFor(const CapturedPacket& captured) {
  const OwnKeys own_keys(*example_);
  if (!own_keys.any()) return false;
  if (!looker_.has_value()) looker_.emplace(options_.flow);
  ParsedPacket headers;
  FlowKey key;
  const Direction direction = looker_->Classify(captured.time, captured.link,
                                                captured.bytes, headers, key);
  return direction != Direction::kNone &&
         own_keys.IsAnswer(captured.bytes, headers, direction, key);
}

bool RealDriver::Knows(const CapturedPacket& captured) {
  if (!looker_.has_value()) looker_.emplace(options_.flow);
  ParsedPacket headers;
  FlowKey key;
  const Direction direction = looker_->Classify(captured.time, captured.link,
                                                captured.bytes, headers, key);
  if (direction == Direction::kNone) return false;
  if (key.form == FlowKeyForm::kIpv4Fragment ||
      key.form == FlowKeyForm::kIpv6Fragment) {
    return older_since_ != Instant::min() &&
           captured.time - older_since_ < kLateFragments;
  }
  const FlowTable& flows = controller().flows();
  if (HasSides(*example_)) {
    if (!HasEnds(key)) return false;
    const Endpoints ends = EndpointsOf(key, direction);
    if (captured.side == Side::kOutside) {
      const std::optional<FlowKey> inside =
          OwnKeys(*example_).InsideOf(captured.bytes, headers, direction, key);
      if (inside.has_value()) {
        return flows.Find(*inside, flows.HashOf(*inside)) != FlowTable::kNone;
      }
      return controller().aliases().Find(ends.to, flows.HashOf(ends.to)) !=
             AliasTable::kNone;
    }
    key = ends.from;
  }
  if (const OwnKeys own_keys(*example_); own_keys.any()) {
    own_keys.Apply(captured.bytes, headers, direction, key);
  }
  return flows.Find(key, flows.HashOf(key)) != FlowTable::kNone;
}

std::vector<uint64_t> RealDriver::FreePieces(size_t pool) const {
  std::vector<uint64_t> words(pools()[pool].words());
  for (uint32_t word = 0; word < words.size(); ++word) {
    words[word] = controller().free_pieces(static_cast<uint16_t>(pool), word);
  }
  return words;
}

std::vector<uint64_t> RealDriver::AllPieces(size_t pool) const {
  constexpr uint32_t kWord = 64;
  std::vector<uint64_t> words(pools()[pool].words());
  const auto part = PartOf(pools()[pool], options_.controller.controller_id,
                           real_.controllers);
  for (uint32_t i = part->first; i <= part->last; ++i) {
    words[i / kWord] |= uint64_t{1} << i % kWord;
  }
  return words;
}

void RealDriver::RemovePieces(size_t pool, std::span<const uint64_t> words) {
  for (uint32_t word = 0; word < words.size(); ++word) {
    if (words[word] == 0) continue;
    loop_.controller().RemovePieces({.word = word,
                                     .pool = static_cast<uint16_t>(pool),
                                     .mask = words[word]});
  }
}

void RealDriver::AddPieces(size_t pool, std::span<const uint64_t> words) {
  for (uint32_t word = 0; word < words.size(); ++word) {
    if (words[word] == 0) continue;
    loop_.AddPieces({.word = word,
                     .pool = static_cast<uint16_t>(pool),
                     .mask = words[word]},
                    egress_);
  }
}

bool RealDriver::Turn() {
  bool did = false;
  if (unit_threads_.has_value() && unit_threads_->Turn()) did = true;
  if (loop_.Turn(egress_)) did = true;
  if (unit_faults_.has_value() && unit_faults_->Turn()) did = true;
  if (controller_faults_.has_value() && controller_faults_->Turn()) did = true;
  if (unit_starts_.has_value() && unit_starts_->Turn()) did = true;
  look_.Turn();
  NoteGivenUp();
  return did;
}

// Reports the number of flows that lost their state, at most once in
// kBetweenNotices.
void RealDriver::NoteGivenUp() {
  if (!loop_.is_led()) return;
  const uint64_t given_up = controller().counters().failures.flows_given_up;
  if (given_up <= given_up_) [[likely]]
    return;
  const Instant now = RealClock::Monotonic();
  if (given_up_ > 0 && now - given_up_noted_ < kBetweenNotices) return;
  if (real_.notice != nullptr) {
    real_.notice(fmt::format(
        "{} lost their state in a failure, {} since the "
        "start",
        Plural(given_up - given_up_, "flow"), FormatCount(given_up)));
  }
  given_up_ = given_up;
  given_up_noted_ = now;
}

// Takes turns until nothing moves; returns true if all packets are out of the
// units then.
bool RealDriver::Drain() {
  loop_.HandleBatch(egress_);
  Instant last_move = RealClock::Monotonic();
  const auto has_loggers = [this] {
    return !unit_faults_.has_value() || unit_faults_->has_loggers();
  };
  while (loop_.in_channels() > 0 || !loop_.IsQuiet() || !has_loggers()) {
    if (RealClock::Monotonic() - finishing_ > kTimersAtEnd) StopTimers();
    if (has_failed()) return false;
    const uint64_t left = loop_.in_channels();
    const bool did = Turn();
    // Timers go on for as long as a packet is in a unit: they move none.
    if (loop_.in_channels() != left || (did && left == 0)) {
      last_move = RealClock::Monotonic();
    } else if (RealClock::Monotonic() - last_move > patience_) {
      return false;
    } else if (unit_starts_.has_value() &&
               RealClock::Monotonic() - last_move > Milliseconds(50)) {
      unit_starts_->BeginEnded();
    }
    if (!did) loop_.IdleWait(loop_.is_starting() ? Milliseconds(1) : Nanos{});
  }
  return true;
}

// Each step costs a turn of all loops. Timers of flows, which may be days
// apart, need no order among flows, so each step is twice as long as the last.
// But an NF's timer comes before an end of its flow that is due later: a step
// does not go beyond the first one by more than kStep.
bool RealDriver::SkipTimers() {
  constexpr Nanos kStep = Milliseconds(10);
  constexpr Nanos kLongest = Seconds(24 * 3'600);
  Nanos step = kStep;
  for (Instant due; (due = loop_.NextDue()) != Instant::max();) {
    Instant to = due + step;
    const bool runs_timers =
        due - result_.last_packet <= kTimersAfterLastPacket;
    if (!runs_timers) StopTimers();
    if (runs_timers && example_->has_timer()) {
      to = std::max(due + kStep, std::min(to, loop_.NextDueOfUnits()));
    }
    step = std::min(Nanos{2 * step.ns}, kLongest);
    clock_.SkipTo(to);
    SetClocks();
    for (const LoopRegion::Loop& loop : loops_) loop.bell->Ring();
    ++result_.real.skips;
    if (!Drain()) return false;
  }
  return true;
}

void RealDriver::StopTimers() {
  for (const LoopRegion::Loop& loop : loops_) loop.control->stops_timers = true;
}

void RealDriver::StopWorkers() {
  if (processes_ != nullptr) processes_->LetEnd();
  if (real_.host == nullptr) {
    for (const LoopRegion::Loop& loop : loops_) {
      loop.control->stops = true;
      loop.bell->Ring();
    }
  }
  if (unit_threads_.has_value()) unit_threads_->StopLoops();
}

void RealDriver::StopLoggers() {
  if (unit_threads_.has_value()) unit_threads_->StopLoggers();
  if (loggers_control_ == nullptr) return;
  loggers_control_->stops = true;
  loggers_bell_->Ring();
}

FlowKey RealDriver::FlowOf(FlowId flow) const {
  return KeyOf(controller().flows(), options_.controller.max_flows, flow);
}

RunResult RealDriver::Finish() {
  if (!has_begun_) Begin(Instant{});
  finishing_ = RealClock::Monotonic();
  if (unit_starts_.has_value()) unit_starts_->Close();
  bool is_over = Drain();
  if (!is_over && !has_failed()) {
    egress_.Violate(
        fmt::format("{} packets never left their units", loop_.in_channels()));
  }
  result_.real.wall = clock_.Now() - look_.began();
  look_.Publish();
  look_.Stop();  // time skips from here on
  is_over = is_over && SkipTimers();
  if (unit_faults_.has_value()) unit_faults_->Stop();
  if (controller_faults_.has_value()) controller_faults_->Finish();
  StopWorkers();
  if (unit_threads_.has_value()) unit_threads_->AddResults(results_);
  StopLoggers();
  if (processes_ != nullptr) TakeResults();
  if (has_failed()) {
    Fail();
  } else if (is_over) {
    egress_.CheckNoneWaits();
    if (unit_threads_.has_value() && options_.check) CheckLoggers();
  }
  result_.real.threads = real_.threads;
  look_.TellBusy();
  egress_.Finish(loop_.now());
  Collect();
  return std::move(result_);
}

// Of a process that has failed there are none.
void RealDriver::TakeResults() {
  const LoopResults none;
  for (auto& of_process : processes_->Finish()) {
    results_.push_back(of_process.value_or(none));
  }
}

std::string RealDriver::WhyFailed() const {
  const std::optional<WireFault> fault = faults_->first();
  if (fault.has_value()) {
    const uint64_t more = faults_->count() - 1;
    return ToString(*fault) +
           (more > 0 ? fmt::format("; {} more came", more) : "");
  }
  if (has_lost_store()) {
    return fmt::format("the store at {} did not answer for more than {}",
                       FormatRedisAddress(redis_->address()),
                       FormatDuration(options_.store.patience));
  }
  const UnitProcesses::Failure failure = *processes_->failure();
  if (!failure.nf.has_value() || failure.nf->flow == kNoFlow) {
    return failure.text;
  }
  std::string packet = ";";
  if (buffers_.IsHandle(failure.nf->packet)) {
    packet = fmt::format("; packet {},", NumberOf(failure.nf->packet));
  }
  return fmt::format("{}{} clock {}, flow {}", failure.text, packet,
                     failure.nf->clock, ToString(FlowOf(failure.nf->flow)));
}

// Packets that are under way stay where they are.
void RealDriver::Fail() {
  result_.failure = WhyFailed();
  result_.nf_failed = !faults_->first().has_value() && has_processes() &&
                      processes_->failure().has_value() &&
                      processes_->failure()->nf.has_value();
  egress_.Violate(result_.failure);
  const uint64_t begun = result_.packets_begun();
  const uint64_t ended = result_.packets_ended();
  result_.dropped[static_cast<size_t>(WhyDropped())] +=
      begun - std::min(begun, ended);
}

// At the end of a run, each logger has what its unit has.
void RealDriver::CheckLoggers() {
  unit_threads_->CheckLoggers(
      example_->pools().size(),
      [this](uint32_t unit, const std::string& difference) {
        egress_.Violate(fmt::format("I5: the logger of unit {} differs: {}",
                                    unit, difference));
      });
}

void RealDriver::Collect() {
  result_.faults.null_packets_lost = loop_.null_packets_lost();
  result_.faults.pulls_refused = loop_.pulls_refused();
  result_.state.messages_lost = loop_.relayed_lost();
  const ControllerLoopFigures& figures = loop_.figures();
  result_.aliases.packets_offered = figures.packets_by_alias;
  result_.aliases.packets_found =
      figures.packets_by_alias - figures.aliases_unknown;
  AddNfCounters(*example_, result_);
  for (const auto& store : stores_) AddTo(result_.store, store->figures());
  const auto max_units = options_.controller.max_units;
  std::vector<std::vector<TableCopyFigures>> tables(max_units);
  for (size_t loop = 0; loop < results_.size(); ++loop) {
    const LoopResults& of_loop = results_[loop];
    AddTo(result_.state, of_loop.figures.state);
    result_.held_packets_max =
        std::max(result_.held_packets_max, of_loop.figures.held_packets_max);
    result_.real.sleeps += of_loop.figures.sleeps;
    AddCounters<UnitLogFigures>(result_.loggers, of_loop.figures.logs);
    for (size_t i = 0; i < of_loop.figures.nf_counts.size(); ++i) {
      result_.nf_counters[i].value += of_loop.figures.nf_counts[i];
    }
    for (size_t i = 0; i < of_loop.tables.size(); ++i) {
      tables[loop + i * results_.size()] = of_loop.tables[i];
    }
  }
  result_.state.pulls -= result_.state.units.pulls_repeated;
  AddTotals(controller(), ingress_, egress_.provisioning(), result_);
  if (logs_tables()) {
    for (uint16_t unit = 0; unit < max_units; ++unit) {
      for (size_t i = 0; i < loop_.tables().size(); ++i) {
        const uint64_t updates = loop_.tables().home(i).logged(UnitId{unit});
        tables[unit].push_back({.updates = updates});
      }
    }
  }
  AddTables(loop_.tables(), tables, *example_, result_);
  AddNfReports(*example_, result_);
}

uint32_t RealDriver::buffers_in_use() const {
  uint32_t sum = buffers_.in_use();
  if (unit_threads_.has_value()) sum += unit_threads_->buffers_in_use();
  if (processes_ == nullptr) return sum;
  for (const LoopResults& of_loop : results_) sum += of_loop.buffers_in_use;
  return sum;
}

}  // namespace snf
