// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_PIECE_POOLS_H_
#define SNF_CONTROLLER_CORE_PIECE_POOLS_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "controller/core/piece_pool.h"
#include "controller/units/unit_set.h"

namespace snf {

// The pools of a controller, and the units that may have pieces: the ones that
// were granted some, or got a moved flow, since they last stopped. Messages
// about pools or pieces that do not exist are refused and counted.
//
// A value; owner-thread only; allocates in Add only. A pool of 65,536 pieces
// costs 8 KiB, and 2 bits a unit.
class PiecePools {
 public:
  explicit PiecePools(uint32_t max_units)
      : max_units_(max_units),
        holders_(max_units),
        failing_(max_units),
        grants_(max_units),
        newest_(kMaxGrants),
        timers_(0) {}

  // Adds a pool with the pieces first … last. Called before anything else.
  void Add(uint32_t first, uint32_t last);
  size_t size() const { return pools_.size(); }
  const PiecePool& pool(uint16_t i) const { return pools_[i]; }

  // A running unit asks for pieces. on_request and on_returned push as many
  // commands as `out` has room for; the rest follows from on_timer.
  void on_request(Instant now, const PieceRequest& request,
                  PieceCounters& counters, ControllerOut& out);
  void on_returned(Instant now, const PieceBlock& pieces,
                   PieceCounters& counters, ControllerOut& out);
  // The unit is gone. The caller must have returned all its pieces before.
  void on_unit_stopped(UnitId unit);
  // Called when the unit has failed: it gets no pieces, and no round waits for
  // it. Its returned pieces cannot be granted before EndHolding: flows may
  // still have aliases that name them.
  void on_unit_failed(UnitId unit);
  void EndHolding();
  // The unit has failed, and its logger knows of its first `logged` grants: the
  // pieces of others come back.
  void on_grants_sealed(Instant now, UnitId unit, uint64_t logged,
                        PieceCounters& counters, ControllerOut& out);
  // A flow moved to the unit, perhaps with pieces in its state.
  void on_flow_moved(UnitId to) {
    if (!pools_.empty()) holders_.Insert(to);
  }

  // Pieces that are another controller's leave the pool, or others come to it.
  void Remove(const PieceBlock& pieces) {
    pools_[pieces.pool].MarkOut(pieces.word, pieces.mask);
  }
  void AddPieces(Instant now, const PieceBlock& pieces, bool were_out,
                 PieceCounters& counters, ControllerOut& out);

  // Restore the pools of an earlier controller (proto/protocol.md F10): pieces
  // that are out, a unit that may have some, with its number of grants, and a
  // grant that the unit's logger may not know.
  void Restore(const PieceBlock& out, PieceCounters& counters);
  void RestoreHolder(UnitId unit, uint64_t grants) {
    if (!pools_.empty()) holders_.Insert(unit);
    grants_[value(unit)] = grants;
  }
  void RestoreGrant(const GrantReport& grant) {
    newest_[next_grant_] = {grant.number, grant.pieces};
    next_grant_ = (next_grant_ + 1) % kMaxGrants;
  }

  Instant next_wakeup() const {
    return pools_.empty() ? Instant::max() : timers_.next_wakeup();
  }
  // Handles one pool that is due. Returns false if there is none, or if `out`
  // has no room for a step.
  bool on_timer(Instant now, PieceCounters& counters, ControllerOut& out);

 private:
  // A unit may fail before its logger knows of a grant, so the newest ones of
  // all units are kept.
  static constexpr uint32_t kMaxGrants = 1'024;
  struct Grant {
    uint64_t number = 0;  // 1, 2, 3 … of the unit; 0: there is none
    PieceBlock pieces;
  };

  void Advance(Instant now, uint32_t pool, PieceCounters& counters,
               ControllerOut& out);

  void ForgetUnit(UnitId unit);

  uint32_t max_units_;
  UnitSet holders_;
  UnitSet failing_;             // whose pieces are held back
  LazyArray<uint64_t> grants_;  // the number of each unit's, since it started
  LazyArray<Grant> newest_;     // is a ring
  uint32_t next_grant_ = 0;
  std::vector<PiecePool> pools_;
  TimingWheel timers_;  // of the pools
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_PIECE_POOLS_H_
