// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_REPLICA_CHOOSER_H_
#define SNF_CONTROLLER_CORE_REPLICA_CHOOSER_H_

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/rng.h"
#include "controller/core/options.h"
#include "controller/units/unit_pool.h"

namespace snf {

// Theory of operation. Picks the K units to which a flow's state is pushed when
// its flowlet, which runs at `unit`, idles. They are guesses of the unit at
// which the next flowlet will be placed (SNF §5.2.2, Pseudocode 2). Placement
// packs onto low ids first, so low ids are the better guess: rank r of the
// placeable units, in the order of their ids, is drawn with weight 1/r, without
// replacement.
//
// A draw is a random point on a line on which each rank takes its weight: a
// binary search in the sums of weights finds its rank. K draws are made at
// once; a rank that was drawn before does not count. If that, or drawing the
// rank of `unit`, leaves too few, the rest is drawn one by one from the line
// without the ranks drawn before. Either way each new rank has the correct
// odds, and 2 K draws are enough: O(K (K + log units)).
//
// Worked example: units 0, 1, 3 are placeable, the flowlet runs at 1, K = 1:
// 0 has rank 1, 3 has rank 3 (1 has rank 2): 0 is drawn in 3 of 4 cases.
//
// With kLikely a flow at the unit of the highest id, which the next closing
// displaces, is pushed to the lowest ids, and any other to the highest: those
// are the least full. How many are worth it, the caller says (move_chances.h).
//
// A replica is for all units of its host, and a move within a host needs none
// (proto/protocol.md 2.8). So the K units are on K hosts, none of them that of
// `unit`.
//
// A value; owner-thread only; nothing is allocated after construction. Takes 8
// bytes for each of max_units if the choice is kWeighted.
class ReplicaChooser {
 public:
  explicit ReplicaChooser(const ControllerOptions& options);

  // Sets K, which may not be above that of the options.
  void set_replicas(uint32_t replicas) { replicas_ = replicas; }

  // Sets the units of `set`, not its flow: K different placeable units, each on
  // a host of its own, and on another than `unit`, or all if there are fewer,
  // in the order drawn (kDeterministic: in the order of their ids). If hosts
  // have several units, kWeighted draws at most kMaxReplicas + 1, and so may
  // find fewer than K. `unit` need not be placeable. Only kWeighted draws from
  // `rng`. Budget: ≤ 50 ns a unit, K ≤ 16, 10,000 units; no allocation.
  void Choose(Rng& rng, UnitId unit, const UnitPool& units,
              ReplicaSet& set) const;
  // Does so by kLikely, with at most `wanted` units, whatever the choice.
  void ChooseLikely(UnitId unit, uint32_t wanted, const UnitPool& units,
                    ReplicaSet& set) const;

 private:
  void ChooseWeighted(Rng& rng, UnitId unit, const UnitPool& units,
                      ReplicaSet& set) const;
  // Returns a random point on the line of ranks 1 … `ranks` outside those in
  // `drawn`, which ascend and leave at least one rank.
  uint64_t PointBeside(Rng& rng, uint32_t ranks,
                       std::span<const uint32_t> drawn) const;

  ReplicaChoice choice_;
  uint32_t replicas_;
  // Element n is the sum of the weights of ranks 1 … n. Rank r has the weight
  // 2^32 / r rounded down, which is short of exact odds by less than r / 2^32.
  LazyArray<uint64_t> weight_sums_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_REPLICA_CHOOSER_H_
