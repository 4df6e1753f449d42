// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_flow_ends.h"

#include "base/time.h"
#include "runtime/core/pending_lists.h"
#include "runtime/core/rules.h"

namespace snf {

uint32_t UnitFlowEnds::Await(const EndFlow& end) {
  const uint32_t slot = flows_.FindOrAdd(end.flow);
  PendingLists& pending = flows_.pending();
  uint32_t& head = flows_[slot].pending;
  if (*pending.LinkOf(head, Pending::Kind::kEnd) == kNone) {
    pending.Add(head, {.clock = end.last,
                       .due = Instant::max(),
                       .next = kNone,
                       .peer = kNoUnit,
                       .kind = Pending::Kind::kEnd,
                       .tries = 0});
  }
  return slot;
}

bool UnitFlowEnds::IsOver(uint32_t slot) const {
  FlowRecord& record = flows_[slot];
  PendingLists& pending = flows_.pending();
  const uint32_t end = *pending.LinkOf(record.pending, Pending::Kind::kEnd);
  return end != kNone && pending[end].clock <= record.applied &&
         record.parked == kNone &&
         !SNF_RULE(kU13, flows_.is_unreleased(slot), false);
}

void UnitFlowEnds::Finish(uint32_t slot) {
  PendingLists& pending = flows_.pending();
  pending.Erase(pending.LinkOf(flows_[slot].pending, Pending::Kind::kEnd));
  flows_.DropCopy(slot);
  flows_.on_over(slot);
}

void UnitFlowEnds::Forsake(uint32_t slot) {
  PendingLists& pending = flows_.pending();
  FlowRecord& record = flows_[slot];
  for (uint32_t* link = &record.pending; *link != kNone;) {
    if (pending[*link].kind == Pending::Kind::kMyTakeover) {
      link = &pending[*link].next;
    } else {
      pending.Erase(link);
    }
  }
  pending.Add(record.pending, {.clock = {},
                               .due = Instant::max(),
                               .next = kNone,
                               .peer = kNoUnit,
                               .kind = Pending::Kind::kForsaken,
                               .tries = 0});
}

void UnitFlowEnds::DropIfForsaken(UnitId id, uint32_t slot, UnitOut& out) {
  FlowRecord& record = flows_[slot];
  PendingLists& pending = flows_.pending();
  uint32_t* const forsaken =
      pending.LinkOf(record.pending, Pending::Kind::kForsaken);
  if (*forsaken == kNone || record.is_busy() || flows_.is_unreleased(slot)) {
    return;
  }
  if (flows_.has_base(slot)) {
    out.push(UnitCommand::Send(kNoUnit, TakeoverAck{.flow = record.flow,
                                                    .clock = record.applied + 1,
                                                    .sender = id}));
  }
  pending.Erase(forsaken);
  flows_.DropCopy(slot);
  flows_.on_over(slot);
}

}  // namespace snf
