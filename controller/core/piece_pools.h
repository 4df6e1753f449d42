// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_PIECE_POOLS_H_
#define SNF_CONTROLLER_CORE_PIECE_POOLS_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "controller/core/commands.h"
#include "controller/core/piece_pool.h"
#include "controller/core/unit_set.h"

namespace snf {

// The pools of a controller, and the units that may have pieces: those that
// were granted some, or to which a flow moved, since they last stopped.
// Messages about pools or pieces that do not exist are refused and counted.
//
// A value; owner-thread only; allocates in Add only. A pool of 65,536 pieces
// costs 8 KiB, and 2 bits a unit.
class PiecePools {
 public:
  static constexpr size_t kMaxPools = 65'536;

  explicit PiecePools(uint32_t max_units)
      : max_units_(max_units), holders_(max_units), timers_(0) {}

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
  // A flow moved to the unit, perhaps with pieces in its state.
  void on_flow_moved(UnitId to) {
    if (!pools_.empty()) holders_.Insert(to);
  }

  Instant next_wakeup() const {
    return pools_.empty() ? Instant::max() : timers_.next_wakeup();
  }
  // Handles one pool that is due. Returns false if there is none, or if `out`
  // has no room for a step.
  bool on_timer(Instant now, PieceCounters& counters, ControllerOut& out);

 private:
  void Advance(Instant now, uint32_t pool, PieceCounters& counters,
               ControllerOut& out) {
    timers_.Arm(pool, pools_[pool].Advance(now, holders_, counters, out));
  }

  uint32_t max_units_;
  UnitSet holders_;
  std::vector<PiecePool> pools_;
  TimingWheel timers_;  // of the pools
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_PIECE_POOLS_H_
