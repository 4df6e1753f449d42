// SPDX-License-Identifier: Apache-2.0
//
// The controller's recovery from failures of units (failover.h).
#include "controller/core/failover.h"

#include <algorithm>
#include <utility>

#include "controller/core/controller.h"

namespace snf {
namespace {

using Phase = Failover::Phase;

// More clocks than this cannot be lost of one flow at once.
constexpr uint64_t kMaxLostClocks = 1 << 20;
// The time after which a flow that found no unit, or no slot, is tried again.
constexpr Nanos kMoveRetry = Microseconds(100);

bool IsBefore(const Survivor& a, const Survivor& b) {
  return a.flow != b.flow ? value(a.flow) < value(b.flow) : a.clock < b.clock;
}

}  // namespace

// --- What is told. ---

bool Controller::on_unit_failed(Instant now, UnitId unit, uint32_t incarnation,
                                ControllerOut& out) {
  if (value(unit) >= units_.max_units() ||
      units_.incarnation(unit) != incarnation || !units_.on_failed(unit)) {
    ++counters_.failures.failures_refused;
    return false;
  }
  ++counters_.failures.failures;
  failover_.crashed.Insert(unit);
  failover_.sealed.Insert(unit);
  const UnitSet& sealed = failover_.sealed;
  failover_.round.Begin();
  for (UnitId u = sealed.NextFrom(0); u != kNoUnit;
       u = sealed.NextFrom(value(u) + uint32_t{1})) {
    failover_.round.AwaitLogger(u);
  }
  for (uint32_t i = 0; i < units_.max_units(); ++i) {
    const UnitId u{static_cast<uint16_t>(i)};
    if (units_.has_process(u)) failover_.round.AwaitUnit(u);
  }
  GoOnWith(Phase::kSealing, now);
  AdvanceFailover(now, out);
  return true;
}

bool Controller::on_survivor(const PacketMeta& meta, PacketHandle packet) {
  if (failover_.phase == Phase::kIdle || failover_.phase > Phase::kWaiting ||
      failover_.packet_count == failover_.packets.size()) {
    ++counters_.failures.survivors_refused;
    return false;
  }
  failover_.packets[failover_.packet_count++] = {
      .flow = meta.flow,
      .clock = meta.clock,
      .arrival = meta.arrival,
      .packet = packet,
      .original_length = meta.original_length};
  return true;
}

void Controller::on_sealed(Instant now, const SealAnswer& answer,
                           ControllerOut& out) {
  TakeAnswer(now, answer, /*of_logger=*/true, out);
}

void Controller::on_done(Instant now, const DoneAnswer& answer,
                         ControllerOut& out) {
  TakeAnswer(now, answer, /*of_logger=*/false, out);
}

void Controller::TakeAnswer(Instant now, const DoneAnswer& answer,
                            bool of_logger, ControllerOut& out) {
  FailureCounters& counters = counters_.failures;
  if (answer.flow != kNoFlow && !Knows(answer.flow)) {
    ++counters.answers_unknown_flow;
    return;
  }
  const Clock newest =
      answer.flow == kNoFlow ? Clock{} : flows_.hot(slot_of(answer.flow)).clock;
  switch (of_logger ? failover_.round.on_sealed(answer, newest)
                    : failover_.round.on_done(answer, newest)) {
    case AnswerResult::kTaken:
      break;
    case AnswerResult::kRound:
      ++counters.answers_old_round;
      return;
    case AnswerResult::kNotAsked:
      ++counters.answers_not_asked;
      return;
    case AnswerResult::kFutureClock:
      ++counters.answers_future_clock;
      return;
  }
  if (failover_.phase == Phase::kWaiting) AdvanceFailover(now, out);
}

// --- Step by step. ---

void Controller::GoOnWith(Failover::Phase phase, Instant wakeup) {
  failover_.phase = phase;
  failover_.next = 0;
  failover_.wakeup = wakeup;
}

void Controller::AdvanceFailover(Instant now, ControllerOut& out) {
  if (!failover_.is_active()) return;
  failover_.wakeup = now;
  if (failover_.phase == Phase::kSealing) SealLoggers(now, out);
  if (failover_.phase == Phase::kAsking) AskSurvivors(now, out);
  if (failover_.phase == Phase::kWaiting) {
    if (!failover_.round.complete()) {
      failover_.wakeup = Instant::max();
      return;
    }
    std::sort(failover_.packets.data(),
              failover_.packets.data() + failover_.packet_count, IsBefore);
    GoOnWith(Phase::kMoving, now);
  }
  if (failover_.phase == Phase::kMoving) MoveFlows(now, out);
  if (failover_.phase == Phase::kDropping) DropSurvivors(out);
}

void Controller::SealLoggers(Instant now, ControllerOut& out) {
  for (;;) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    const UnitId unit = failover_.sealed.NextFrom(failover_.next);
    if (unit == kNoUnit) break;
    failover_.next = value(unit) + uint32_t{1};
    // Only that of a unit which has failed just now is still open.
    out.push(ControllerCommand::Of(
        Seal{.unit = unit,
             .incarnation =
                 failover_.crashed.Has(unit) ? units_.incarnation(unit) : 0,
             .round = failover_.round.number()}));
    if (failover_.next == units_.max_units()) break;
  }
  GoOnWith(Phase::kAsking, now);
}

void Controller::AskSurvivors(Instant now, ControllerOut& out) {
  for (; failover_.next < units_.max_units(); ++failover_.next) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    const UnitId unit{static_cast<uint16_t>(failover_.next)};
    if (!failover_.round.awaits_unit(unit)) continue;
    out.push(ControllerCommand::Ask(unit, {.round = failover_.round.number()}));
  }
  GoOnWith(Phase::kWaiting, now);
}

void Controller::MoveFlows(Instant now, ControllerOut& out) {
  units_.Refresh(now);
  for (uint32_t i = 0; i < evacuate_slots_; ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    if (failover_.next >= flows_.used()) {
      GoOnWith(Phase::kDropping, now);
      return;
    }
    switch (MoveFlow(now, failover_.next, out)) {
      case MoveResult::kMoved:
        ++failover_.next;
        break;
      case MoveResult::kMore:
        break;
      case MoveResult::kNoSlot:
        failover_.wakeup = now + kMoveRetry;
        return;
    }
  }
}

void Controller::DropSurvivors(ControllerOut& out) {
  for (; failover_.next < failover_.packet_count; ++failover_.next) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    const PacketHandle packet =
        std::exchange(failover_.packets[failover_.next].packet, kNoPacket);
    if (packet == kNoPacket) continue;
    out.push(ControllerCommand::Drop(packet, DropReason::kUnitFailed));
  }
  failover_.packet_count = 0;
  UnitSet& crashed = failover_.crashed;
  for (UnitId unit = crashed.NextFrom(0); unit != kNoUnit;
       unit = crashed.NextFrom(0)) {
    crashed.Erase(unit);
    units_.EndFailure(unit);
    pieces_.on_unit_stopped(unit);
  }
  GoOnWith(Phase::kIdle, Instant::max());
}

// --- One flow. ---

OwnerRuns Controller::RunsOf(uint32_t slot) const {
  OwnerRuns runs;
  const uint32_t count = owners_.runs(slot);
  // Of too many the oldest are left out.
  const uint32_t kept = std::min<uint32_t>(count, OwnerRuns::kMax / 2);
  for (uint32_t i = count - kept; i < count; ++i) {
    runs.Append(owners_.run(slot, i));
  }
  const Clock first =
      kept == 0 ? Clock{1} : owners_.run(slot, count - 1).last + 1;
  runs.Append({.first = first,
               .last = flows_.hot(slot).clock,
               .unit = flows_.cold(slot).owner});
  return runs;
}

void Controller::SetRuns(Instant now, uint32_t slot, const OwnerRuns& runs) {
  owners_.Erase(slot);
  const auto all = runs.all();
  for (const OwnerHistory::Run& run : all.first(all.size() - 1)) {
    owners_.Add(slot, run.last, run.unit, run.at_logger);
  }
  const UnitId to = all.back().unit;
  FlowCold& cold = flows_.cold(slot);
  if (to == cold.owner) return;
  units_.AddOwned(to);
  pieces_.on_flow_moved(to);
  Disown(now, cold.owner);
  cold.owner = to;
}

Controller::SourceOfState Controller::SourceOf(const OwnerRuns& runs,
                                               Clock clock) const {
  if (clock == Clock{1}) return {};
  const OwnerHistory::Run* const run = runs.Find(clock - 1);
  if (run == nullptr) return {};
  return {run->unit,
          IsAtLogger(*run) ? StateSource::kLogger : StateSource::kUnit};
}

UnitId Controller::Receiver(Instant now, UnitId wish, ControllerOut& out) {
  if (wish != kNoUnit && !failover_.crashed.Has(wish) &&
      units_.state(wish) == UnitPool::State::kActive) {
    return wish;
  }
  UnitId unit = units_.LeastLoaded();
  if (unit == kNoUnit) unit = units_.Reopen(now);
  if (unit == kNoUnit) unit = units_.TakeWarm(now, out);
  if (unit == kNoUnit) unit = units_.UseStarting(now);
  if (unit == kNoUnit) unit = units_.StartStopped(now, out);
  return unit;
}

// Does one step for the flow.
Controller::MoveResult Controller::MoveFlow(Instant now, uint32_t slot,
                                            ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  if (flow.unit != kNoUnit && failover_.crashed.Has(flow.unit)) {
    if ((flow.flags & FlowHot::kOpen) != 0) CloseFlowlet(slot);
    flow.unit = kNoUnit;  // the flowlet's next packet is placed anew
  }
  const UnitId owner = flows_.cold(slot).owner;
  if (owner == kNoUnit ||
      (owners_.runs(slot) == 0 && !failover_.crashed.Has(owner))) {
    return MoveResult::kMoved;
  }
  OwnerRuns runs = RunsOf(slot);
  const auto is_crashed = [this](const OwnerHistory::Run& run) {
    return !run.at_logger && failover_.crashed.Has(run.unit);
  };
  if (!std::ranges::any_of(runs.all(), is_crashed)) return MoveResult::kMoved;
  const Clock done = failover_.round.done(slot, flow.clock);
  for (const OwnerHistory::Run& run : runs.all()) {
    if (!is_crashed(run) || run.last <= done) continue;
    return Reroute(now, slot, std::max(run.first, done + 1), runs, out);
  }
  return Settle(now, slot, done, runs, out);
}

Survivor* Controller::FindSurvivor(FlowId flow, Clock clock) {
  Survivor* const end = failover_.packets.data() + failover_.packet_count;
  Survivor* const found =
      std::lower_bound(failover_.packets.data(), end,
                       Survivor{.flow = flow, .clock = clock}, IsBefore);
  const bool is_there = found != end && found->flow == flow &&
                        found->clock == clock && found->packet != kNoPacket;
  return is_there ? found : nullptr;
}

// Sends a clock that is lost, all before it being done or sent.
Controller::MoveResult Controller::Reroute(Instant now, uint32_t slot,
                                           Clock clock, OwnerRuns& runs,
                                           ControllerOut& out) {
  const Clock newest = flows_.hot(slot).clock;
  const SourceOfState source = SourceOf(runs, clock);
  const bool is_source_known =
      clock == Clock{1} || source.kind != StateSource::kNone;
  if (!is_source_known || value(newest) - value(clock) > kMaxLostClocks) {
    return GiveUp(now, slot);
  }
  const bool is_at_unit = source.kind == StateSource::kUnit;
  UnitId wish = is_at_unit ? source.unit : flows_.cold(slot).owner;
  const UnitId to = Receiver(now, wish, out);
  if (to == kNoUnit) return MoveResult::kNoSlot;
  if (!runs.Assign(clock, to)) return GiveUp(now, slot);
  const FlowId id = IdOf(slot);
  Survivor* const survivor = FindSurvivor(id, clock);
  const uint64_t number = units_.TakeRecoverySlot(
      now, to, survivor != nullptr ? cost_(survivor->original_length) : 0);
  if (number == 0) return MoveResult::kNoSlot;
  PacketMeta meta = {.flow = id,
                     .clock = clock,
                     .arrival = now,
                     .channel_number = number,
                     .flowlet = flows_.numbers(slot).flowlet,
                     .source = source.unit,
                     .source_kind = source.kind,
                     .flags = PacketMeta::kFirstOfFlowlet};
  if (clock == Clock{1}) meta.flags |= PacketMeta::kNewFlow;
  PacketHandle packet = kNoPacket;
  if (survivor != nullptr) {
    meta.arrival = survivor->arrival;
    meta.original_length = survivor->original_length;
    packet = std::exchange(survivor->packet, kNoPacket);
    ++counters_.failures.packets_rerouted;
  } else {
    meta.flags |= PacketMeta::kTombstone;
    ++counters_.failures.clocks_lost;
  }
  if (aliases_.clock(slot) == clock) WithdrawAlias(slot, clock);
  out.push(ControllerCommand::Enqueue(to, packet, meta));
  if (clock < newest)
    Redirect(slot, clock + 1, {to, StateSource::kUnit}, runs, out);
  SetRuns(now, slot, runs);
  return MoveResult::kMore;
}

// Tells whoever holds the clock, unless it is lost as well, where its state is.
void Controller::Redirect(uint32_t slot, Clock clock, SourceOfState source,
                          const OwnerRuns& runs, ControllerOut& out) {
  const OwnerHistory::Run* const run = runs.Find(clock);
  if (run == nullptr || IsAtLogger(*run)) return;
  ++counters_.failures.redirects;
  out.push(ControllerCommand::Of(run->unit, {.flow = IdOf(slot),
                                             .clock = clock,
                                             .source = source.unit,
                                             .source_kind = source.kind}));
}

// No clock of the flow is lost. What crashed units have run is at their
// loggers.
Controller::MoveResult Controller::Settle(Instant now, uint32_t slot,
                                          Clock done, OwnerRuns& runs,
                                          ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  const UnitId owner = flows_.cold(slot).owner;
  if (failover_.crashed.Has(owner)) {
    const UnitId to = Receiver(now, kNoUnit, out);
    const uint64_t number =
        to == kNoUnit ? 0 : units_.TakeRecoverySlot(now, to, 0);
    if (number == 0) return MoveResult::kNoSlot;
    flow.clock = flow.clock + 1;
    runs.Append({.first = flow.clock, .last = flow.clock, .unit = to});
    ++counters_.null_packets;
    ++counters_.failures.flows_moved;
    out.push(ControllerCommand::Enqueue(
        to, kNoPacket,
        {.flow = IdOf(slot),
         .clock = flow.clock,
         .arrival = now,
         .channel_number = number,
         .flowlet = flows_.numbers(slot).flowlet,
         .source = owner,
         .source_kind = StateSource::kLogger,
         .flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kNull}));
  } else if (const OwnerHistory::Run* const run = runs.Find(done);
             run != nullptr && IsAtLogger(*run) && run->last == done) {
    Redirect(slot, done + 1, {run->unit, StateSource::kLogger}, runs, out);
  }
  for (OwnerHistory::Run& run : runs.all()) {
    if (failover_.crashed.Has(run.unit)) run.at_logger = true;
  }
  SetRuns(now, slot, runs);
  // Some of them may be gone, or older than the flow's newest clock.
  flows_.SetReplicas(slot, {});
  return MoveResult::kMoved;
}

void Controller::WithdrawAlias(uint32_t slot, Clock clock) {
  aliases_.Erase(slot, clock);
  ++counters_.failures.aliases_withdrawn;
}

// The history does not say where the flow's state is: it begins anew, under
// another id, with its next packet.
Controller::MoveResult Controller::GiveUp(Instant now, uint32_t slot) {
  ++counters_.failures.flows_given_up;
  FlowHot& flow = flows_.hot(slot);
  if ((flow.flags & FlowHot::kOpen) != 0) CloseFlowlet(slot);
  flow_timers_.Disarm(slot);
  Disown(now, flows_.cold(slot).owner);
  owners_.Erase(slot);
  aliases_.Erase(slot, flow.clock);
  idle_timeouts_.Erase(slot);
  failover_.round.Erase(slot);
  flows_.Erase(slot);
  return MoveResult::kMoved;
}

}  // namespace snf
