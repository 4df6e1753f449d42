// SPDX-License-Identifier: Apache-2.0
//
// The controller's handling of aliases and of notes about flows.
#include "controller/core/controller.h"

namespace snf {

AliasResult Controller::on_alias(const Alias& alias, ControllerOut& out) {
  AliasResult result = AliasResult::kUnknown;
  const bool can_answer = value(alias.unit) < units_.max_units();
  if (!can_answer || !Knows(alias.flow)) {
    ++counters_.aliases_refused_unknown;
  } else if (alias.clock > flows_.hot(slot_of(alias.flow)).clock) {
    ++counters_.aliases_refused_future;
  } else {
    const uint32_t slot = slot_of(alias.flow);
    result = aliases_.Set(slot, alias);
    if (result == AliasResult::kGranted) {
      const UnitId owner = flows_.cold(slot).owner;
      Name(slot, alias.unit, out);
      if (owner != alias.unit) Name(slot, owner, out);
    }
    ++(result == AliasResult::kGranted     ? counters_.aliases_granted
       : result == AliasResult::kConflict  ? counters_.aliases_conflict
       : result == AliasResult::kGroupFull ? counters_.aliases_group_full
                                           : counters_.aliases_refused_stale);
    CountLongProbes();
  }
  if (!can_answer) return result;
  out.push(ControllerCommand::Ack(
      alias.unit,
      {.flow = alias.flow, .clock = alias.clock, .result = result}));
  return result;
}

void Controller::on_flow_note(Instant now, const FlowNote& note,
                              ControllerOut& out) {
  if (!Knows(note.flow)) {
    ++counters_.notes_refused_unknown;
    return;
  }
  const uint32_t slot = slot_of(note.flow);
  const FlowHot& flow = flows_.hot(slot);
  if (note.clock > flow.clock) {
    ++counters_.notes_refused_future;
    return;
  }
  if (note.over) aliases_.Erase(slot, note.clock);
  if (note.over && note.clock == flow.clock &&
      !FlowEnds::IsMoving(*this, slot)) {
    ends_.EndOpenFlow(*this, now, slot, out);
    ++counters_.flows_over;
    return;
  }
  if (note.idle_timeout.ns < 0 ||
      !idle_timeouts_.Set(slot, note.clock, note.idle_timeout)) {
    if (note.over) Name(slot, flows_.cold(slot).owner, out);
    return;
  }
  Name(slot, flows_.cold(slot).owner, out);
  // While a flowlet is open, the flow's timer serves the flowlet.
  if ((flow.flags & FlowHot::kOpen) == 0) FlowEnds::ArmIdle(*this, slot);
}

FlowName Controller::NameOf(FlowId flow) const {
  const uint32_t slot = slot_of(flow);
  FlowName name = {
      .flow = flow, .version = names_told_, .key = flows_.hot(slot).key};
  Alias alias;
  if (aliases_.Read(slot, alias)) {
    name.alias = alias.key;
    name.alias_clock = alias.clock;
    name.alias_group = alias.group;
  }
  idle_timeouts_.Read(slot, name.timeout_clock, name.idle_timeout);
  return name;
}

}  // namespace snf
