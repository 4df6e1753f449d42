// SPDX-License-Identifier: Apache-2.0
#include "platform/run/unit_calls.h"

#include <algorithm>

#include "base/counters.h"

namespace snf {
namespace {

// At most kMaxUnderWay, which no run comes near.
uint32_t SlotsOfAllChannels(const ControllerOptions& options) {
  constexpr uint64_t kMaxUnderWay = 1 << 22;
  return static_cast<uint32_t>(std::min(
      uint64_t{options.max_units} * options.unit_queue_packets, kMaxUnderWay));
}

}  // namespace

UnitOptions UnitOptionsOf(const RunOptions& options, uint32_t replicas) {
  const ControllerOptions& c = options.controller;
  return {.max_flows = c.max_flows,
          .queue_packets = c.unit_queue_packets,
          .packets_elsewhere = SlotsOfAllChannels(c),
          .hold_packets = options.hold_packets,
          .replicas = replicas,
          .push_after = {c.flowlet_timeout.ns / 2},
          .max_replicas = options.max_replicas,
          .replica_lifetime = c.flow_timeout,
          .retry_after = options.state_retry};
}

bool CountMove(StateFigures& figures, UnitId unit, const PacketMeta& meta,
               Nanos wait) {
  if ((meta.flags & PacketMeta::kMoved) == 0 ||
      (meta.flags & PacketMeta::kNull) != 0) {
    return false;
  }
  const bool seamless = wait == Unit::kNeverHeld;
  ++(seamless ? figures.seamless : figures.pulled);
  if (seamless) wait = {};
  figures.wait_ns.Record(wait.ns);
  if (wait <= figures.worst.wait) return false;
  figures.worst = {.key = {},
                   .flow = meta.flow,
                   .clock = meta.clock,
                   .wait = wait,
                   .unit = unit};
  return true;
}

void AddTo(UnitCounters& sum, const UnitCounters& one) {
  AddCounters(sum, one);
}

void AddTo(StateFigures& sum, const StateFigures& one) {
  AddCounters<StateCounters>(sum, one);
  sum.wait_ns.Merge(one.wait_ns);
  if (one.worst.wait > sum.worst.wait) sum.worst = one.worst;
}

}  // namespace snf
