// SPDX-License-Identifier: Apache-2.0
#include "controller/hand_over/hand_over.h"

#include "base/check.h"

namespace snf {

std::optional<HandedFlow> FlowHandOver::Read(const Controller& c, FlowId flow) {
  if (!c.Knows(flow)) return std::nullopt;
  const uint32_t slot = slot_of(flow);
  // Somebody may have an old copy, which a successor could take for a flow.
  if (c.forgets_copies_ && c.owners_.runs(slot) > 0) return std::nullopt;
  return ReadAsOf(c, flow, c.flows_.hot(slot).clock);
}

std::optional<HandedFlow> FlowHandOver::ReadAsOf(const Controller& c,
                                                 FlowId flow, Clock applied) {
  if (!c.Knows(flow)) return std::nullopt;
  const uint32_t slot = slot_of(flow);
  return HandedFlow{.name = c.NameOf(flow),
                    .last = applied,
                    .last_packet = c.flows_.hot(slot).last_packet,
                    .demand_bps = c.flows_.cold(slot).demand_bps,
                    .flowlet = c.flows_.numbers(slot).flowlet};
}

void FlowHandOver::Give(Controller& c, Instant now, FlowId flow) {
  SNF_CHECK(c.Knows(flow));
  const uint32_t slot = slot_of(flow);
  FlowHot& hot = c.flows_.hot(slot);
  if ((hot.flags & FlowHot::kOpen) != 0) c.CloseFlowlet(slot);
  c.flow_timers_.Disarm(slot);
  ++c.counters_.flows_ended;
  c.flows_.Unlink(slot);
  c.Disown(now, c.flows_.cold(slot).owner);
  c.aliases_.Erase(slot, hot.clock);
  c.idle_timeouts_.Erase(slot);
  hot.flags = FlowHot::kEnding | (hot.flags & FlowHot::kHanded);
}

std::optional<FlowId> FlowHandOver::Take(Controller& c, Instant now,
                                         const HandedFlow& flow,
                                         ControllerOut& out) {
  c.units_.Refresh(now);
  UnitId unit = c.units_.LeastLoaded();
  if (unit == kNoUnit) unit = c.units_.Reopen(now);
  if (unit == kNoUnit) unit = c.units_.TakeWarm(now, out);
  if (unit == kNoUnit) unit = c.units_.UseStarting(now);
  if (unit == kNoUnit) unit = c.units_.StartStopped(now, out);
  const FlowKey& key = flow.name.key;
  const uint64_t hash = c.flows_.HashOf(key);
  const FlowKey& alias = flow.name.alias;
  if (unit == kNoUnit || c.flows_.Find(key, hash) != FlowTable::kNone ||
      (alias != FlowKey{} &&
       c.aliases_.Find(alias, c.flows_.HashOf(alias)) != AliasTable::kNone)) {
    return std::nullopt;
  }
  const uint32_t slot = c.flows_.Insert(key, hash);
  if (slot == FlowTable::kNone) {
    c.ends_.Evict(c, now, out);
    return std::nullopt;
  }
  const uint64_t number = c.units_.TakeSlot(now, unit, 0);
  if (number == 0) {
    c.flows_.Unlink(slot);
    c.flows_.Free(slot);
    return std::nullopt;
  }
  ++c.counters_.flows_inherited;
  const FlowId id = c.IdOf(slot);
  FlowHot& hot = c.flows_.hot(slot);
  hot.clock = flow.last + 1;
  hot.last_packet = flow.last_packet;
  hot.unit = kNoUnit;
  hot.flags |= FlowHot::kHanded;
  c.flows_.numbers(slot).flowlet = flow.flowlet;
  c.flows_.cold(slot).demand_bps = flow.demand_bps;
  if (alias != FlowKey{}) {
    const AliasResult result =
        c.aliases_.Set(slot, {.key = alias,
                              .flow = id,
                              .clock = flow.name.alias_clock,
                              .group = flow.name.alias_group});
    SNF_CHECK(result == AliasResult::kGranted);
  }
  if (flow.name.idle_timeout.ns > 0) {
    c.idle_timeouts_.Set(slot, flow.name.timeout_clock, flow.name.idle_timeout);
  }
  FlowEnds::ArmIdle(c, slot);
  c.ChangeOwner(now, slot, unit, out);
  ++c.counters_.null_packets;
  out.push(ControllerCommand::Enqueue(
      unit, kNoPacket,
      {.flow = id,
       .clock = hot.clock,
       .arrival = now,
       .channel_number = number,
       .flowlet = flow.flowlet,
       .source = unit,
       .source_kind = StateSource::kUnit,
       .flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kNull}));
  return id;
}

}  // namespace snf
