// SPDX-License-Identifier: Apache-2.0
//
// What a unit does when another, or the store, has failed, or the controller
// of a flow changes.

#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {

std::optional<Unit::LoggedFlow> Unit::NextLogged(uint32_t& at) const {
  while (at < flows_.slots()) {
    const uint32_t slot = at++;
    const FlowRecord& record = flows_[slot];
    if (record.flow == kNoFlow || !flows_.has_base(slot)) continue;
    return LoggedFlow{.flow = record.flow,
                      .record = ChangeOf(slot),
                      .is_parked = record.parked != kNone};
  }
  return std::nullopt;
}

// Returns the packet of that clock, if it is here and has not run, or kNone.
uint32_t Unit::FindNode(FlowId flow, Clock clock) const {
  const PacketNodes& nodes = flows_.packets();
  const auto find_in = [&](const PacketList& list) {
    uint32_t node = list.head;
    while (node != kNone &&
           (nodes[node].meta.flow != flow || nodes[node].meta.clock != clock)) {
      node = nodes[node].next;
    }
    return node;
  };
  const uint32_t slot = flows_.Find(flow);
  uint32_t node = slot == kNone ? kNone : find_in(flows_[slot].held);
  if (node == kNone) node = find_in(inbox_);
  if (node == kNone) node = find_in(flows_.resumed());
  return node;
}

void Unit::on_redirect(Instant now, const Redirect& redirect, UnitOut& out) {
  const uint32_t node = FindNode(redirect.flow, redirect.clock);
  if (node == kNone) return;
  PacketMeta& meta = flows_.packets()[node].meta;
  meta.source = redirect.source;
  meta.source_kind = redirect.source_kind;
  const uint32_t slot = flows_.Find(redirect.flow);
  if (slot == kNone || flows_[slot].held.head != node) return;
  Replication::ForgetMyPull(slot, flows_);
  replication_.TakeShownForHeld(now, slot, flows_);
  AfterChange(now, slot, out);
}

// Returns false if `out` has no room for more.
bool Unit::DropPacketsOf(FlowId flow, PacketList& list, UnitOut& out) {
  PacketNodes& nodes = flows_.packets();
  PacketList others;
  bool has_room = true;
  for (uint32_t node = nodes.PopFront(list); node != kNone;
       node = nodes.PopFront(list)) {
    const PacketNode& n = nodes[node];
    has_room = has_room && out.room() > kMaxUnitCommandsPerCall;
    if (n.meta.flow != flow || !has_room) {
      nodes.Append(others, node);
      continue;
    }
    UnitCommand drop =
        UnitCommand::OfPacket(UnitCommand::Kind::kDrop, n.packet, n.meta);
    if (!n.meta.has_payload()) drop.kind = UnitCommand::Kind::kAdvance;
    drop.reason = DropReason::kUnitFailed;
    out.push(drop);
    if (n.held_since != Instant::max()) {
      --held_;
      held_payloads_ -= n.meta.has_payload() ? 1 : 0;
    }
    nodes.Free(node);
  }
  list = others;
  return has_room;
}

bool Unit::on_forsake(Instant now, FlowId flow, UnitOut& out) {
  const bool is_inbox_done = DropPacketsOf(flow, inbox_, out);
  ahead_ = inbox_.head;
  prefetched_ = 0;
  const uint32_t slot = flows_.Find(flow);
  if (slot != kNone) {
    PendingLists& pending = flows_.pending();
    FlowRecord& record = flows_[slot];
    if (!is_inbox_done || !DropPacketsOf(flow, record.held, out)) return true;
    // Takeovers are told all the same: others forget their copies then.
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
    AfterChange(now, slot, out);
  }
  PushStoppedIfDone(out);
  return !is_inbox_done;
}

// Once nothing of a flow that is given up runs here, or is on its way to the
// logger.
void Unit::DropForsakenCopy(uint32_t slot, UnitOut& out) {
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
                                                    .sender = id_}));
  }
  pending.Erase(forsaken);
  flows_.DropCopy(slot);
  flows_.on_over(slot);
}

std::optional<State> Unit::StateToHandOver(FlowId flow, Clock last) const {
  const uint32_t slot = flows_.Find(flow);
  if (slot == kNone) return std::nullopt;
  const FlowRecord& record = flows_[slot];
  if (record.copy != CopyKind::kCurrent || record.applied != last ||
      record.is_busy() || record.held.head != kNone ||
      flows_.is_unreleased(slot)) {
    return std::nullopt;
  }
  const PendingLists& pending = flows_.pending();
  for (uint32_t p = record.pending; p != kNone; p = pending[p].next) {
    if (pending[p].kind != Pending::Kind::kMyTakeover &&
        pending[p].kind != Pending::Kind::kMyTimer) {
      return std::nullopt;
    }
  }
  return replication_.MessageOf(slot, flows_);
}

bool Unit::on_handed_over(Instant now, const State& state,
                          std::span<const std::byte> record) {
  const uint32_t slot = replication_.on_state(now, state, record, flows_);
  if (slot == kNone) return false;
  flows_.SetCopy(slot, CopyKind::kCurrent);
  flows_.MakeWhole(slot);
  replication_.ArmTimer(slot, flows_);
  return true;
}

bool Unit::on_store_silent(FlowId flow, UnitOut& out) {
  const uint32_t slot = flows_.Find(flow);
  if (slot == kNone) return false;
  PacketNodes& nodes = flows_.packets();
  for (uint32_t i = flows_[slot].held.head; i != kNone; i = nodes[i].next) {
    if (!nodes[i].meta.has_payload()) continue;
    if (out.room() == 0) return true;
    DropPayload(nodes[i], DropReason::kStoreSilent, out);
    --held_payloads_;
  }
  return false;
}

void Unit::MakeReport(Report& report) const {
  const UnitReader reader(id_, flows_, nf_);
  reader.ReportFlows(report);
  reader.ReportPackets(inbox_, report);
  reader.ReportPackets(flows_.resumed(), report);
  if (busy()) reader.ReportPacket(in_service_, report);
  reader.ReportRequests(report);
}

}  // namespace snf
