// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_CONTROLLER_COUNTERS_H_
#define SNF_CONTROLLER_CORE_CONTROLLER_COUNTERS_H_

#include <cstdint>

namespace snf {

// Counters of the pools of pieces (piece_pool.h).
struct PieceCounters {
  uint64_t blocks_granted = 0;    // words given to units
  uint64_t requests_refused = 0;  // because no pieces were free
  uint64_t reclaim_rounds = 0;
  uint64_t pieces_out = 0;  // now at units
  uint64_t pieces_out_max = 0;
  // Pieces that a unit returned although they are not of the pool, or were at
  // the controller already. They are ignored.
  uint64_t pieces_faulty = 0;
  // Messages that name a pool or a unit that does not exist, and second
  // requests of a unit that waits already.
  uint64_t messages_faulty = 0;
};

// Counters of failures of units (failover.h).
struct FailureCounters {
  uint64_t failures = 0;
  uint64_t failures_refused =
      0;                     // of a unit without process, or an earlier one
  uint64_t clocks_lost = 0;  // and replaced by tombstones
  uint64_t packets_rerouted = 0;  // survived the unit that they were sent to
  uint64_t flows_moved = 0;       // by null packets, as no clock was lost
  uint64_t flows_given_up = 0;  // the history did not say where their state is
  uint64_t redirects = 0;
  uint64_t ends_repeated = 0;  // of flows that were over
  uint64_t aliases_withdrawn = 0;
  // Packets that came in too late, or of which there were too many.
  uint64_t survivors_refused = 0;
  uint64_t answers_unknown_flow = 0;  // it is over
  uint64_t answers_old_round = 0;
  uint64_t answers_not_asked = 0;  // the sender was not asked, or had finished
  uint64_t answers_future_clock = 0;
};

// Counters of controllers that failed, and of what their successors made of
// reports (proto/protocol.md F9).
struct SuccessionCounters {
  uint64_t packets_lost = 0;       // in the buffers of failed controllers
  uint64_t clocks_lost = 0;        // given, and never sent
  uint64_t packets_waited = 0;     // until a successor was made
  uint64_t flows = 0;              // found by successors
  uint64_t flows_ending = 0;       // of which only the end was to come
  uint64_t flows_unnamed = 0;      // without a known key
  uint64_t flows_superseded = 0;   // another flow has the key: an end was lost
  uint64_t tombstones = 0;         // for clocks that no unit had
  uint64_t null_packets = 0;       // for flows that only sealed loggers had
  uint64_t redirects = 0;          // of packets that waited for another place
  uint64_t aliases_withdrawn = 0;  // of clocks that were lost
  uint64_t reports_refused = 0;    // of units, flows or clocks out of range
};

// Counters of everything that a controller did so far.
struct ControllerCounters {
  // flows + flows_inherited - flows_ended are in the table.
  uint64_t flows = 0;  // ever created
  // Found by a successor, and not counted before; or of another controller.
  uint64_t flows_inherited = 0;
  uint64_t flows_ended = 0;    // also by failures, or given to another
  uint64_t flows_over = 0;     // ended by the NF
  uint64_t flows_evicted = 0;  // evicted for new flows
  uint64_t flows_deleted = 0;  // by hand: Deletion::kByHand
  uint64_t flowlets = 0;
  uint64_t flowlets_by_gap = 0;
  uint64_t flowlets_by_bytes = 0;
  uint64_t flowlets_moved = 0;  // began at another unit than the flow's owner
  // Flowlets among flowlets_moved whose unit need not have the state yet: no
  // replica was ordered; the replicas are at other units; or a replica at the
  // unit had no time to land.
  uint64_t moved_without_replica = 0;
  uint64_t moved_elsewhere = 0;
  uint64_t moved_too_soon = 0;
  uint64_t decisions = 0;      // placements with a choice
  uint64_t overcommitted = 0;  // placements on a unit without room
  uint64_t enqueued = 0;       // packets, without null packets
  uint64_t null_packets = 0;
  uint64_t timer_packets = 0;
  uint64_t timers_refused_unknown = 0;  // see takeovers_refused_unknown
  uint64_t timers_refused_future = 0;
  // The flow had a packet since, or has another owner.
  uint64_t timers_refused_stale = 0;
  uint64_t timers_without_slot = 0;  // put off: the unit's channel was full
  uint64_t evacuations = 0;  // stopping units relieved of all their flows
  uint64_t takeovers_refused_unknown = 0;  // the flow is not in the table
  uint64_t takeovers_refused_future = 0;   // the clock was not given yet
  uint64_t aliases_granted = 0;
  uint64_t aliases_conflict = 0;         // refused: another flow has it
  uint64_t aliases_group_full = 0;       // refused: the group has its limit
  uint64_t aliases_refused_unknown = 0;  // see takeovers_refused_unknown
  uint64_t aliases_refused_stale = 0;    // the flow has a newer one
  uint64_t aliases_refused_future = 0;
  uint64_t notes_refused_unknown = 0;
  uint64_t notes_refused_future = 0;
  // Flows and aliases that are far from their home in an index (slot_index.h).
  uint64_t long_probes = 0;
  PieceCounters pieces;
  FailureCounters failures;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_CONTROLLER_COUNTERS_H_
