// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_reader.h"

#include <algorithm>

#include "runtime/core/pending_lists.h"

namespace snf {

std::optional<DoneAnswer> UnitReader::NextDone(uint32_t& at) const {
  while (at < flows_.slots()) {
    const FlowRecord& record = flows_[at++];
    if (record.flow == kNoFlow) continue;
    Clock newest{};
    if (record.copy != CopyKind::kNone) newest = record.applied;
    const PendingLists& pending = flows_.pending();
    for (uint32_t p = record.pending; p != kNone; p = pending[p].next) {
      if (pending[p].kind == Pending::Kind::kMyTakeover) {
        newest = std::max(newest, pending[p].clock);
      }
    }
    if (newest == Clock{}) continue;
    return DoneAnswer{.flow = record.flow, .applied = newest, .unit = id_};
  }
  return std::nullopt;
}

bool UnitReader::has_parked() const {
  for (uint32_t slot = 0; slot < flows_.slots(); ++slot) {
    const FlowRecord& record = flows_[slot];
    if (record.flow == kNoFlow || !flows_.has_base(slot)) continue;
    if (record.parked != kNone) return true;
  }
  return false;
}

void UnitReader::ReportFlows(Report& report) const {
  for (uint32_t slot = 0; slot < flows_.slots(); ++slot) {
    if (flows_[slot].flow != kNoFlow) ReportFlow(slot, report);
  }
}

void UnitReader::ReportFlow(uint32_t slot, Report& report) const {
  const FlowRecord& record = flows_[slot];
  const uint32_t begun = flows_.begun(slot);
  FlowReport flow = {
      .flow = record.flow,
      .clock = record.applied,
      .flowlet = begun > 0 ? begun - 1 : 0,
      .unit = id_,
      .is_released = record.parked == kNone && !flows_.is_unreleased(slot)};
  if (record.copy != CopyKind::kNone) {
    // A copy from elsewhere says only that its clock was run.
    flow.kind =
        !record.is_own() || !record.ran_here   ? FlowReport::Kind::kTookOver
        : record.copy == CopyKind::kHandedOver ? FlowReport::Kind::kHandedOver
                                               : FlowReport::Kind::kRan;
    report.on_flow(flow);
    // The unreleased clocks build on the last released one.
    const uint64_t since =
        flows_.entries(slot) / 2 + (record.parked != kNone ? 1 : 0);
    if (since > 0 && since < value(record.applied)) {
      report.on_flow({.flow = record.flow,
                      .clock = Clock{value(record.applied) - since},
                      .unit = id_,
                      .kind = FlowReport::Kind::kTookOver});
    }
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
  if (record.parked == kNone) return;
  report.on_parked(ReportOf(flows_.packets()[record.parked]));
  report.on_open_alias(nf_.alias(record.parked));
}

PacketReport UnitReader::ReportOf(const PacketNode& node) const {
  return {.meta = node.meta, .unit = id_, .packet = node.packet};
}

void UnitReader::ReportPackets(const PacketList& list, Report& report) const {
  const PacketNodes& nodes = flows_.packets();
  for (uint32_t node = list.head; node != kNone; node = nodes[node].next) {
    report.on_packet(ReportOf(nodes[node]));
  }
}

void UnitReader::ReportPacket(uint32_t node, Report& report) const {
  report.on_packet(ReportOf(flows_.packets()[node]));
}

void UnitReader::ReportRequests(Report& report) const {
  const UnitPieces& pieces = nf_.pieces();
  for (uint16_t pool = 0; pool < pieces.pools(); ++pool) {
    ReportPackets(pieces.pool(pool).waiting, report);
    if (!pieces.is_requested(pool)) continue;
    report.on_open_request(pieces.request(pool));
  }
}

}  // namespace snf
