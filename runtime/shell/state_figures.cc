// SPDX-License-Identifier: Apache-2.0
#include "runtime/shell/state_figures.h"

#include "base/counters.h"
#include "runtime/core/unit.h"

namespace snf {

bool CountMove(StateFigures& figures, UnitId unit, const PacketMeta& meta,
               Nanos wait, bool within_host) {
  if (!BeginsMovedFlowlet(meta)) return false;
  const bool seamless = wait == Unit::kNeverHeld;
  ++(seamless ? figures.seamless : figures.pulled);
  if (seamless) wait = {};
  figures.wait_ns.Record(wait.ns);
  if (within_host) {
    ++figures.moves_within_host;
    figures.seamless_within_host += seamless ? 1 : 0;
    figures.wait_within_host_ns.Record(wait.ns);
  }
  if (wait <= figures.worst.wait) return false;
  figures.worst = {.key = {},
                   .flow = meta.flow,
                   .clock = meta.clock,
                   .wait = wait,
                   .unit = unit};
  return true;
}

void AddTo(StateFigures& sum, const StateFigures& one) {
  AddCounters<StateCounters>(sum, one);
  sum.wait_ns.Merge(one.wait_ns);
  sum.wait_within_host_ns.Merge(one.wait_within_host_ns);
  if (one.worst.wait > sum.worst.wait) sum.worst = one.worst;
}

}  // namespace snf
