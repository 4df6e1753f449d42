// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/state_figures.h"

#include <cstddef>

#include "runtime/core/unit.h"

namespace snf {

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
  static_assert(sizeof(UnitCounters) == 8 * (8 + kStateRefusals));
  sum.replicas_taken += one.replicas_taken;
  sum.replicas_evicted += one.replicas_evicted;
  sum.replicas_expired += one.replicas_expired;
  sum.pulls_repeated += one.pulls_repeated;
  sum.takeovers_repeated += one.takeovers_repeated;
  sum.takeovers_said_once += one.takeovers_said_once;
  sum.pulls_forgotten += one.pulls_forgotten;
  sum.pieces_refused += one.pieces_refused;
  for (size_t i = 0; i < kStateRefusals; ++i) sum.refused[i] += one.refused[i];
}

void AddTo(StateFigures& sum, const StateFigures& one) {
  sum.seamless += one.seamless;
  sum.pulled += one.pulled;
  sum.wait_ns.Merge(one.wait_ns);
  if (one.worst.wait > sum.worst.wait) sum.worst = one.worst;
  sum.pushes += one.pushes;
  sum.pulls += one.pulls;
  sum.answers += one.answers;
  sum.bytes += one.bytes;
  sum.pushed_bytes += one.pushed_bytes;
  sum.tombstones += one.tombstones;
  sum.null_packets += one.null_packets;
  sum.messages_lost += one.messages_lost;
  sum.messages_duplicated += one.messages_duplicated;
  AddTo(sum.units, one.units);
}

}  // namespace snf
