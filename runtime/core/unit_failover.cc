// SPDX-License-Identifier: Apache-2.0
//
// What a unit does when another, or the store, has failed, or the controller
// of a flow changes.

#include "runtime/core/unit.h"
#include "runtime/core/unit_flow_ends.h"
#include "runtime/core/unit_limits.h"

namespace snf {

void Unit::on_redirect(Instant now, const Redirect& redirect, UnitOut& out) {
  const uint32_t node = packets_.Find(redirect.flow, redirect.clock, flows_);
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

bool Unit::on_forsake(Instant now, FlowId flow, UnitOut& out) {
  const bool is_inbox_done = packets_.DropFromInbox(flow, flows_, out);
  const uint32_t slot = flows_.Find(flow);
  if (slot != kNone) {
    if (!is_inbox_done || !packets_.DropHeld(slot, flows_, out)) return true;
    UnitFlowEnds(flows_).Forsake(slot);
    AfterChange(now, slot, out);
  }
  PushStoppedIfDone(out);
  return !is_inbox_done;
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

std::optional<State> Unit::StateToShow(FlowId flow) const {
  const uint32_t slot = flows_.Find(flow);
  if (slot == kNone) return std::nullopt;
  const FlowRecord& record = flows_[slot];
  if (record.copy != CopyKind::kCurrent || record.applied == Clock{} ||
      record.is_busy()) {
    return std::nullopt;
  }
  return replication_.MessageOf(slot, flows_);
}

bool Unit::on_handed_over(Instant now, const State& state,
                          std::span<const std::byte> record) {
  // A unit that has stopped is to start again: the order comes behind this one.
  replication_.on_start();
  const uint32_t slot = replication_.on_state(now, state, record, flows_);
  if (stopping_) replication_.on_stop();
  if (slot == kNone) return false;
  flows_.SetCopy(slot, CopyKind::kCurrent);
  flows_.MakeWhole(slot);
  replication_.ArmTimer(slot, flows_);
  return true;
}

bool Unit::on_store_silent(FlowId flow, UnitOut& out) {
  const uint32_t slot = flows_.Find(flow);
  if (slot == kNone) return false;
  return packets_.DropHeldPayloads(slot, DropReason::kStoreSilent, flows_, out);
}

void Unit::MakeReport(Report& report) const {
  const UnitReader reader(id_, flows_, nf_);
  reader.ReportFlows(report);
  reader.ReportPackets(packets_.inbox(), report);
  reader.ReportPackets(flows_.resumed(), report);
  if (busy()) reader.ReportPacket(in_service_, report);
  reader.ReportRequests(report);
}

}  // namespace snf
