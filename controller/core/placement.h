// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_PLACEMENT_H_
#define SNF_CONTROLLER_CORE_PLACEMENT_H_

#include <cstdint>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/options.h"
#include "controller/core/unit_pool.h"

namespace snf {

// A flowlet that needs a unit.
struct PlacementRequest {
  uint32_t demand = 0;     // in quanta of a unit's capacity
  UnitId owner = kNoUnit;  // holds the flow's state; kNoUnit for a new flow
  uint32_t alpha = 0;      // α in quanta
};

struct Placement {
  UnitId unit = kNoUnit;       // kNoUnit while all units are stopping
  bool overcommitted = false;  // there was no room anywhere
};

// Where a flowlet goes. A policy is a stateless function of the request and of
// the pool, whose loads are up to date; it may start units (one command at the
// most) and answers with a placeable unit; with kNoUnit only if there is none,
// not even one to start: all are stopping.
class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;
  virtual std::string_view name() const = 0;
  virtual Placement Place(Instant now, const PlacementRequest& request,
                          UnitPool& pool, ControllerOut& out) const = 0;
};

// The policy of that name, with static lifetime, or null.
const PlacementPolicy* FindPlacementPolicy(std::string_view name);

// The score of a unit for a request: its load plus α where it holds the flow's
// state (SNF §5.2.2), in quanta; -1 without room. For placement and for
// explaining it.
int64_t PlacementScore(const PlacementRequest& request, UnitId unit,
                       const UnitPool& pool);

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_PLACEMENT_H_
