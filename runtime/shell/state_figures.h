// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SHELL_STATE_FIGURES_H_
#define SNF_RUNTIME_SHELL_STATE_FIGURES_H_

#include <cstdint>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "runtime/core/unit_options.h"

namespace snf {

// Counts how state moved between units.
struct StateCounters {
  // Flowlets that moved (ControllerCounters::flowlets_moved), by their first
  // packet: it found its state at the new unit, or had to wait for it.
  uint64_t seamless = 0;
  uint64_t pulled = 0;
  uint64_t pushes = 0;   // sent, one for each receiver
  uint64_t pulls = 0;    // sent, without repetitions
  uint64_t answers = 0;  // states sent in answer to pulls
  uint64_t deltas = 0;   // pushes of what changed since an earlier one
  uint64_t bytes = 0;    // of records in pushes and answers, and of deltas
  uint64_t pushed_bytes = 0;
  // Flowlets among `seamless` and `pulled` that moved to another unit of the
  // same host; such flowlets that found their state, and such to which it came
  // in the time of a hand-over: the old unit had no packet of their flow left.
  uint64_t moves_within_host = 0;
  uint64_t seamless_within_host = 0;
  uint64_t handed_over_within_host = 0;
  // Answers to a unit of the same host, and the bytes of their records, which
  // `bytes` leaves out.
  uint64_t answers_within_host = 0;
  uint64_t bytes_within_host = 0;
  uint64_t tombstones = 0;     // clocks that a tombstone took
  uint64_t null_packets = 0;   // flows that left a unit without a packet (U8)
  uint64_t timer_packets = 0;  // at which the NF's timer could run (U11)
  uint64_t messages_lost = 0;  // by chaos, or for want of room on the way
  uint64_t messages_duplicated = 0;
  UnitCounters units;  // summed over units
};

// Tells how state moved in a run.
struct StateFigures : StateCounters {
  Histogram wait_ns;  // of all flowlets that moved; 0 where seamless
  Histogram wait_within_host_ns;  // of moves within hosts
  struct Worst {
    FlowKey key;
    FlowId flow = kNoFlow;
    Clock clock{};
    Nanos wait;
    UnitId unit = kNoUnit;
  } worst;
};

// Returns true for the first packet of a flowlet that moved.
inline bool BeginsMovedFlowlet(const PacketMeta& meta) {
  return (meta.flags & PacketMeta::kMoved) != 0 &&
         (meta.flags & PacketMeta::kNull) == 0;
}

// Counts that a packet begins service which was held for `wait`
// (Unit::in_service_wait), if its flowlet moved. Returns true if no packet
// before it waited as long; then the caller fills in the key of figures.worst,
// if it knows that.
bool CountMove(StateFigures& figures, UnitId unit, const PacketMeta& meta,
               Nanos wait, bool within_host = false);

// Counts that an answer, which is counted as sent, stayed on its host.
inline void CountWithinHost(StateCounters& counters, const State& state) {
  ++counters.answers_within_host;
  counters.bytes -= state.bytes;
  counters.bytes_within_host += state.bytes;
}

// Counts a packet without payload that was applied. A timer packet may be a
// flow's null packet as well.
inline void CountAdvanced(StateCounters& counters, const PacketMeta& meta) {
  if ((meta.flags & PacketMeta::kNull) == 0) {
    ++counters.tombstones;
    return;
  }
  if ((meta.flags & PacketMeta::kTimer) != 0) ++counters.timer_packets;
  if ((meta.flags & PacketMeta::kFirstOfFlowlet) != 0) ++counters.null_packets;
}

// Adds the counters up; of the worst waits the longer one is kept.
void AddTo(StateFigures& sum, const StateFigures& one);

}  // namespace snf

#endif  // SNF_RUNTIME_SHELL_STATE_FIGURES_H_
