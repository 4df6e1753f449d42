// SPDX-License-Identifier: Apache-2.0
//
// The controller's recovery from failures of units (failover.h).
#include "controller/core/failover.h"

#include <algorithm>
#include <utility>

#include "controller/core/controller.h"

namespace snf {
namespace {

// More clocks than this cannot be lost of one flow at once.
constexpr uint64_t kMaxLostClocks = 1 << 20;
// The time after which a flow that found no unit, or no slot, is tried again.
constexpr Nanos kMoveRetry = Microseconds(100);
// The time after which a flow is given up whose lost clock finds no slot: all
// of them have packets that wait for it.
constexpr Nanos kMaxWait = Seconds(1);
// Most units that are tried for a slot.
constexpr uint32_t kMaxTried = 64;

}  // namespace

// --- What is told. ---

bool Failover::on_unit_failed(Controller& c, Instant now, UnitId unit,
                              uint32_t incarnation, ControllerOut& out) {
  if (value(unit) >= c.units_.max_units() ||
      c.units_.incarnation(unit) != incarnation || !c.units_.on_failed(unit)) {
    ++c.counters_.failures.failures_refused;
    return false;
  }
  ++c.counters_.failures.failures;
  crashed_.Insert(unit);
  sealed_.Insert(unit);
  c.pieces_.on_unit_failed(unit);
  const UnitSet& sealed = sealed_;
  round_.Begin();
  for (UnitId u = sealed.NextFrom(0); u != kNoUnit;
       u = sealed.NextFrom(value(u) + uint32_t{1})) {
    if (SNF_FAILOVER_RULE(kOldLoggers, true, crashed_.Has(u))) {
      round_.AwaitLogger(u);
    }
  }
  for (uint32_t i = 0; i < c.units_.max_units(); ++i) {
    const UnitId u{static_cast<uint16_t>(i)};
    if (SNF_FAILOVER_RULE(kSurvivors, c.units_.has_process(u), false))
      round_.AwaitUnit(u);
  }
  forget_next_ = 0;
  forsaking_.Restart();
  waits_since_ = Instant::max();
  GoOnWith(Phase::kSealing, now);
  Advance(c, now, out);
  return true;
}

bool Failover::on_survivor(Controller& c, const PacketMeta& meta,
                           PacketHandle packet) {
  if (phase_ == Phase::kIdle || phase_ > Phase::kWaiting ||
      !survivors_.Add(meta, packet)) {
    ++c.counters_.failures.survivors_refused;
    return false;
  }
  return true;
}

void Failover::on_sealed(Controller& c, Instant now, const SealAnswer& answer,
                         ControllerOut& out) {
  TakeAnswer(c, now, answer, /*of_logger=*/true, out);
}

void Failover::on_done(Controller& c, Instant now, const DoneAnswer& answer,
                       ControllerOut& out) {
  TakeAnswer(c, now, answer, /*of_logger=*/false, out);
}

void Failover::TakeAnswer(Controller& c, Instant now, const DoneAnswer& given,
                          bool of_logger, ControllerOut& out) {
  DoneAnswer answer = given;
  FailureCounters& counters = c.counters_.failures;
  if (answer.flow != kNoFlow && !c.Keeps(answer.flow)) {
    ++counters.answers_unknown_flow;
    return;
  }
  Clock newest{};
  if (answer.flow != kNoFlow) {
    const uint32_t slot = slot_of(answer.flow);
    newest = c.flows_.hot(slot).clock;
    // A logger has an end as the clock after the last.
    if (c.IsEnding(slot) && answer.applied == newest + 1) {
      answer.applied = newest;
    }
  }
  switch (of_logger ? round_.on_sealed(answer, newest)
                    : round_.on_done(answer, newest)) {
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
  if (phase_ == Phase::kWaiting) Advance(c, now, out);
}

// --- Step by step. ---

void Failover::GoOnWith(Failover::Phase phase, Instant wakeup) {
  phase_ = phase;
  next_ = 0;
  wakeup_ = wakeup;
}

void Failover::Advance(Controller& c, Instant now, ControllerOut& out) {
  if (!is_active()) return;
  wakeup_ = now;
  if (phase_ == Phase::kSealing) SealLoggers(c, now, out);
  if (phase_ == Phase::kAsking) AskSurvivors(c, now, out);
  if (phase_ == Phase::kWaiting) {
    if (SNF_FAILOVER_RULE(kWait, !round_.complete(), false)) {
      wakeup_ = Instant::max();
      return;
    }
    survivors_.Sort();
    GoOnWith(Phase::kRedirecting, now);
  }
  if (phase_ == Phase::kRedirecting) RedirectFlows(c, now, out);
  if (phase_ == Phase::kMoving) MoveFlows(c, now, out);
  if (phase_ == Phase::kDropping) DropSurvivors(c, out);
}

void Failover::SealLoggers(Controller& c, Instant now, ControllerOut& out) {
  for (;;) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    const UnitId unit = sealed_.NextFrom(next_);
    if (unit == kNoUnit) break;
    next_ = value(unit) + uint32_t{1};
    out.push(
        ControllerCommand::Of(Seal{.unit = unit,
                                   .is_sealed = !crashed_.Has(unit),
                                   .incarnation = c.units_.incarnation(unit),
                                   .round = round_.number()}));
    if (next_ == c.units_.max_units()) break;
  }
  GoOnWith(Phase::kAsking, now);
}

void Failover::AskSurvivors(Controller& c, Instant now, ControllerOut& out) {
  for (; next_ < c.units_.max_units(); ++next_) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    const UnitId unit{static_cast<uint16_t>(next_)};
    if (!round_.awaits_unit(unit)) continue;
    out.push(ControllerCommand::Ask(unit, {.round = round_.number()}));
  }
  GoOnWith(Phase::kWaiting, now);
}

// This comes first, since it takes no slots: those may be taken by packets that
// wait for it.
void Failover::RedirectFlows(Controller& c, Instant now, ControllerOut& out) {
  for (uint32_t i = 0; i < c.evacuate_slots_; ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    if (next_ >= c.flows_.used()) {
      waits_since_ = Instant::max();
      c.pieces_.EndHolding();
      GoOnWith(Phase::kMoving, now);
      return;
    }
    const uint32_t slot = next_++;
    const UnitId owner = c.flows_.cold(slot).owner;
    const bool has_moved = owner != kNoUnit && c.owners_.runs(slot) > 0;
    if (owner == kNoUnit || (!has_moved && !crashed_.Has(owner))) continue;
    OwnerRuns runs = RunsOf(c, slot);
    WithdrawAlias(c, slot, runs);
    if (!has_moved) continue;
    MoveToLoggers(c, now, slot, runs, out);
    if (!ForgetOlder(c, slot, runs, out)) {
      --next_;
      return;
    }
  }
}

// A unit that failed may not have told those before it that it had released its
// first clock: it is told in its place (U7). Returns false if `out` has no room
// for more.
bool Failover::ForgetOlder(Controller& c, uint32_t slot, const OwnerRuns& runs,
                           ControllerOut& out) {
  if (!c.forgets_copies_ || SNF_FAILOVER_RULE(kForget, false, true))
    return true;
  const Clock done = round_.done(slot, c.flows_.hot(slot).clock);
  const auto all = runs.all();
  for (; forget_next_ + 1 < all.size(); ++forget_next_) {
    if (out.room() < kMaxControllerCommandsPerStep) return false;
    const OwnerHistory::Run& run = all[forget_next_];
    const OwnerHistory::Run& next = all[forget_next_ + 1];
    if (run.is_taken || !IsAtLogger(next) || next.first > done) continue;
    out.push(ControllerCommand::Forget(run.unit, IsAtLogger(run),
                                       {c.IdOf(slot), run.last + 1}));
  }
  forget_next_ = 0;
  return true;
}

void Failover::MoveFlows(Controller& c, Instant now, ControllerOut& out) {
  c.units_.Refresh(now);
  for (uint32_t i = 0; i < c.evacuate_slots_; ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    if (next_ >= c.flows_.used()) {
      GoOnWith(Phase::kDropping, now);
      return;
    }
    MoveResult result = MoveFlow(c, now, next_, out);
    if (result == MoveResult::kNoSlot) {
      result = WaitForSlot(c, now, next_, out);
    }
    switch (result) {
      case MoveResult::kMoved:
        ++next_;
        break;
      case MoveResult::kMore:
        break;
      case MoveResult::kNoSlot:
        wakeup_ = now + kMoveRetry;
        return;
    }
  }
}

void Failover::DropSurvivors(Controller& c, ControllerOut& out) {
  while (survivors_.HasNext()) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    const PacketHandle packet = survivors_.TakeNext();
    if (packet == kNoPacket) continue;
    out.push(ControllerCommand::Drop(packet, DropReason::kUnitFailed));
  }
  survivors_.Clear();
  UnitSet& crashed = crashed_;
  for (UnitId unit = crashed.NextFrom(0); unit != kNoUnit;
       unit = crashed.NextFrom(0)) {
    crashed.Erase(unit);
    c.units_.EndFailure(unit);
    c.pieces_.on_unit_stopped(unit);
  }
  GoOnWith(Phase::kIdle, Instant::max());
}

// --- One flow. ---

OwnerRuns Failover::RunsOf(const Controller& c, uint32_t slot) {
  OwnerRuns runs(runs_.span(), more_runs_.span());
  Clock first{1};
  c.owners_.ForEach(slot, [&](const OwnerHistory::Run& run) {
    runs.Append(run);
    first = run.last + 1;
  });
  runs.Append({.first = first,
               .last = c.flows_.hot(slot).clock,
               .unit = c.flows_.cold(slot).owner});
  return runs;
}

void Failover::SetRuns(Controller& c, Instant now, uint32_t slot,
                       const OwnerRuns& runs) {
  c.owners_.Erase(slot);
  const auto all = runs.all();
  for (const OwnerHistory::Run& run : all.first(all.size() - 1)) {
    c.owners_.Add(slot, run);
  }
  const UnitId to = all.back().unit;
  FlowCold& cold = c.flows_.cold(slot);
  if (to == cold.owner) return;
  c.pieces_.on_flow_moved(to);
  if (!c.IsEnding(slot)) {
    c.units_.AddOwned(to);
    c.Disown(now, cold.owner);
  }
  cold.owner = to;
}

Failover::SourceOfState Failover::SourceOf(const OwnerRuns& runs,
                                           Clock clock) const {
  if (clock == Clock{1}) return {};
  const OwnerHistory::Run* const run = runs.Find(clock - 1);
  if (run == nullptr) return {};
  return {run->unit, SNF_FAILOVER_RULE(kSource, IsAtLogger(*run), false)
                         ? StateSource::kLogger
                         : StateSource::kUnit};
}

Failover::Receiver Failover::FindReceiver(Controller& c, Instant now,
                                          UnitId wish, uint32_t bytes,
                                          ControllerOut& out) {
  if (wish != kNoUnit && c.units_.state(wish) == UnitPool::State::kActive) {
    const uint64_t number = c.units_.TakeRecoverySlot(now, wish, bytes);
    if (number != 0) return {wish, number};
  }
  // Others may have slots that are free.
  const uint32_t tried = std::min(c.units_.placeable_units(), kMaxTried);
  for (uint32_t rank = 0; rank < tried; ++rank) {
    const UnitId unit = c.units_.Ranked(rank);
    const uint64_t number = c.units_.TakeRecoverySlot(now, unit, bytes);
    if (number != 0) return {unit, number};
  }
  UnitId unit = c.units_.Reopen(now);
  if (unit == kNoUnit) unit = c.units_.TakeWarm(now, out);
  if (unit == kNoUnit) unit = c.units_.UseStarting(now);
  if (unit == kNoUnit) unit = c.units_.StartStopped(now, out);
  if (unit == kNoUnit) unit = c.units_.WithdrawStop(now, out);
  if (unit == kNoUnit && c.units_.placeable_units() == 0) {
    unit = c.units_.UseFailed(now);
    if (unit == kNoUnit) unit = c.units_.UseBarred(now, out);
  }
  if (unit == kNoUnit) return {};
  return {unit, c.units_.TakeRecoverySlot(now, unit, bytes)};
}

// Does one step for the flow.
Failover::MoveResult Failover::MoveFlow(Controller& c, Instant now,
                                        uint32_t slot, ControllerOut& out) {
  FlowHot& flow = c.flows_.hot(slot);
  if (flow.unit != kNoUnit && crashed_.Has(flow.unit)) {
    if ((flow.flags & FlowHot::kOpen) != 0) c.CloseFlowlet(slot);
    flow.unit = kNoUnit;  // the flowlet's next packet gets a new unit
  }
  const UnitId owner = c.flows_.cold(slot).owner;
  if (owner == kNoUnit || (c.owners_.runs(slot) == 0 && !crashed_.Has(owner))) {
    return MoveResult::kMoved;
  }
  OwnerRuns runs = RunsOf(c, slot);
  const auto is_crashed = [this](const OwnerHistory::Run& run) {
    return !run.at_logger && crashed_.Has(run.unit);
  };
  const Clock done =
      SNF_FAILOVER_RULE(kDone, round_.done(slot, flow.clock), Clock{});
  if (!std::ranges::any_of(runs.all(), is_crashed)) return MoveResult::kMoved;
  // A flow that another controller began has no state here if no unit or logger
  // has a clock of it.
  const bool is_lost = (flow.flags & FlowHot::kHanded) != 0 && done == Clock{};
  if ((flow.flags & FlowHot::kCondemned) != 0 || is_lost) {
    return GiveUp(c, now, slot, out);
  }
  MoveToLoggers(c, now, slot, runs, out);
  for (const OwnerHistory::Run& run : runs.all()) {
    if (!is_crashed(run) || run.last <= done) continue;
    if (SNF_FAILOVER_RULE(kLost, false, true)) continue;
    return Reroute(c, now, slot, std::max(run.first, done + 1), runs, out);
  }
  return Settle(c, now, slot, runs, out);
}

// Sends a clock that is lost, all before it being done or sent.
Failover::MoveResult Failover::Reroute(Controller& c, Instant now,
                                       uint32_t slot, Clock clock,
                                       OwnerRuns& runs, ControllerOut& out) {
  const Clock newest = c.flows_.hot(slot).clock;
  const SourceOfState source = SourceOf(runs, clock);
  const bool is_source_known =
      clock == Clock{1} || source.kind != StateSource::kNone;
  if (!is_source_known || value(newest) - value(clock) > kMaxLostClocks) {
    return GiveUp(c, now, slot, out);
  }
  const bool is_at_unit = source.kind == StateSource::kUnit;
  UnitId wish = is_at_unit ? source.unit : c.flows_.cold(slot).owner;
  const FlowId id = c.IdOf(slot);
  Survivor* const survivor = survivors_.Find(id, clock);
  const auto [to, number] = FindReceiver(
      c, now, wish,
      survivor != nullptr ? c.cost_(survivor->original_length) : 0, out);
  if (number == 0) return MoveResult::kNoSlot;
  waits_since_ = Instant::max();
  if (!runs.Assign(clock, to)) return GiveUp(c, now, slot, out);
  for (OwnerHistory::Run& run : runs.all()) {
    if (run.last < clock && crashed_.Has(run.unit)) {
      run.at_logger = true;
    }
  }
  PacketMeta meta = {.flow = id,
                     .clock = clock,
                     .arrival = now,
                     .channel_number = number,
                     .flowlet = c.flows_.numbers(slot).flowlet,
                     .source = source.unit,
                     .source_kind = source.kind,
                     .flags = PacketMeta::kFirstOfFlowlet};
  if (clock == Clock{1}) meta.flags |= PacketMeta::kNewFlow;
  PacketHandle packet = kNoPacket;
  if (survivor != nullptr) {
    meta.arrival = survivor->arrival;
    meta.original_length = survivor->original_length;
    packet = std::exchange(survivor->packet, kNoPacket);
    ++c.counters_.failures.packets_rerouted;
  } else {
    meta.flags |= PacketMeta::kTombstone;
    ++c.counters_.failures.clocks_lost;
  }
  c.Name(slot, to, out);
  out.push(ControllerCommand::Enqueue(to, packet, meta));
  if (clock < newest)
    Redirect(c, slot, clock + 1, {to, StateSource::kUnit}, runs, out);
  SetRuns(c, now, slot, runs);
  if (clock == newest) EndAgain(c, now, slot, out);
  return MoveResult::kMore;
}

// Tells the unit that holds the clock, unless the clock is lost, too, where its
// state is.
void Failover::Redirect(Controller& c, uint32_t slot, Clock clock,
                        SourceOfState source, const OwnerRuns& runs,
                        ControllerOut& out) {
  const OwnerHistory::Run* const run = runs.Find(clock);
  if (run == nullptr || IsAtLogger(*run)) return;
  if (SNF_FAILOVER_RULE(kRedirect, false, true)) return;
  ++c.counters_.failures.redirects;
  out.push(ControllerCommand::Of(run->unit, {.flow = c.IdOf(slot),
                                             .clock = clock,
                                             .source = source.unit,
                                             .source_kind = source.kind}));
}

// Moves the runs of crashed units to their loggers, except for the owner's run,
// which may continue. Redirects the unit that holds the next clock.
void Failover::MoveToLoggers(Controller& c, Instant now, uint32_t slot,
                             OwnerRuns& runs, ControllerOut& out) {
  const Clock done = round_.done(slot, c.flows_.hot(slot).clock);
  const auto past = runs.all().first(runs.all().size() - 1);
  bool has_moved = false;
  for (OwnerHistory::Run& run : past) {
    if (run.at_logger || !crashed_.Has(run.unit) || run.last > done) {
      continue;
    }
    run.at_logger = has_moved = true;
    if (run.last == done) {
      const StateSource kind =
          SNF_FAILOVER_RULE(kSource, StateSource::kLogger, StateSource::kUnit);
      Redirect(c, slot, done + 1, {run.unit, kind}, runs, out);
    }
  }
  if (has_moved) SetRuns(c, now, slot, runs);
}

// No clock of the flow is lost, and none but the owner may have failed.
Failover::MoveResult Failover::Settle(Controller& c, Instant now, uint32_t slot,
                                      OwnerRuns& runs, ControllerOut& out) {
  FlowHot& flow = c.flows_.hot(slot);
  const UnitId owner = c.flows_.cold(slot).owner;
  if (crashed_.Has(owner)) {
    const auto [to, number] = FindReceiver(c, now, kNoUnit, 0, out);
    if (number == 0) return MoveResult::kNoSlot;
    waits_since_ = Instant::max();
    flow.clock = flow.clock + 1;
    runs.Append({.first = flow.clock, .last = flow.clock, .unit = to});
    ++c.counters_.null_packets;
    ++c.counters_.failures.flows_moved;
    const PacketMeta meta = {
        .flow = c.IdOf(slot),
        .clock = flow.clock,
        .arrival = now,
        .channel_number = number,
        .flowlet = c.flows_.numbers(slot).flowlet,
        .source = owner,
        .source_kind = StateSource::kLogger,
        .flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kNull};
    c.Name(slot, to, out);
    if (SNF_FAILOVER_RULE(kNull, true, false)) {
      out.push(ControllerCommand::Enqueue(to, kNoPacket, meta));
    }
    for (OwnerHistory::Run& run : runs.all()) {
      if (run.unit == owner && run.last < flow.clock) run.at_logger = true;
    }
    SetRuns(c, now, slot, runs);
    EndAgain(c, now, slot, out);
  }
  // Some of them may be gone, or older than the flow's newest clock.
  c.flows_.SetReplicas(slot, {});
  return MoveResult::kMoved;
}

// The flow's newest clock has just been given to its owner.
void Failover::EndAgain(Controller& c, Instant now, uint32_t slot,
                        ControllerOut& out) {
  if (!c.IsEnding(slot) || SNF_FAILOVER_RULE(kEnds, false, true)) return;
  FlowEnds::EndAgain(c, now, slot, out);
}

// The alias of the flow may be of a clock that a failed unit took with it.
void Failover::WithdrawAlias(Controller& c, uint32_t slot,
                             const OwnerRuns& runs) {
  const Clock set = c.aliases_.clock(slot);
  const OwnerHistory::Run* const run = runs.Find(set);
  if (run == nullptr || run->at_logger || !crashed_.Has(run->unit)) return;
  if (SNF_FAILOVER_RULE(kAlias, false, true)) return;
  const Clock done = round_.done(slot, c.flows_.hot(slot).clock);
  if (!c.aliases_.Withdraw(slot, done)) return;
  ++c.counters_.failures.aliases_withdrawn;
}

// While units start, waits for their slots. If no slot is free for long, all
// flows that need one have waited together.
Failover::MoveResult Failover::WaitForSlot(Controller& c, Instant now,
                                           uint32_t slot, ControllerOut& out) {
  if (waits_since_ == Instant::max() || c.units_.pending_starts() > 0) {
    waits_since_ = now;
  }
  if (now - waits_since_ < kMaxWait) return MoveResult::kNoSlot;
  return GiveUp(c, now, slot, out);
}

// Gives the flow up: it restarts with its next packet, under another id.
Failover::MoveResult Failover::GiveUp(Controller& c, Instant now, uint32_t slot,
                                      ControllerOut& out) {
  // The end of a flow that is ending was told before.
  const Clock last = c.IsEnding(slot) ? Clock{} : c.flows_.hot(slot).clock;
  if (!forsaking_.Tell(c.units_, c.IdOf(slot), c.flows_.cold(slot).owner, last,
                       out)) {
    return MoveResult::kMore;
  }
  ++c.counters_.failures.flows_given_up;
  if (c.IsEnding(slot)) {
    FlowEnds::Forget(c, slot);
    return MoveResult::kMoved;
  }
  FlowHot& flow = c.flows_.hot(slot);
  if ((flow.flags & FlowHot::kOpen) != 0) c.CloseFlowlet(slot);
  c.flow_timers_.Disarm(slot);
  c.Disown(now, c.flows_.cold(slot).owner);
  c.aliases_.Erase(slot, flow.clock);
  c.idle_timeouts_.Erase(slot);
  ++c.counters_.flows_ended;
  c.flows_.Unlink(slot);
  FlowEnds::Forget(c, slot);
  return MoveResult::kMoved;
}

}  // namespace snf
