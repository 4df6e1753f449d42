// SPDX-License-Identifier: Apache-2.0
#include "controller/core/flowlets.h"

#include <algorithm>

#include "base/check.h"
#include "controller/core/controller.h"

namespace snf {

Flowlets::Flowlets(const ControllerOptions& options,
                   const PlacementPolicy& policy)
    : timeout_(options.flowlet_timeout),
      timeout_at_start_(options.flowlet_timeout),
      most_bytes_(policy.per_packet() ? int64_t{-1} : options.flowlet_bytes),
      replicas_after_{(Instant{timeout_.ns / 2} + options.push_delay).ns},
      alpha_(options.alpha_1024),
      policy_(&policy),
      demand_(options),
      periods_(options.reassign_period) {
  SNF_CHECK(timeout_.ns > 0 && options.flow_timeout > timeout_);
  SNF_CHECK(options.flowlet_bytes > 0 &&
            options.flowlet_bytes <= 1'000'000'000);
  SNF_CHECK(options.push_delay.ns >= 0);
}

void Flowlets::Tune(const ControllerOptions& options) {
  timeout_ = options.flowlet_timeout;
  if (most_bytes_ >= 0) most_bytes_ = options.flowlet_bytes;
  // Units go on pushing after half of the timeout that they began with.
  const Nanos pushes_after = {std::max(timeout_, timeout_at_start_).ns / 2};
  replicas_after_ = {(Instant{pushes_after.ns} + options.push_delay).ns};
  alpha_ = options.alpha_1024;
  periods_.set_period(options.reassign_period);
  demand_.Tune(options);
}

void Flowlets::Begin(Controller& c, Instant now, const Arrival& arrival,
                     uint32_t slot, FlowletCause cause, ControllerOut& out) {
  FlowHot& flow = c.flows_.hot(slot);
  FlowCold& cold = c.flows_.cold(slot);
  if (cause == FlowletCause::kNewFlow) {
    cold.demand_bps = demand_.FirstDemand();
    flow.last_packet = arrival.time;
  } else if ((flow.flags & FlowHot::kOpen) != 0) {
    Close(c, slot);
  }
  ++c.flows_.numbers(slot).flowlet;
  ++c.counters_.flowlets;
  Place(c, now, arrival, slot, cause, out);
  cold.flowlet_first = std::max(flow.last_packet, arrival.time);
  flow.flowlet_bytes = 0;
}

void Flowlets::Resume(Controller& c, Instant now, const Arrival& arrival,
                      uint32_t slot, ControllerOut& out) {
  // Either the timer closed the flowlet before a packet that had arrived in
  // time was handled, or there was no unit for the flowlet so far.
  FlowHot& flow = c.flows_.hot(slot);
  if (flow.unit == kNoUnit || !c.units_.placeable(flow.unit)) {
    Place(c, now, arrival, slot, FlowletCause::kLate, out);
    return;
  }
  flow.flags |= FlowHot::kOpen;
  c.units_.OpenFlowlet(flow.unit, c.flows_.cold(slot).demand_bps);
  c.flow_timers_.Arm(slot, arrival.time + timeout_ + Nanos{1});
}

void Flowlets::Place(Controller& c, Instant now, const Arrival& arrival,
                     uint32_t slot, FlowletCause cause, ControllerOut& out) {
  FlowHot& flow = c.flows_.hot(slot);
  const FlowCold& cold = c.flows_.cold(slot);
  const Nanos gap = arrival.time - flow.last_packet;
  const uint16_t before = flow.flags;
  c.units_.Refresh(now);
  ReplicaSet landed;
  if (cause == FlowletCause::kGap && gap >= replicas_after_) {
    c.flows_.GetReplicas(slot, landed);
  }
  const PlacementRequest request = {
      .demand = c.units_.Quanta(cold.demand_bps),
      .owner = cold.owner,
      .alpha = alpha_,
      .replicas = landed,
      .owner_alpha = c.units_.by_wait() ? alpha_ : 0,
      .gap = c.units_.by_wait() && cause != FlowletCause::kNewFlow
                 ? gap
                 : Nanos::max(),
      .demand_bps = cold.demand_bps,
      .key_hash = Hash(flow.key),
      .new_period = cause == FlowletCause::kNewFlow ||
                    periods_.Begins(arrival.time, flow.last_packet)};
  const Placement placement = policy_->Place(now, request, c.units_, out);
  c.counters_.decisions += placement.kept ? 0 : 1;
  c.counters_.overcommitted += placement.overcommitted ? 1 : 0;
  if (observer_ != nullptr) {
    observer_->on_decision({.time = arrival.time,
                            .flow = c.IdOf(slot),
                            .flowlet = c.flows_.numbers(slot).flowlet,
                            .cause = cause,
                            .gap = gap,
                            .bytes = flow.flowlet_bytes,
                            .demand_bps = cold.demand_bps,
                            .request = request,
                            .placement = placement},
                           c.units_);
  }
  const bool moves = cold.owner != kNoUnit && placement.unit != cold.owner;
  if (c.likely_ && cause == FlowletCause::kGap) {
    // A replica is of no use to a move within the host.
    const bool leaves_host =
        moves && !c.units_.hosts().Share(cold.owner, placement.unit);
    c.chances_.Count(flow.flags >> FlowHot::kKindShift, leaves_host);
  }
  flow.unit = placement.unit;
  const bool goes_on = cause == FlowletCause::kLate;
  flow.flags = FlowHot::kFirstPending;
  flow.flags |= goes_on ? before & FlowHot::kMeasured : 0;
  flow.flags |= before & (FlowHot::kCondemned | FlowHot::kHanded);
  if (moves) {
    const MoveCause move = CauseOfMove(c, slot, request, placement.unit);
    flow.flags |=
        static_cast<uint16_t>(static_cast<int>(move) << FlowHot::kMoveShift);
  }
  c.flow_timers_.Arm(slot, arrival.time + timeout_ + Nanos{1});
  if (placement.unit == kNoUnit) return;
  flow.flags |= FlowHot::kOpen;
  if (c.likely_) {
    const uint32_t kind =
        MoveChances::KindOf(placement.unit, request.demand, c.units_);
    flow.flags |= static_cast<uint16_t>(kind << FlowHot::kKindShift);
  }
  c.units_.OpenFlowlet(placement.unit, cold.demand_bps);
  ScaleAhead(c, now, out);
}

void Flowlets::ScaleAhead(Controller& c, Instant now, ControllerOut& out) {
  if (c.units_.starting_units() > 0) return;
  if (c.units_.by_wait()) {
    // A warm unit is there in no time, so none is taken before it is needed.
    if (!c.units_.has_spare()) c.units_.StartStopped(now, out);
    return;
  }
  constexpr uint32_t kNearlyFull = kFullLoad * 9 / 10;
  if (c.units_.load(c.units_.LeastLoaded()) <= kNearlyFull) return;
  if (c.units_.TakeWarm(now, out) == kNoUnit) c.units_.StartStopped(now, out);
}

MoveCause Flowlets::CauseOfMove(const Controller& c, uint32_t slot,
                                const PlacementRequest& request, UnitId to) {
  if (HasState(request, to, c.units_)) return MoveCause::kState;
  ReplicaSet ordered;
  c.flows_.GetReplicas(slot, ordered);
  if (ordered.count == 0) return MoveCause::kNoReplica;
  const bool is_ordered = std::ranges::any_of(ordered.span(), [&](UnitId unit) {
    return c.units_.hosts().Share(unit, to);
  });
  return is_ordered ? MoveCause::kTooSoon : MoveCause::kElsewhere;
}

void Flowlets::CountMove(MoveCause cause, ControllerCounters& counters) {
  ++counters.flowlets_moved;
  switch (cause) {
    case MoveCause::kState:
      break;
    case MoveCause::kNoReplica:
      ++counters.moved_without_replica;
      break;
    case MoveCause::kElsewhere:
      ++counters.moved_elsewhere;
      break;
    case MoveCause::kTooSoon:
      ++counters.moved_too_soon;
      break;
  }
}

void Flowlets::Close(Controller& c, uint32_t slot) {
  FlowHot& flow = c.flows_.hot(slot);
  FlowCold& cold = c.flows_.cold(slot);
  flow.flags &= static_cast<uint16_t>(~FlowHot::kOpen);
  c.units_.CloseFlowlet(flow.unit, cold.demand_bps);
  if ((flow.flags & FlowHot::kMeasured) != 0) return;
  flow.flags |= FlowHot::kMeasured;
  const int64_t measured = demand_.Measure(
      flow.flowlet_bytes, flow.last_packet - cold.flowlet_first);
  cold.demand_bps = demand_.Update(cold.demand_bps, measured);
}

}  // namespace snf
