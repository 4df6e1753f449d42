// SPDX-License-Identifier: Apache-2.0
#include "controller/core/placement.h"

namespace snf {
namespace {

// The paper's weighted greedy bin packing (SNF §4.2, Pseudocode 1; protocol.md
// §2.2-2.4). Of the units without the flow's state only the fullest with room
// can win, so two scores are compared, however many units there are.
class SnfPolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "snf"; }

  Placement Place(Instant now, const PlacementRequest& request, UnitPool& pool,
                  ControllerOut& out) const override {
    UnitId best = kNoUnit;
    if (request.demand <= kFullLoad) {
      best = pool.FullestAtMost(kFullLoad - request.demand);
    }
    if (request.owner != kNoUnit && pool.placeable(request.owner)) {
      const int64_t owner = PlacementScore(request, request.owner, pool);
      const int64_t other =
          best == kNoUnit ? -1 : PlacementScore(request, best, pool);
      if (owner > other || (owner == other && owner >= 0 &&
                            value(request.owner) < value(best))) {
        best = request.owner;
      }
    }
    if (best != kNoUnit) return {.unit = best};
    if (const UnitId warm = pool.TakeWarm(now, out); warm != kNoUnit) {
      return {.unit = warm};
    }
    if (pool.placeable_units() == 0) {
      // The flowlet waits in the channel of a unit that is not ready yet.
      const UnitId starting = pool.UseStarting(now);
      return {.unit =
                  starting != kNoUnit ? starting : pool.StartStopped(now, out)};
    }
    // Start as many as the load asks for, not one for every flowlet that comes
    // while the first is starting.
    const uint64_t there =
        uint64_t{pool.placeable_units() + pool.starting_units()} * kFullLoad;
    if (pool.starting_units() == 0 ||
        pool.total_load() + request.demand > there) {
      pool.StartStopped(now, out);
    }
    return {.unit = pool.LeastLoaded(), .overcommitted = true};
  }
};

}  // namespace

int64_t PlacementScore(const PlacementRequest& request, UnitId unit,
                       const UnitPool& pool) {
  const uint32_t load = pool.load(unit);
  if (load + request.demand > kFullLoad) return -1;
  return int64_t{load} + (unit == request.owner ? request.alpha : 0);
}

const PlacementPolicy* FindPlacementPolicy(std::string_view name) {
  static const SnfPolicy kSnf;
  for (const PlacementPolicy* policy : {&kSnf}) {
    if (policy->name() == name) return policy;
  }
  return nullptr;
}

}  // namespace snf
