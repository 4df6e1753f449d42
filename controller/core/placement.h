// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_PLACEMENT_H_
#define SNF_CONTROLLER_CORE_PLACEMENT_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/options.h"
#include "controller/core/unit_pool.h"

namespace snf {

// A flowlet that needs a unit.
struct PlacementRequest {
  uint32_t demand = 0;     // in quanta of a unit's capacity
  UnitId owner = kNoUnit;  // ran the flow's last packet; kNoUnit: a new flow
  uint32_t alpha = 0;      // α in quanta
  // Units to which a replica of the state has had time to come; none after a
  // cut by bytes (decisions.md 13). Besides the owner, for which β is 1 anyway.
  ReplicaSet replicas{};
  uint64_t key_hash = 0;   // of the flow's key; the same in every run
  bool new_period = true;  // no packet of the flow yet in this reassign_period
};

struct Placement {
  UnitId unit = kNoUnit;       // kNoUnit while all units are stopping
  bool overcommitted = false;  // the unit has no room for the demand
  bool kept = false;           // where the flow was, without a choice
};

// Where a flowlet goes. A policy is a stateless function of the request and of
// the pool, whose loads are up to date; it may start units (one command at the
// most) and answers with a placeable unit; with kNoUnit only if there is none,
// not even one to start: all are stopping.
class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;
  virtual std::string_view name() const = 0;
  // Says in a line of --help what the policy does.
  virtual std::string_view help() const = 0;
  // Whether every packet is to be a flowlet of its own.
  virtual bool per_packet() const { return false; }
  // Whether a flow may go on at another unit while its own is not stopping:
  // else replicas of its state would be of no use.
  virtual bool moves_flows() const { return true; }
  virtual Placement Place(Instant now, const PlacementRequest& request,
                          UnitPool& units, ControllerOut& out) const = 0;
};

// Returns the policies, each with static lifetime, in the order of --help.
std::span<const PlacementPolicy* const> PlacementPolicies();
// Returns the policy of that name, or null.
const PlacementPolicy* FindPlacementPolicy(std::string_view name);

// The score of a unit for a request: its load plus α where it holds the flow's
// state (SNF §5.2.2), in quanta; -1 without room. For placement and for
// explaining it.
int64_t PlacementScore(const PlacementRequest& request, UnitId unit,
                       const UnitPool& units);

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_PLACEMENT_H_
