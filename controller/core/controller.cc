// SPDX-License-Identifier: Apache-2.0
#include "controller/core/controller.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace snf {
namespace {

uint32_t Replicas(const ControllerOptions& options,
                  const PlacementPolicy& policy) {
  SNF_CHECK(options.replicas <= kMaxReplicas);
  const bool none =
      options.replica_choice == ReplicaChoice::kNone || !policy.moves_flows();
  return none ? 0 : options.replicas;
}

}  // namespace

Controller::Controller(const ControllerOptions& options,
                       const PlacementPolicy& policy)
    : flowlet_timeout_(options.flowlet_timeout),
      flowlet_timeout_at_start_(options.flowlet_timeout),
      flowlet_bytes_(policy.per_packet() ? int64_t{-1} : options.flowlet_bytes),
      replicas_after_{
          (Instant{flowlet_timeout_.ns / 2} + options.push_delay).ns},
      reassign_period_(options.reassign_period),
      alpha_(options.alpha_1024),
      replicas_(Replicas(options, policy)),
      likely_(options.replica_choice == ReplicaChoice::kLikely),
      awaits_ends_(options.awaits_ends),
      names_flows_(options.names_flows),
      forgets_copies_(options.forgets_copies),
      evacuate_slots_(options.evacuate_slots),
      evict_after_(options.evict_after),
      controller_id_(options.controller_id),
      policy_(&policy),
      flows_(options.max_flows, options.hash_seed, replicas_),
      aliases_(options.max_flows, options.hash_seed),
      idle_timeouts_(options.max_flows, options.flow_timeout),
      flow_timers_(options.max_flows, Pages::kGrowing),
      cost_(options),
      demand_(options),
      units_(options),
      pieces_(options.max_units),
      chooser_(options),
      chances_(options),
      rng_(options.seed),
      owners_(options.max_flows, options.max_owner_runs != 0
                                     ? options.max_owner_runs
                                     : options.max_flows),
      failover_(options, owners_.max_runs()) {
  SNF_CHECK(flowlet_timeout_.ns > 0 && options.flow_timeout > flowlet_timeout_);
  SNF_CHECK(options.flowlet_bytes > 0 &&
            options.flowlet_bytes <= 1'000'000'000);
  SNF_CHECK(options.push_delay.ns >= 0 && reassign_period_.ns > 0);
  SNF_CHECK(evacuate_slots_ > 0 && evict_after_.ns >= 0);
  flows_.set_epoch(options.epoch, options.names_flows);
}

bool Controller::Tune(Instant now, const ControllerOptions& options) {
  SNF_CHECK(options.flowlet_timeout.ns > 0 &&
            options.flow_timeout > options.flowlet_timeout);
  SNF_CHECK(options.replicas <= kMaxReplicas);
  if (!units_.Tune(now, options)) return false;
  // Units go on pushing after half of the timeout that they began with.
  const Nanos at_start = flowlet_timeout_at_start_;
  flowlet_timeout_ = options.flowlet_timeout;
  if (flowlet_bytes_ >= 0) flowlet_bytes_ = options.flowlet_bytes;
  const Nanos pushes_after = {std::max(flowlet_timeout_, at_start).ns / 2};
  replicas_after_ = {(Instant{pushes_after.ns} + options.push_delay).ns};
  reassign_period_ = options.reassign_period;
  period_start_ = {};
  alpha_ = options.alpha_1024;
  evict_after_ = options.evict_after;
  idle_timeouts_.set_otherwise(options.flow_timeout);
  demand_.Tune(options);
  chooser_.set_replicas(std::min(options.replicas, replicas_));
  return true;
}

// Prefetches the packet's index bucket and returns the hash of its key.
inline uint64_t Controller::BringIndex(const Arrival& arrival) const {
  const uint64_t hash = flows_.HashOf(arrival.key);
  if (arrival.by_alias) {
    aliases_.PrefetchIndex(hash);
  } else {
    flows_.PrefetchIndex(hash);
  }
  return hash;
}

// Prefetches the entry of the packet's flow and returns its likely slot.
inline uint32_t Controller::BringEntry(const Arrival& arrival,
                                       uint64_t hash) const {
  const uint32_t slot =
      arrival.by_alias ? aliases_.PrefetchEntry(hash) : flows_.Guess(hash);
  flows_.Prefetch(slot);
  return slot;
}

void Controller::Expect(std::span<Arrival> batch) {
  Arrival& newest = batch.back();
  newest.hash = BringIndex(newest);
  if (batch.size() <= kLead) return;
  Arrival& earlier = batch[batch.size() - 1 - kLead];
  earlier.slot = BringEntry(earlier, earlier.hash);
}

size_t Controller::on_packets(Instant now, std::span<const Arrival> arrivals,
                              ControllerOut& out) {
  size_t done = 0;
  while (done < arrivals.size()) {
    const auto batch =
        arrivals.subspan(done, std::min(kBatch, arrivals.size() - done));
    // Do what Expect was not called for, or has not done yet.
    std::array<uint64_t, kBatch> hashes;
    for (size_t i = 0; i < batch.size(); ++i) {
      hashes[i] = batch[i].hash != 0 ? batch[i].hash : BringIndex(batch[i]);
    }
    std::array<uint32_t, kBatch> slots;
    for (size_t i = 0; i < batch.size(); ++i) {
      slots[i] = batch[i].slot != FlowTable::kNone
                     ? batch[i].slot
                     : BringEntry(batch[i], hashes[i]);
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      if (out.room() < kMaxControllerCommandsPerStep) return done;
      on_packet(now, batch[i], hashes[i], slots[i], out);
      ++done;
    }
  }
  return done;
}

// `likely` is the slot that the flow had a moment ago, or kNone.
void Controller::on_packet(Instant now, const Arrival& arrival, uint64_t hash,
                           uint32_t likely, ControllerOut& out) {
  uint32_t slot = arrival.by_alias ? aliases_.Find(arrival.key, hash)
                                   : flows_.Find(arrival.key, hash, likely);
  if (slot == FlowTable::kNone) {
    if (arrival.by_alias) {
      out.push(ControllerCommand::Drop(arrival.packet, DropReason::kNoAlias));
      return;
    }
    slot = flows_.Insert(arrival.key, hash);
    if (slot == FlowTable::kNone && EvictFlow(now, out)) {
      slot = flows_.Insert(arrival.key, hash);
    }
    if (slot == FlowTable::kNone) {
      out.push(
          ControllerCommand::Drop(arrival.packet, DropReason::kFlowTableFull));
      return;
    }
    ++counters_.flows;
    CountLongProbes();
    BeginFlowlet(now, arrival, slot, FlowletCause::kNewFlow, out);
  } else {
    const FlowHot& flow = flows_.hot(slot);
    if (arrival.time - flow.last_packet > flowlet_timeout_) {
      ++counters_.flowlets_by_gap;
      BeginFlowlet(now, arrival, slot, FlowletCause::kGap, out);
    } else if (int64_t{flow.flowlet_bytes} + cost_(arrival.original_length) >
               flowlet_bytes_) {
      ++counters_.flowlets_by_bytes;
      BeginFlowlet(now, arrival, slot, FlowletCause::kBytes, out);
    } else if ((flow.flags & FlowHot::kOpen) == 0) {
      ResumeFlowlet(now, arrival, slot, out);
    }
  }
  FlowHot& flow = flows_.hot(slot);
  flow.last_packet = std::max(flow.last_packet, arrival.time);
  flow.flowlet_bytes += cost_(arrival.original_length);
  Enqueue(now, arrival, slot, out);
}

void Controller::BeginFlowlet(Instant now, const Arrival& arrival,
                              uint32_t slot, FlowletCause cause,
                              ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  FlowCold& cold = flows_.cold(slot);
  if (cause == FlowletCause::kNewFlow) {
    cold.demand_bps = demand_.FirstDemand();
    flow.last_packet = arrival.time;
  } else if ((flow.flags & FlowHot::kOpen) != 0) {
    CloseFlowlet(slot);
  }
  ++flows_.numbers(slot).flowlet;
  ++counters_.flowlets;
  PlaceFlowlet(now, arrival, slot, cause, out);
  cold.flowlet_first = std::max(flow.last_packet, arrival.time);
  flow.flowlet_bytes = 0;
}

void Controller::ResumeFlowlet(Instant now, const Arrival& arrival,
                               uint32_t slot, ControllerOut& out) {
  // Either the timer closed the flowlet before a packet that had arrived in
  // time was handled, or there was no unit for the flowlet so far.
  FlowHot& flow = flows_.hot(slot);
  if (flow.unit == kNoUnit || !units_.placeable(flow.unit)) {
    PlaceFlowlet(now, arrival, slot, FlowletCause::kLate, out);
    return;
  }
  flow.flags |= FlowHot::kOpen;
  units_.OpenFlowlet(flow.unit, flows_.cold(slot).demand_bps);
  flow_timers_.Arm(slot, arrival.time + flowlet_timeout_ + Nanos{1});
}

void Controller::PlaceFlowlet(Instant now, const Arrival& arrival,
                              uint32_t slot, FlowletCause cause,
                              ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  const FlowCold& cold = flows_.cold(slot);
  const Nanos gap = arrival.time - flow.last_packet;
  const uint16_t before = flow.flags;
  units_.Refresh(now);
  ReplicaSet landed;
  if (cause == FlowletCause::kGap && gap >= replicas_after_) {
    flows_.GetReplicas(slot, landed);
  }
  const PlacementRequest request = {
      .demand = units_.Quanta(cold.demand_bps),
      .owner = cold.owner,
      .alpha = alpha_,
      .replicas = landed,
      .owner_alpha = units_.by_wait() ? alpha_ : 0,
      .gap = units_.by_wait() && cause != FlowletCause::kNewFlow ? gap
                                                                 : Nanos::max(),
      .demand_bps = cold.demand_bps,
      .key_hash = Hash(flow.key),
      .new_period = cause == FlowletCause::kNewFlow ||
                    BeginsPeriod(arrival.time, flow.last_packet)};
  const Placement placement = policy_->Place(now, request, units_, out);
  counters_.decisions += placement.kept ? 0 : 1;
  counters_.overcommitted += placement.overcommitted ? 1 : 0;
  if (observer_ != nullptr) {
    observer_->on_decision({.time = arrival.time,
                            .flow = IdOf(slot),
                            .flowlet = flows_.numbers(slot).flowlet,
                            .cause = cause,
                            .gap = gap,
                            .bytes = flow.flowlet_bytes,
                            .demand_bps = cold.demand_bps,
                            .request = request,
                            .placement = placement},
                           units_);
  }
  const bool moves = cold.owner != kNoUnit && placement.unit != cold.owner;
  if (likely_ && cause == FlowletCause::kGap) {
    // A replica is of no use to a move within the host.
    const bool leaves_host =
        moves && !units_.hosts().Share(cold.owner, placement.unit);
    chances_.Count(flow.flags >> FlowHot::kKindShift, leaves_host);
  }
  flow.unit = placement.unit;
  const bool goes_on = cause == FlowletCause::kLate;
  flow.flags = FlowHot::kFirstPending;
  flow.flags |= goes_on ? before & FlowHot::kMeasured : 0;
  flow.flags |= before & FlowHot::kCondemned;
  if (moves) {
    const MoveCause move = CauseOfMove(slot, request, placement.unit);
    flow.flags |=
        static_cast<uint16_t>(static_cast<int>(move) << FlowHot::kMoveShift);
  }
  flow_timers_.Arm(slot, arrival.time + flowlet_timeout_ + Nanos{1});
  if (placement.unit == kNoUnit) return;
  flow.flags |= FlowHot::kOpen;
  if (likely_) {
    const uint32_t kind =
        MoveChances::KindOf(placement.unit, request.demand, units_);
    flow.flags |= static_cast<uint16_t>(kind << FlowHot::kKindShift);
  }
  units_.OpenFlowlet(placement.unit, cold.demand_bps);
  ScaleAhead(now, out);
}

MoveCause Controller::CauseOfMove(uint32_t slot,
                                  const PlacementRequest& request,
                                  UnitId to) const {
  if (HasState(request, to, units_)) return MoveCause::kState;
  ReplicaSet ordered;
  flows_.GetReplicas(slot, ordered);
  if (ordered.count == 0) return MoveCause::kNoReplica;
  const bool is_ordered = std::ranges::any_of(ordered.span(), [&](UnitId unit) {
    return units_.hosts().Share(unit, to);
  });
  return is_ordered ? MoveCause::kTooSoon : MoveCause::kElsewhere;
}

void Controller::CountMove(MoveCause cause) {
  ++counters_.flowlets_moved;
  switch (cause) {
    case MoveCause::kState:
      break;
    case MoveCause::kNoReplica:
      ++counters_.moved_without_replica;
      break;
    case MoveCause::kElsewhere:
      ++counters_.moved_elsewhere;
      break;
    case MoveCause::kTooSoon:
      ++counters_.moved_too_soon;
      break;
  }
}

void Controller::CloseFlowlet(uint32_t slot) {
  FlowHot& flow = flows_.hot(slot);
  FlowCold& cold = flows_.cold(slot);
  flow.flags &= static_cast<uint16_t>(~FlowHot::kOpen);
  units_.CloseFlowlet(flow.unit, cold.demand_bps);
  if ((flow.flags & FlowHot::kMeasured) != 0) return;
  flow.flags |= FlowHot::kMeasured;
  const int64_t measured = demand_.Measure(
      flow.flowlet_bytes, flow.last_packet - cold.flowlet_first);
  cold.demand_bps = demand_.Update(cold.demand_bps, measured);
}

bool Controller::BeginsPeriod(Instant arrival, Instant last_packet) {
  // Divide only if the period is not that of the decision before.
  if (arrival < period_start_ || arrival - period_start_ >= reassign_period_) {
    const int64_t into = arrival.ns % reassign_period_.ns;
    period_start_ =
        arrival + Nanos{into < 0 ? -reassign_period_.ns - into : -into};
  }
  return last_packet < period_start_;
}

void Controller::Enqueue(Instant now, const Arrival& arrival, uint32_t slot,
                         ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  const uint32_t cost = cost_(arrival.original_length);
  uint64_t number =
      flow.unit == kNoUnit ? 0 : units_.TakeSlot(now, flow.unit, cost);
  if (number == 0 && flow.unit != kNoUnit &&
      (failover_.HasCrashed(flow.unit) || units_.is_shut(flow.unit))) {
    if ((flow.flags & FlowHot::kOpen) != 0) CloseFlowlet(slot);
    PlaceFlowlet(now, arrival, slot, FlowletCause::kLate, out);
    if (flow.unit != kNoUnit) number = units_.TakeSlot(now, flow.unit, cost);
  }
  if (number == 0) [[unlikely]] {
    // Without a unit there is no start buffer either.
    const bool starting = flow.unit == kNoUnit || units_.is_starting(flow.unit);
    out.push(ControllerCommand::Drop(
        arrival.packet,
        starting ? DropReason::kStartBufferFull : DropReason::kUnitQueueFull));
    return;
  }
  flow.clock = flow.clock + 1;
  FirstOfFlowlet first;
  if ((flow.flags & FlowHot::kFirstPending) != 0) {
    first = BeginAtUnit(now, slot, out);
  }
  ++counters_.enqueued;
  out.push_made([&] {
    return ControllerCommand{
        .kind = ControllerCommand::Kind::kEnqueue,
        .unit = flow.unit,
        .packet = arrival.packet,
        .meta = {.flow = IdOf(slot),
                 .clock = flow.clock,
                 .arrival = arrival.time,
                 .channel_number = number,
                 .flowlet = flows_.numbers(slot).flowlet,
                 .original_length = arrival.original_length,
                 .source = first.source,
                 .source_kind = first.source_kind,
                 .flags = first.flags}};
  });
}

// Starts the flowlet at its unit. The flow's newest clock is the flowlet's
// first.
Controller::FirstOfFlowlet Controller::BeginAtUnit(Instant now, uint32_t slot,
                                                   ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  const UnitId owner = flows_.cold(slot).owner;
  flow.flags &= static_cast<uint16_t>(~FlowHot::kFirstPending);
  const auto move =
      static_cast<MoveCause>(flow.flags >> FlowHot::kMoveShift & 3);
  FirstOfFlowlet first = {.flags = PacketMeta::kFirstOfFlowlet};
  if (owner == kNoUnit) {
    first.flags |= PacketMeta::kNewFlow;
  } else {
    first.source_kind = StateSource::kUnit;
    first.source = owner;
  }
  if (owner != flow.unit) {
    if (owner != kNoUnit) {
      first.flags |= PacketMeta::kMoved;
      CountMove(move);
    }
    ChangeOwner(now, slot, flow.unit, out);
  }
  if (replicas_ > 0) SendReplicas(slot, out);
  return first;
}

void Controller::SendReplicas(uint32_t slot, ControllerOut& out) {
  ReplicaSet before;
  flows_.GetReplicas(slot, before);
  ReplicaSet set{.flow = IdOf(slot), .flowlet = flows_.numbers(slot).flowlet};
  const UnitId unit = flows_.hot(slot).unit;
  if (likely_) {
    const uint32_t kind = flows_.hot(slot).flags >> FlowHot::kKindShift;
    chooser_.ChooseLikely(unit, chances_.Replicas(kind), units_, set);
  } else {
    chooser_.Choose(rng_, unit, units_, set);
  }
  if (set.count == 0 && before.count == 0) return;
  flows_.SetReplicas(slot, set.span());
  out.push(ControllerCommand::Replicas(unit, set));
}

// Makes `to` the owner from the flow's newest clock on.
void Controller::ChangeOwner(Instant now, uint32_t slot, UnitId to,
                             ControllerOut& out) {
  FlowCold& cold = flows_.cold(slot);
  Name(slot, to, out);
  units_.AddOwned(to);
  pieces_.on_flow_moved(to);
  if (cold.owner != kNoUnit) {
    owners_.Add(slot, flows_.hot(slot).clock - 1, cold.owner);
    Disown(now, cold.owner);
  }
  cold.owner = to;
}

void Controller::Disown(Instant now, UnitId unit) {
  counters_.evacuations += units_.RemoveOwned(now, unit) ? 1 : 0;
}

void Controller::on_takeover(const Takeover& takeover) {
  const uint32_t slot = slot_of(takeover.flow);
  if (!Keeps(takeover.flow)) {
    ++counters_.takeovers_refused_unknown;
  } else if (takeover.clock > flows_.hot(slot).clock) {
    ++counters_.takeovers_refused_future;
  } else if (forgets_copies_) {
    owners_.TakeEndingAt(slot, Clock{value(takeover.clock) - 1});
  } else {
    owners_.RemoveBefore(slot, takeover.clock);
  }
}

void Controller::ScaleAhead(Instant now, ControllerOut& out) {
  if (units_.starting_units() > 0) return;
  if (units_.by_wait()) {
    // A warm unit is there in no time, so none is taken before it is needed.
    if (!units_.has_spare()) units_.StartStopped(now, out);
    return;
  }
  constexpr uint32_t kNearlyFull = kFullLoad * 9 / 10;
  if (units_.load(units_.LeastLoaded()) <= kNearlyFull) return;
  if (units_.TakeWarm(now, out) == kNoUnit) units_.StartStopped(now, out);
}

void Controller::on_timers(Instant now, ControllerOut& out) {
  const bool was_leaving = units_.leaving_flows() > 0;
  for (uint32_t i = 0; i < kTimersPerCall; ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) break;
    const uint32_t slot = flow_timers_.PopDue(now);
    if (slot == TimingWheel::kNone) break;
    on_flow_timer(now, slot, out);
  }
  while (out.room() >= kMaxControllerCommandsPerStep) {
    if (!units_.on_timer(now, out)) break;
  }
  while (pieces_.on_timer(now, counters_.pieces, out)) {
  }
  if (failover_.wakeup() <= now) failover_.Advance(*this, now, out);
  if (!was_leaving) evacuate_at_ = now;
  if (IsEvacuating() && evacuate_at_ <= now) Evacuate(now, out);
}

void Controller::on_flow_timer(Instant now, uint32_t slot, ControllerOut& out) {
  if (IsEnding(slot)) return EndAgain(now, slot, out);
  const FlowHot& flow = flows_.hot(slot);
  if ((flow.flags & FlowHot::kOpen) != 0) {
    if (now - flow.last_packet > flowlet_timeout_) CloseFlowlet(slot);
  } else if (now - flow.last_packet >= idle_timeouts_.Of(slot)) {
    if (IsMoving(slot)) {
      WaitToEnd(now, slot, out);
    } else {
      EndFlow(now, slot, out);
    }
    return;
  }
  if ((flow.flags & FlowHot::kOpen) != 0) {
    flow_timers_.Arm(slot, flow.last_packet + flowlet_timeout_ + Nanos{1});
  } else {
    ArmIdle(slot);
  }
}

void Controller::ArmIdle(uint32_t slot) {
  const Nanos timeout = idle_timeouts_.Of(slot);
  flow_timers_.Arm(slot, timeout == Nanos::max()
                             ? Instant::max()
                             : flows_.hot(slot).last_packet + timeout);
}

// Requires that the flowlet is closed and the flow's timer not armed.
void Controller::EndFlow(Instant now, uint32_t slot, ControllerOut& out) {
  const UnitId owner = flows_.cold(slot).owner;
  ++counters_.flows_ended;
  flows_.Unlink(slot);
  if (owner == kNoUnit) {
    flows_.Free(slot);
    return;
  }
  const Clock last = flows_.hot(slot).clock;
  out.push(ControllerCommand::End(owner, {IdOf(slot), last}));
  Disown(now, owner);
  aliases_.Erase(slot, last);
  idle_timeouts_.Erase(slot);
  if (awaits_ends_) {
    flows_.hot(slot).flags = FlowHot::kEnding;
  } else {
    ForgetFlow(slot);
  }
}

// An older copy that is left although a newer one is gone was taken over. The
// news of that is lost if the unit that took it over failed before it could
// report, and the receiver of the Takeover has restarted since.
void Controller::ForgetOldest(uint32_t slot, ControllerOut& out) {
  if (!forgets_copies_ || is_recovering() || owners_.runs(slot) < 2) return;
  const OwnerHistory::Run oldest = owners_.run(slot, 0);
  if (oldest.is_taken || !owners_.run(slot, 1).is_taken) return;
  out.push(ControllerCommand::Forget(oldest.unit, oldest.at_logger,
                                     {IdOf(slot), oldest.last + 1}));
}

void Controller::WaitToEnd(Instant now, uint32_t slot, ControllerOut& out) {
  flow_timers_.Arm(slot, now + kEndRetry);
  ForgetOldest(slot, out);
}

// While older copies are left, only the owner knows of the end, and might fail
// together with the controller; and the owner forgets the end once a logger has
// it.
void Controller::EndAgain(Instant now, uint32_t slot, ControllerOut& out) {
  if (forgets_copies_ && IsMoving(slot)) {
    WaitToEnd(now, slot, out);
    return;
  }
  ++counters_.failures.ends_repeated;
  out.push(ControllerCommand::End(flows_.cold(slot).owner,
                                  {IdOf(slot), flows_.hot(slot).clock}));
}

void Controller::ForgetFlow(uint32_t slot) {
  flow_timers_.Disarm(slot);
  owners_.Erase(slot);
  failover_.Erase(slot);
  flows_.Free(slot);
}

bool Controller::on_ended(FlowId flow) {
  if (!Keeps(flow) || !IsEnding(slot_of(flow))) return false;
  ForgetFlow(slot_of(flow));
  return true;
}

// Ends a flow to make room for another. Returns false if there is none that may
// go.
bool Controller::EvictFlow(Instant now, ControllerOut& out) {
  uint32_t victim = FlowTable::kNone;
  Nanos shortest = Nanos::max();
  for (uint32_t i = 0; i < std::min(kEvictSlots, flows_.used()); ++i) {
    const uint32_t slot = evict_next_;
    evict_next_ = slot + 1 < flows_.used() ? slot + 1 : 0;
    const FlowHot& flow = flows_.hot(slot);
    const Nanos idle = now - flow.last_packet;
    if ((flow.flags & FlowHot::kOpen) != 0 || idle < evict_after_) continue;
    if (IsMoving(slot) || IsEnding(slot)) continue;
    // A flow without a timeout stays.
    const Nanos timeout = idle_timeouts_.Of(slot);
    if (timeout == Nanos::max()) continue;
    const Nanos left{timeout.ns - idle.ns};
    if (victim != FlowTable::kNone && left >= shortest) continue;
    victim = slot;
    shortest = left;
  }
  if (victim == FlowTable::kNone) return false;
  flow_timers_.Disarm(victim);
  EndFlow(now, victim, out);
  ++counters_.flows_evicted;
  return true;
}

void Controller::Evacuate(Instant now, ControllerOut& out) {
  evacuate_at_ = now;
  units_.Refresh(now);
  // A unit that is leaving gets no more flows, so one round through the table,
  // from where it began to leave, finds all flows that it owns.
  for (uint32_t i = 0; i < evacuate_slots_ && IsEvacuating(); ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    if (evacuate_next_ >= flows_.used()) evacuate_next_ = 0;
    const UnitId owner = flows_.cold(evacuate_next_).owner;
    if (owner != kNoUnit && !IsEnding(evacuate_next_) &&
        units_.state(owner) == UnitPool::State::kStopping &&
        !SendNullPacket(now, evacuate_next_, out)) {
      evacuate_at_ = now + kEvacuateRetry;
      return;
    }
    ++evacuate_next_;
  }
}

bool Controller::SendNullPacket(Instant now, uint32_t slot,
                                ControllerOut& out) {
  // Choose a unit in which the flow's next flowlet would fit as well.
  const uint32_t demand = units_.Quanta(flows_.cold(slot).demand_bps);
  UnitId receiver = demand <= units_.limit()
                        ? units_.FullestAtMost(units_.limit() - demand)
                        : kNoUnit;
  if (receiver == kNoUnit) receiver = units_.LeastLoaded();
  // The chosen unit may have little load and yet a channel full of small
  // packets.
  return MoveByNullPacket(now, slot, receiver, 0, out) ||
         MoveByNullPacket(now, slot, units_.LeastLoaded(), 0, out);
}

bool Controller::MoveByNullPacket(Instant now, uint32_t slot, UnitId receiver,
                                  uint8_t flags, ControllerOut& out) {
  const uint64_t number = units_.TakeSlot(now, receiver, 0);
  if (number == 0) return false;
  FlowHot& flow = flows_.hot(slot);
  const FlowCold& cold = flows_.cold(slot);
  flow.clock = flow.clock + 1;
  const PacketMeta meta = {
      .flow = IdOf(slot),
      .clock = flow.clock,
      .arrival = now,
      .channel_number = number,
      .flowlet = flows_.numbers(slot).flowlet,
      .source = cold.owner,
      .source_kind = StateSource::kUnit,
      .flags = static_cast<uint8_t>(PacketMeta::kFirstOfFlowlet |
                                    PacketMeta::kNull | flags)};
  // A late packet needs a new decision, even if the unit is back by then.
  if (flow.unit == cold.owner) {
    if ((flow.flags & FlowHot::kOpen) != 0) CloseFlowlet(slot);
    flow.unit = kNoUnit;
  }
  // Replicas that were pushed are older than this clock.
  flows_.SetReplicas(slot, {});
  ChangeOwner(now, slot, receiver, out);
  ++counters_.null_packets;
  out.push(ControllerCommand::Enqueue(receiver, kNoPacket, meta));
  return true;
}

void Controller::on_timer_due(Instant now, const TimerDue& due,
                              ControllerOut& out) {
  const uint32_t slot = slot_of(due.flow);
  if (!Knows(due.flow)) {
    ++counters_.timers_refused_unknown;
  } else if (due.applied > flows_.hot(slot).clock) {
    ++counters_.timers_refused_future;
  } else if (due.applied < flows_.hot(slot).clock ||
             due.unit != flows_.cold(slot).owner) {
    ++counters_.timers_refused_stale;
  } else if (!SendTimerPacket(now, slot, out)) {
    ++counters_.timers_without_slot;
  }
}

bool Controller::SendTimerPacket(Instant now, uint32_t slot,
                                 ControllerOut& out) {
  const UnitId owner = flows_.cold(slot).owner;
  const UnitPool::State state = units_.state(owner);
  if (state == UnitPool::State::kWarm || state == UnitPool::State::kStopping) {
    UnitId receiver = units_.LeastLoaded();
    if (receiver == kNoUnit) receiver = units_.Reopen(now);
    if (receiver == kNoUnit) receiver = units_.TakeWarm(now, out);
    if (receiver == kNoUnit) receiver = units_.UseStarting(now);
    if (receiver == kNoUnit) receiver = units_.StartStopped(now, out);
    if (receiver == kNoUnit) return false;
    if (receiver != owner) {
      if (!MoveByNullPacket(now, slot, receiver, PacketMeta::kTimer, out)) {
        return false;
      }
      ++counters_.timer_packets;
      return true;
    }
  }
  const uint64_t number = units_.TakeSlot(now, owner, 0);
  if (number == 0) return false;
  FlowHot& flow = flows_.hot(slot);
  flow.clock = flow.clock + 1;
  ++counters_.timer_packets;
  out.push(ControllerCommand::Enqueue(
      owner, kNoPacket,
      {.flow = IdOf(slot),
       .clock = flow.clock,
       .arrival = now,
       .channel_number = number,
       .flowlet = flows_.numbers(slot).flowlet,
       .flags = PacketMeta::kNull | PacketMeta::kTimer}));
  return true;
}

}  // namespace snf
