// SPDX-License-Identifier: Apache-2.0
//
// The controller's recovery from failures of units (failover.h).
#include "controller/core/failover.h"

#include <algorithm>
#include <utility>

#include "controller/core/controller.h"
#include "controller/core/failover_rules.h"

namespace snf {
namespace {

using Phase = Failover::Phase;

// More clocks than this cannot be lost of one flow at once.
constexpr uint64_t kMaxLostClocks = 1 << 20;
// The time after which a flow that found no unit, or no slot, is tried again.
constexpr Nanos kMoveRetry = Microseconds(100);
// So many units are tried for a slot.
constexpr uint32_t kMaxTried = 64;

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
    if (SNF_FAILOVER_RULE(kOldLoggers, true, failover_.crashed.Has(u))) {
      failover_.round.AwaitLogger(u);
    }
  }
  for (uint32_t i = 0; i < units_.max_units(); ++i) {
    const UnitId u{static_cast<uint16_t>(i)};
    if (SNF_FAILOVER_RULE(kSurvivors, units_.has_process(u), false))
      failover_.round.AwaitUnit(u);
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
    if (SNF_FAILOVER_RULE(kWait, !failover_.round.complete(), false)) {
      failover_.wakeup = Instant::max();
      return;
    }
    std::sort(failover_.packets.data(),
              failover_.packets.data() + failover_.packet_count, IsBefore);
    GoOnWith(Phase::kRedirecting, now);
  }
  if (failover_.phase == Phase::kRedirecting) RedirectFlows(now, out);
  if (failover_.phase == Phase::kMoving) MoveFlows(now, out);
  if (failover_.phase == Phase::kDropping) DropSurvivors(out);
}

void Controller::SealLoggers(Instant now, ControllerOut& out) {
  for (;;) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    const UnitId unit = failover_.sealed.NextFrom(failover_.next);
    if (unit == kNoUnit) break;
    failover_.next = value(unit) + uint32_t{1};
    out.push(
        ControllerCommand::Of(Seal{.unit = unit,
                                   .is_sealed = !failover_.crashed.Has(unit),
                                   .incarnation = units_.incarnation(unit),
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

// This comes first, since it takes no slots: those may be taken by packets that
// wait for it.
void Controller::RedirectFlows(Instant now, ControllerOut& out) {
  for (uint32_t i = 0; i < evacuate_slots_; ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    if (failover_.next >= flows_.used()) {
      GoOnWith(Phase::kMoving, now);
      return;
    }
    const uint32_t slot = failover_.next++;
    if (flows_.cold(slot).owner == kNoUnit || owners_.runs(slot) == 0) continue;
    OwnerRuns runs = RunsOf(slot);
    MoveToLoggers(now, slot, runs, out);
  }
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
  return {run->unit, SNF_FAILOVER_RULE(kSource, IsAtLogger(*run), false)
                         ? StateSource::kLogger
                         : StateSource::kUnit};
}

Controller::Receiver Controller::FindReceiver(Instant now, UnitId wish,
                                              uint32_t bytes,
                                              ControllerOut& out) {
  if (wish != kNoUnit && units_.state(wish) == UnitPool::State::kActive) {
    const uint64_t number = units_.TakeRecoverySlot(now, wish, bytes);
    if (number != 0) return {wish, number};
  }
  // Others may have slots that are free.
  const uint32_t tried = std::min(units_.placeable_units(), kMaxTried);
  for (uint32_t rank = 0; rank < tried; ++rank) {
    const UnitId unit = units_.Ranked(rank);
    const uint64_t number = units_.TakeRecoverySlot(now, unit, bytes);
    if (number != 0) return {unit, number};
  }
  UnitId unit = units_.Reopen(now);
  if (unit == kNoUnit) unit = units_.TakeWarm(now, out);
  if (unit == kNoUnit) unit = units_.UseStarting(now);
  if (unit == kNoUnit) unit = units_.StartStopped(now, out);
  if (unit == kNoUnit) return {};
  return {unit, units_.TakeRecoverySlot(now, unit, bytes)};
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
  const Clock done =
      SNF_FAILOVER_RULE(kDone, failover_.round.done(slot, flow.clock), Clock{});
  MoveToLoggers(now, slot, runs, out);
  for (const OwnerHistory::Run& run : runs.all()) {
    if (!is_crashed(run) || run.last <= done) continue;
    if (SNF_FAILOVER_RULE(kLost, false, true)) continue;
    return Reroute(now, slot, std::max(run.first, done + 1), runs, out);
  }
  return Settle(now, slot, runs, out);
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
  const FlowId id = IdOf(slot);
  Survivor* const survivor = FindSurvivor(id, clock);
  const auto [to, number] = FindReceiver(
      now, wish, survivor != nullptr ? cost_(survivor->original_length) : 0,
      out);
  if (number == 0) return MoveResult::kNoSlot;
  if (!runs.Assign(clock, to)) return GiveUp(now, slot);
  for (OwnerHistory::Run& run : runs.all()) {
    if (run.last < clock && failover_.crashed.Has(run.unit)) {
      run.at_logger = true;
    }
  }
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
  if (SNF_FAILOVER_RULE(kRedirect, false, true)) return;
  ++counters_.failures.redirects;
  out.push(ControllerCommand::Of(run->unit, {.flow = IdOf(slot),
                                             .clock = clock,
                                             .source = source.unit,
                                             .source_kind = source.kind}));
}

// What crashed units have run is at their loggers now, but for the owner's run,
// which may go on. Whoever holds the next clock hears of it.
void Controller::MoveToLoggers(Instant now, uint32_t slot, OwnerRuns& runs,
                               ControllerOut& out) {
  const Clock done = failover_.round.done(slot, flows_.hot(slot).clock);
  const auto past = runs.all().first(runs.all().size() - 1);
  bool has_moved = false;
  for (OwnerHistory::Run& run : past) {
    if (run.at_logger || !failover_.crashed.Has(run.unit) || run.last > done) {
      continue;
    }
    run.at_logger = has_moved = true;
    if (run.last == done) {
      const StateSource kind =
          SNF_FAILOVER_RULE(kSource, StateSource::kLogger, StateSource::kUnit);
      Redirect(slot, done + 1, {run.unit, kind}, runs, out);
    }
  }
  if (has_moved) SetRuns(now, slot, runs);
}

// No clock of the flow is lost, and none but the owner may have failed.
Controller::MoveResult Controller::Settle(Instant now, uint32_t slot,
                                          OwnerRuns& runs, ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  const UnitId owner = flows_.cold(slot).owner;
  if (failover_.crashed.Has(owner)) {
    const auto [to, number] = FindReceiver(now, kNoUnit, 0, out);
    if (number == 0) return MoveResult::kNoSlot;
    flow.clock = flow.clock + 1;
    runs.Append({.first = flow.clock, .last = flow.clock, .unit = to});
    ++counters_.null_packets;
    ++counters_.failures.flows_moved;
    const PacketMeta meta = {
        .flow = IdOf(slot),
        .clock = flow.clock,
        .arrival = now,
        .channel_number = number,
        .flowlet = flows_.numbers(slot).flowlet,
        .source = owner,
        .source_kind = StateSource::kLogger,
        .flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kNull};
    if (SNF_FAILOVER_RULE(kNull, true, false)) {
      out.push(ControllerCommand::Enqueue(to, kNoPacket, meta));
    }
    for (OwnerHistory::Run& run : runs.all()) {
      if (run.unit == owner && run.last < flow.clock) run.at_logger = true;
    }
    SetRuns(now, slot, runs);
  }
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
