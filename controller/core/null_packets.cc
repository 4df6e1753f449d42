// SPDX-License-Identifier: Apache-2.0
#include "controller/core/null_packets.h"

#include "controller/core/controller.h"

namespace snf {

void NullPackets::Evacuate(Controller& c, Instant now, ControllerOut& out) {
  evacuate_at_ = now;
  c.units_.Refresh(now);
  // A unit that is leaving gets no more flows, so one round through the table,
  // from where it began to leave, finds all flows that it owns.
  for (uint32_t i = 0; i < c.evacuate_slots_ && IsEvacuating(c.units_); ++i) {
    if (out.room() < kMaxControllerCommandsPerStep) return;
    if (evacuate_next_ >= c.flows_.used()) evacuate_next_ = 0;
    const UnitId owner = c.flows_.cold(evacuate_next_).owner;
    if (owner != kNoUnit && !c.IsEnding(evacuate_next_) &&
        c.units_.state(owner) == UnitPool::State::kStopping &&
        !SendNullPacket(c, now, evacuate_next_, out)) {
      evacuate_at_ = now + kEvacuateRetry;
      return;
    }
    ++evacuate_next_;
  }
}

bool NullPackets::SendNullPacket(Controller& c, Instant now, uint32_t slot,
                                 ControllerOut& out) {
  const UnitPool& units = c.units_;
  // Choose a unit in which the flow's next flowlet would fit as well.
  const uint32_t demand = units.Quanta(c.flows_.cold(slot).demand_bps);
  UnitId receiver = demand <= units.limit()
                        ? units.FullestAtMost(units.limit() - demand)
                        : kNoUnit;
  if (receiver == kNoUnit) receiver = units.LeastLoaded();
  // The chosen unit may have little load and yet a channel full of small
  // packets.
  return MoveFlow(c, now, slot, receiver, 0, out) ||
         MoveFlow(c, now, slot, units.LeastLoaded(), 0, out);
}

bool NullPackets::MoveFlow(Controller& c, Instant now, uint32_t slot,
                           UnitId receiver, uint8_t flags, ControllerOut& out) {
  const uint64_t number = c.units_.TakeSlot(now, receiver, 0);
  if (number == 0) return false;
  FlowHot& flow = c.flows_.hot(slot);
  const FlowCold& cold = c.flows_.cold(slot);
  flow.clock = flow.clock + 1;
  const PacketMeta meta = {
      .flow = c.IdOf(slot),
      .clock = flow.clock,
      .arrival = now,
      .channel_number = number,
      .flowlet = c.flows_.numbers(slot).flowlet,
      .source = cold.owner,
      .source_kind = StateSource::kUnit,
      .flags = static_cast<uint8_t>(PacketMeta::kFirstOfFlowlet |
                                    PacketMeta::kNull | flags)};
  // A late packet needs a new decision, even if the unit is back by then.
  if (flow.unit == cold.owner) {
    if ((flow.flags & FlowHot::kOpen) != 0) c.CloseFlowlet(slot);
    flow.unit = kNoUnit;
  }
  // Replicas that were pushed are older than this clock.
  c.flows_.SetReplicas(slot, {});
  c.ChangeOwner(now, slot, receiver, out);
  ++c.counters_.null_packets;
  out.push(ControllerCommand::Enqueue(receiver, kNoPacket, meta));
  return true;
}

void NullPackets::on_timer_due(Controller& c, Instant now, const TimerDue& due,
                               ControllerOut& out) {
  const uint32_t slot = slot_of(due.flow);
  if (!c.Knows(due.flow)) {
    ++c.counters_.timers_refused_unknown;
  } else if (due.applied > c.flows_.hot(slot).clock) {
    ++c.counters_.timers_refused_future;
  } else if (due.applied < c.flows_.hot(slot).clock ||
             due.unit != c.flows_.cold(slot).owner) {
    ++c.counters_.timers_refused_stale;
  } else if (!SendTimerPacket(c, now, slot, out)) {
    ++c.counters_.timers_without_slot;
  }
}

bool NullPackets::SendTimerPacket(Controller& c, Instant now, uint32_t slot,
                                  ControllerOut& out) {
  UnitPool& units = c.units_;
  const UnitId owner = c.flows_.cold(slot).owner;
  const UnitPool::State state = units.state(owner);
  if (state == UnitPool::State::kWarm || state == UnitPool::State::kStopping) {
    UnitId receiver = units.LeastLoaded();
    if (receiver == kNoUnit) receiver = units.Reopen(now);
    if (receiver == kNoUnit) receiver = units.TakeWarm(now, out);
    if (receiver == kNoUnit) receiver = units.UseStarting(now);
    if (receiver == kNoUnit) receiver = units.StartStopped(now, out);
    if (receiver == kNoUnit) return false;
    if (receiver != owner) {
      if (!MoveFlow(c, now, slot, receiver, PacketMeta::kTimer, out)) {
        return false;
      }
      ++c.counters_.timer_packets;
      return true;
    }
  }
  const uint64_t number = units.TakeSlot(now, owner, 0);
  if (number == 0) return false;
  FlowHot& flow = c.flows_.hot(slot);
  flow.clock = flow.clock + 1;
  ++c.counters_.timer_packets;
  out.push(ControllerCommand::Enqueue(
      owner, kNoPacket,
      {.flow = c.IdOf(slot),
       .clock = flow.clock,
       .arrival = now,
       .channel_number = number,
       .flowlet = c.flows_.numbers(slot).flowlet,
       .flags = PacketMeta::kNull | PacketMeta::kTimer}));
  return true;
}

}  // namespace snf
