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
    : replicas_(Replicas(options, policy)),
      likely_(options.replica_choice == ReplicaChoice::kLikely),
      names_flows_(options.names_flows),
      forgets_copies_(options.forgets_copies),
      evacuate_slots_(options.evacuate_slots),
      controller_id_(options.controller_id),
      flowlets_(options, policy),
      flows_(options.max_flows, options.hash_seed, replicas_),
      aliases_(options.max_flows, options.hash_seed),
      idle_timeouts_(options.max_flows, options.flow_timeout),
      flow_timers_(options.max_flows, Pages::kGrowing),
      cost_(options),
      units_(options),
      pieces_(options.max_units),
      chooser_(options),
      chances_(options),
      rng_(options.seed),
      owners_(options.max_flows, options.max_owner_runs != 0
                                     ? options.max_owner_runs
                                     : options.max_flows),
      ends_(options),
      failover_(options, owners_.max_runs()) {
  SNF_CHECK(evacuate_slots_ > 0);
  flows_.set_epoch(options.epoch, options.names_flows);
}

bool Controller::Tune(Instant now, const ControllerOptions& options) {
  SNF_CHECK(options.flowlet_timeout.ns > 0 &&
            options.flow_timeout > options.flowlet_timeout);
  SNF_CHECK(options.replicas <= kMaxReplicas);
  if (!units_.Tune(now, options)) return false;
  flowlets_.Tune(options);
  ends_.set_evict_after(options.evict_after);
  idle_timeouts_.set_otherwise(options.flow_timeout);
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
    if (slot == FlowTable::kNone && ends_.Evict(*this, now, out)) {
      slot = flows_.Insert(arrival.key, hash);
    }
    if (slot == FlowTable::kNone) {
      out.push(
          ControllerCommand::Drop(arrival.packet, DropReason::kFlowTableFull));
      return;
    }
    ++counters_.flows;
    CountLongProbes();
    flowlets_.Begin(*this, now, arrival, slot, FlowletCause::kNewFlow, out);
  } else {
    const FlowHot& flow = flows_.hot(slot);
    if (arrival.time - flow.last_packet > flowlets_.timeout()) {
      ++counters_.flowlets_by_gap;
      flowlets_.Begin(*this, now, arrival, slot, FlowletCause::kGap, out);
    } else if (int64_t{flow.flowlet_bytes} + cost_(arrival.original_length) >
               flowlets_.most_bytes()) {
      ++counters_.flowlets_by_bytes;
      flowlets_.Begin(*this, now, arrival, slot, FlowletCause::kBytes, out);
    } else if ((flow.flags & FlowHot::kOpen) == 0) {
      flowlets_.Resume(*this, now, arrival, slot, out);
    }
  }
  FlowHot& flow = flows_.hot(slot);
  flow.last_packet = std::max(flow.last_packet, arrival.time);
  flow.flowlet_bytes += cost_(arrival.original_length);
  Enqueue(now, arrival, slot, out);
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
    flowlets_.Place(*this, now, arrival, slot, FlowletCause::kLate, out);
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
      Flowlets::CountMove(move, counters_);
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

void Controller::on_timers(Instant now, ControllerOut& out) {
  const bool was_leaving = units_.leaving_flows() > 0;
  for (uint32_t i = 0; i < kTimersPerCall; ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) break;
    const uint32_t slot = flow_timers_.PopDue(now);
    if (slot == TimingWheel::kNone) break;
    ends_.on_flow_timer(*this, now, slot, out);
  }
  while (out.room() >= kMaxControllerCommandsPerStep) {
    if (!units_.on_timer(now, out)) break;
  }
  while (pieces_.on_timer(now, counters_.pieces, out)) {
  }
  if (failover_.wakeup() <= now) failover_.Advance(*this, now, out);
  if (null_packets_.IsDue(now, units_, was_leaving)) {
    null_packets_.Evacuate(*this, now, out);
  }
}

}  // namespace snf
