// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_CONTROLLER_COUNTERS_H_
#define SNF_CONTROLLER_CORE_CONTROLLER_COUNTERS_H_

#include <cstdint>

namespace snf {

// Of the pools of pieces (piece_pool.h).
struct PieceCounters {
  uint64_t blocks_granted = 0;    // words given to units
  uint64_t requests_refused = 0;  // for want of pieces
  uint64_t reclaim_rounds = 0;
  uint64_t pieces_out = 0;  // not at the controller now
  uint64_t pieces_out_max = 0;
  // Returned, but not of the pool, or there already: not taken.
  uint64_t pieces_faulty = 0;
  // Of a pool or a unit that does not exist, or asked for twice.
  uint64_t messages_faulty = 0;
};

// What a controller did so far.
struct ControllerCounters {
  uint64_t flows = 0;  // ever created
  uint64_t flows_ended = 0;
  uint64_t flows_over = 0;  // of these, because the NF said so
  uint64_t flowlets = 0;
  uint64_t flowlets_by_gap = 0;
  uint64_t flowlets_by_bytes = 0;
  uint64_t flowlets_moved = 0;  // enqueued first on another unit than before
  uint64_t decisions = 0;       // where the policy had a choice
  uint64_t overcommitted = 0;   // placements on a unit without room
  uint64_t enqueued = 0;        // packets; null packets are not among them
  uint64_t null_packets = 0;
  uint64_t evacuations = 0;  // units relieved of all their flows, to stop
  uint64_t takeovers_refused_unknown = 0;  // of a flow that is not in the table
  uint64_t takeovers_refused_future = 0;   // of a clock that was not given yet
  uint64_t aliases_granted = 0;
  uint64_t aliases_conflict = 0;         // refused: another flow has it
  uint64_t aliases_group_full = 0;       // refused: the group has its limit
  uint64_t aliases_refused_unknown = 0;  // as takeovers
  uint64_t aliases_refused_future = 0;
  uint64_t notes_refused_unknown = 0;
  uint64_t notes_refused_future = 0;
  PieceCounters pieces;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_CONTROLLER_COUNTERS_H_
