// SPDX-License-Identifier: Apache-2.0
//
// What a unit does when another, or the store, has failed.
#include "runtime/core/unit.h"

namespace snf {

std::optional<DoneAnswer> Unit::NextDone(uint32_t& at) const {
  while (at < flows_.slots()) {
    const FlowRecord& record = flows_[at++];
    if (record.flow == kNoFlow || record.copy == CopyKind::kNone) continue;
    return DoneAnswer{
        .flow = record.flow, .applied = record.applied, .unit = id_};
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
  AfterChange(now, slot, out);
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

// --- Reports to a new controller. ---

void Unit::MakeReport(Report& report) const {
  for (uint32_t slot = 0; slot < flows_.slots(); ++slot) {
    if (flows_[slot].flow != kNoFlow) ReportFlow(slot, report);
  }
  ReportPackets(inbox_, report);
  ReportPackets(flows_.resumed(), report);
  const PacketNodes& nodes = flows_.packets();
  if (busy()) {
    report.on_packet({.meta = nodes[in_service_].meta, .unit = id_});
  }
  const UnitPieces& pieces = nf_.pieces();
  for (uint16_t pool = 0; pool < pieces.pools(); ++pool) {
    ReportPackets(pieces.pool(pool).waiting, report);
    if (!pieces.is_requested(pool)) continue;
    report.on_open_request({.pool = pool, .unit = id_});
  }
}

void Unit::ReportFlow(uint32_t slot, Report& report) const {
  const FlowRecord& record = flows_[slot];
  const uint32_t begun = flows_.begun(slot);
  FlowReport flow = {.flow = record.flow,
                     .clock = record.applied,
                     .flowlet = begun > 0 ? begun - 1 : 0,
                     .unit = id_};
  if (record.copy != CopyKind::kNone) {
    // A copy from elsewhere says only that its clock was run.
    flow.kind = !record.is_own() || !record.ran_here
                    ? FlowReport::Kind::kTookOver
                : record.copy == CopyKind::kHandedOver
                    ? FlowReport::Kind::kHandedOver
                    : FlowReport::Kind::kRan;
    report.on_flow(flow);
  }
  const PendingLists& pending = flows_.pending();
  for (uint32_t p = record.pending; p != kNone; p = pending[p].next) {
    const bool is_end = pending[p].kind == Pending::Kind::kEnd;
    if (!is_end && pending[p].kind != Pending::Kind::kMyTakeover) continue;
    flow.clock = pending[p].clock;
    flow.kind = is_end ? FlowReport::Kind::kEnd : FlowReport::Kind::kTookOver;
    report.on_flow(flow);
  }
  ReportPackets(record.held, report);
  if (record.parked != kNone) report.on_open_alias(nf_.alias(record.parked));
}

void Unit::ReportPackets(const PacketList& list, Report& report) const {
  const PacketNodes& nodes = flows_.packets();
  for (uint32_t node = list.head; node != kNone; node = nodes[node].next) {
    report.on_packet({.meta = nodes[node].meta, .unit = id_});
  }
}

}  // namespace snf
