// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_changes.h"

#include "runtime/sdk/state_schema.h"

namespace snf {

void UnitChanges::LogEnd(Instant now, uint32_t slot, FlowStore& flows,
                         UnitOut& out) {
  is_whole_ = flows.AddEntry(slot);
  logged_slot_ = kNone;
  out.push(
      UnitCommand::OfPacket(UnitCommand::Kind::kLog, kNoPacket,
                            {.flow = flows[slot].flow,
                             .clock = flows[slot].applied + 1,
                             .arrival = now,
                             .flags = PacketMeta::kNull | PacketMeta::kEnd}));
}

UnitChanges::Change UnitChanges::last(const FlowStore& flows,
                                      const NfCalls& nf) const {
  if (logged_slot_ == kNone) return {.is_whole = is_whole_};
  if (is_whole_) return WholeOf(logged_slot_, flows);
  // The record is not looked at: most of it may be far.
  const FlowRecord& record = flows[logged_slot_];
  return {.is_whole = false,
          .clock = record.applied,
          .timer = record.timer,
          .link = record.link,
          .bytes = nf.delta()};
}

UnitChanges::Change UnitChanges::WholeOf(uint32_t slot,
                                         const FlowStore& flows) {
  const FlowRecord& record = flows[slot];
  return {.is_whole = true,
          .clock = record.applied,
          .timer = record.timer,
          .link = record.link,
          .bytes = StateSchema::WithoutZeros(flows.state(slot))};
}

UnitChanges::Change UnitChanges::Whole(FlowId flow, const FlowStore& flows) {
  const uint32_t slot = flows.Find(flow);
  const bool is_settled =
      slot != kNone && flows[slot].is_own() && flows[slot].parked == kNone;
  return is_settled ? WholeOf(slot, flows) : Change{};
}

std::optional<UnitChanges::LoggedFlow> UnitChanges::NextLogged(
    uint32_t& at, const FlowStore& flows) {
  while (at < flows.slots()) {
    const uint32_t slot = at++;
    const FlowRecord& record = flows[slot];
    if (record.flow == kNoFlow || !flows.has_base(slot)) continue;
    return LoggedFlow{.flow = record.flow,
                      .record = WholeOf(slot, flows),
                      .is_parked = record.parked != kNone};
  }
  return std::nullopt;
}

}  // namespace snf
