// SPDX-License-Identifier: Apache-2.0
#include "controller/core/controller.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace snf {

Controller::Controller(const ControllerOptions& options,
                       const PlacementPolicy& policy)
    : flowlet_timeout_(options.flowlet_timeout),
      flowlet_bytes_(options.flowlet_bytes),
      flow_timeout_(options.flow_timeout),
      alpha_(options.alpha_1024),
      controller_id_(options.controller_id),
      policy_(&policy),
      flows_(options.max_flows, options.hash_seed),
      flow_timers_(options.max_flows),
      demand_(options),
      pool_(options) {
  SNF_CHECK(flowlet_timeout_.ns > 0 && flow_timeout_ > flowlet_timeout_);
  SNF_CHECK(flowlet_bytes_ > 0 && flowlet_bytes_ <= 1'000'000'000);
}

size_t Controller::on_packets(Instant now, std::span<const Arrival> arrivals,
                              ControllerOut& out) {
  size_t done = 0;
  while (done < arrivals.size()) {
    const auto batch =
        arrivals.subspan(done, std::min(kBatch, arrivals.size() - done));
    std::array<uint64_t, kBatch> hashes;
    for (size_t i = 0; i < batch.size(); ++i) {
      hashes[i] = flows_.HashOf(batch[i].key);
      flows_.PrefetchIndex(hashes[i]);
    }
    if (batch.size() > 1) {
      for (size_t i = 0; i < batch.size(); ++i) {
        flows_.PrefetchEntry(hashes[i]);
      }
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      if (out.room() < kMaxControllerCommandsPerStep) return done;
      OnPacket(now, batch[i], hashes[i], out);
      ++done;
    }
  }
  return done;
}

void Controller::OnPacket(Instant now, const Arrival& arrival, uint64_t hash,
                          ControllerOut& out) {
  uint32_t slot = flows_.Find(arrival.key, hash);
  if (slot == FlowTable::kNone) {
    slot = flows_.Insert(arrival.key, hash);
    if (slot == FlowTable::kNone) {
      out.push(
          ControllerCommand::Drop(arrival.packet, DropReason::kFlowTableFull));
      return;
    }
    ++counters_.flows;
    BeginFlowlet(now, arrival, slot, FlowletCause::kNewFlow, out);
  } else {
    const FlowHot& flow = flows_.hot(slot);
    if (arrival.time - flow.last_packet > flowlet_timeout_) {
      ++counters_.flowlets_by_gap;
      BeginFlowlet(now, arrival, slot, FlowletCause::kGap, out);
    } else if (uint64_t{flow.flowlet_bytes} + arrival.original_length >
               flowlet_bytes_) {
      ++counters_.flowlets_by_bytes;
      BeginFlowlet(now, arrival, slot, FlowletCause::kBytes, out);
    } else if ((flow.flags & FlowHot::kOpen) == 0) {
      ResumeFlowlet(now, arrival, slot, out);
    }
  }
  FlowHot& flow = flows_.hot(slot);
  flow.last_packet = std::max(flow.last_packet, arrival.time);
  flow.flowlet_bytes += arrival.original_length;
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
  ++cold.flowlet;
  ++counters_.flowlets;
  PlaceFlowlet(now, arrival, slot, cause, out);
  cold.flowlet_first = std::max(flow.last_packet, arrival.time);
  flow.flowlet_bytes = 0;
}

void Controller::ResumeFlowlet(Instant now, const Arrival& arrival,
                               uint32_t slot, ControllerOut& out) {
  // The timer closed it, and then came a packet that had arrived in time; or
  // there was no unit for it so far.
  FlowHot& flow = flows_.hot(slot);
  if (flow.unit == kNoUnit || !pool_.placeable(flow.unit)) {
    PlaceFlowlet(now, arrival, slot, FlowletCause::kLate, out);
    return;
  }
  flow.flags |= FlowHot::kOpen;
  pool_.OpenFlowlet(flow.unit, flows_.cold(slot).demand_bps);
  flow_timers_.Arm(slot, arrival.time + flowlet_timeout_ + Nanos{1});
}

void Controller::PlaceFlowlet(Instant now, const Arrival& arrival,
                              uint32_t slot, FlowletCause cause,
                              ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  const FlowCold& cold = flows_.cold(slot);
  pool_.Refresh(now);
  const PlacementRequest request = {.demand = pool_.Quanta(cold.demand_bps),
                                    .owner = cold.owner,
                                    .alpha = alpha_};
  const Placement placement = policy_->Place(now, request, pool_, out);
  ++counters_.decisions;
  counters_.overcommitted += placement.overcommitted ? 1 : 0;
  if (observer_ != nullptr) {
    observer_->on_decision({.time = arrival.time,
                            .flow = IdOf(slot),
                            .flowlet = cold.flowlet,
                            .cause = cause,
                            .gap = arrival.time - flow.last_packet,
                            .bytes = flow.flowlet_bytes,
                            .demand_bps = cold.demand_bps,
                            .request = request,
                            .placement = placement},
                           pool_);
  }
  flow.unit = placement.unit;
  flow.flags = FlowHot::kFirstPending;
  flow_timers_.Arm(slot, arrival.time + flowlet_timeout_ + Nanos{1});
  if (placement.unit == kNoUnit) return;
  flow.flags |= FlowHot::kOpen;
  pool_.OpenFlowlet(placement.unit, cold.demand_bps);
  ScaleAhead(now, out);
}

void Controller::CloseFlowlet(uint32_t slot) {
  FlowHot& flow = flows_.hot(slot);
  FlowCold& cold = flows_.cold(slot);
  flow.flags &= static_cast<uint16_t>(~FlowHot::kOpen);
  pool_.CloseFlowlet(flow.unit, cold.demand_bps);
  const int64_t measured = demand_.Measure(
      flow.flowlet_bytes, flow.last_packet - cold.flowlet_first);
  cold.demand_bps = demand_.Update(cold.demand_bps, measured);
}

void Controller::Enqueue(Instant now, const Arrival& arrival, uint32_t slot,
                         ControllerOut& out) {
  FlowHot& flow = flows_.hot(slot);
  const uint64_t number =
      flow.unit == kNoUnit
          ? 0
          : pool_.TakeSlot(now, flow.unit, arrival.original_length);
  if (number == 0) {
    // Without any unit there is no buffer to wait in either.
    const bool starting = flow.unit == kNoUnit ||
                          pool_.state(flow.unit) == UnitPool::State::kStarting;
    out.push(ControllerCommand::Drop(
        arrival.packet,
        starting ? DropReason::kStartBufferFull : DropReason::kUnitQueueFull));
    return;
  }
  flow.clock = flow.clock + 1;
  PacketMeta meta = {.flow = IdOf(slot),
                     .clock = flow.clock,
                     .arrival = arrival.time,
                     .channel_number = number,
                     .flowlet = flows_.cold(slot).flowlet,
                     .original_length = arrival.original_length};
  if ((flow.flags & FlowHot::kFirstPending) != 0) {
    FlowCold& cold = flows_.cold(slot);
    flow.flags &= static_cast<uint16_t>(~FlowHot::kFirstPending);
    meta.flags = PacketMeta::kFirstOfFlowlet;
    if (cold.owner == kNoUnit) {
      meta.flags |= PacketMeta::kNewFlow;
    } else {
      meta.source_kind = StateSource::kUnit;
      meta.source = cold.owner;
    }
    if (cold.owner != flow.unit) {
      pool_.AddOwned(flow.unit);
      if (cold.owner != kNoUnit) {
        pool_.RemoveOwned(now, cold.owner);
        meta.flags |= PacketMeta::kMoved;
        ++counters_.flowlets_moved;
      }
      cold.owner = flow.unit;
    }
  }
  ++counters_.enqueued;
  out.push(ControllerCommand::Enqueue(flow.unit, arrival.packet, meta));
}

void Controller::ScaleAhead(Instant now, ControllerOut& out) {
  constexpr uint32_t kNearlyFull = kFullLoad * 9 / 10;
  const UnitId least = pool_.LeastLoaded();
  if (pool_.load(least) <= kNearlyFull || pool_.starting_units() > 0) return;
  if (pool_.TakeWarm(now, out) == kNoUnit) pool_.StartStopped(now, out);
}

void Controller::on_timers(Instant now, ControllerOut& out) {
  while (out.room() >= kMaxControllerCommandsPerStep) {
    const uint32_t slot = flow_timers_.PopDue(now);
    if (slot == TimingWheel::kNone) break;
    OnFlowTimer(now, slot, out);
  }
  while (out.room() >= kMaxControllerCommandsPerStep) {
    if (!pool_.OnTimer(now, out)) break;
  }
}

void Controller::OnFlowTimer(Instant now, uint32_t slot, ControllerOut& out) {
  const FlowHot& flow = flows_.hot(slot);
  if ((flow.flags & FlowHot::kOpen) != 0) {
    if (now - flow.last_packet > flowlet_timeout_) CloseFlowlet(slot);
  } else if (now - flow.last_packet >= flow_timeout_) {
    const UnitId owner = flows_.cold(slot).owner;
    if (owner != kNoUnit) {
      out.push(ControllerCommand::End(owner, {IdOf(slot), flow.clock}));
      pool_.RemoveOwned(now, owner);
    }
    flows_.Erase(slot);
    ++counters_.flows_ended;
    return;
  }
  if ((flow.flags & FlowHot::kOpen) != 0) {
    flow_timers_.Arm(slot, flow.last_packet + flowlet_timeout_ + Nanos{1});
  } else if (flow_timeout_ != Nanos::max()) {
    flow_timers_.Arm(slot, flow.last_packet + flow_timeout_);
  }
}

}  // namespace snf
