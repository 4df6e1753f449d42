// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_REPLICA_CHOOSER_H_
#define SNF_CONTROLLER_CORE_REPLICA_CHOOSER_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages.h"
#include "base/rng.h"
#include "controller/core/options.h"
#include "controller/core/unit_pool.h"

namespace snf {

// Theory of operation. Picks the K units that a flow's state is pushed to when
// its flowlet, which runs at `unit`, idles: guesses where the next one will be
// placed (SNF §5.2.2, Pseudocode 2). Placement packs onto low ids first, so
// low ids are the better guess: rank r of the placeable units, in the order of
// their ids, is drawn with weight 1/r, without replacement.
//
// Drawing is a binary search in the sums of weights, and finding the unit of a
// rank one in UnitPool's ranks: O(K log units) whatever the number of units.
//
// Worked example: units 0, 1, 3 are placeable, the flowlet runs at 1, K = 1:
// 0 has rank 1, 3 has rank 3 (1 has rank 2): 0 is drawn in 3 of 4 cases.
//
// A value; owner-thread only; nothing is allocated after construction.
class ReplicaChooser {
 public:
  explicit ReplicaChooser(const ControllerOptions& options);

  // Up to K different placeable units other than `unit`, the better guess
  // first; fewer only where there are not so many.
  void Choose(Rng& rng, UnitId unit, const UnitPool& pool, ReplicaSet& set);

 private:
  ReplicaChoice choice_;
  uint32_t replicas_;
  LazyArray<uint64_t> weight_sums_;  // [n]: of ranks 1 … n, in 2^-32
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_REPLICA_CHOOSER_H_
