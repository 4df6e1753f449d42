// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_PLACEMENT_H_
#define SNF_CONTROLLER_CORE_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/options.h"
#include "controller/units/unit_pool.h"

namespace snf {

// A flowlet that needs a unit.
struct PlacementRequest {
  uint32_t demand = 0;     // in quanta of a unit's capacity
  UnitId owner = kNoUnit;  // of the flow's last packet; kNoUnit: a new flow
  uint32_t alpha = 0;      // α in quanta
  // The units, other than the owner, at which a replica of the state has had
  // time to land; none after a cut by bytes (proto/decisions.md 13). For these,
  // the owner, and all units on their hosts β is 1 (HasState).
  ReplicaSet replicas{};
  // α for the owner, beyond that for a replica.
  uint32_t owner_alpha = 0;
  // Since the flow's last packet, if a flowlet may not overtake it;
  // Nanos::max() if it may.
  Nanos gap = Nanos::max();
  int64_t demand_bps = 0;  // the same demand, also beyond what a unit has
  uint64_t key_hash = 0;   // of the flow's key; the same in every run
  bool new_period = true;  // no packet of the flow yet in this reassign_period
};

struct Placement {
  UnitId unit = kNoUnit;       // kNoUnit if all units are stopping
  bool overcommitted = false;  // the unit has no room for the demand
  bool kept = false;           // stays at the owner without a choice
};

// Chooses the unit of a flowlet. A policy is a stateless function of the
// request and of the units, whose loads are up to date. It may start a unit (at
// most one command) and returns a placeable unit, or kNoUnit if there is none
// and none can be started, because all are stopping.
class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;
  virtual std::string_view name() const = 0;
  // Says in a line of --help what the policy does.
  virtual std::string_view help() const = 0;
  // True if every packet is to be a flowlet of its own.
  virtual bool per_packet() const { return false; }
  // True if every flowlet goes to the unit of the highest PlacementScore, where
  // one has room.
  virtual bool by_score() const { return false; }
  // True if a flow may go on at another unit although its own is not stopping.
  // If false, replicas of its state are of no use and none are made.
  virtual bool moves_flows() const { return true; }
  virtual Placement Place(Instant now, const PlacementRequest& request,
                          UnitPool& units, ControllerOut& out) const = 0;
};

// Returns the policies, each with static lifetime, in the order of --help.
std::span<const PlacementPolicy* const> PlacementPolicies();
// Adds a policy of a name that none has, and returns it. Spans that were
// returned before are invalid then. Call it before there are threads.
const PlacementPolicy* AddPlacementPolicy(
    std::unique_ptr<const PlacementPolicy> policy);
// Returns the policy of that name, or null.
const PlacementPolicy* FindPlacementPolicy(std::string_view name);

// Returns true if the flow's state is on the unit's host, or will be there soon
// from the owner, which runs there (proto/decisions.md 38).
bool HasState(const PlacementRequest& request, UnitId unit,
              const UnitPool& units);

// Returns the score of a unit for a request, in quanta: its load, plus α if it
// holds the flow's state (SNF §5.2.2; proto/decisions.md 13); -1 if it has no
// room. The unit must be placeable. Used to place flowlets and to explain
// placements.
int64_t PlacementScore(const PlacementRequest& request, UnitId unit,
                       const UnitPool& units);

// Return the placement at a placeable unit that a policy has chosen, and the
// placement of a flowlet for which no unit has room: PlaceBeyond takes a warm
// unit, or starts as many as the load needs.
Placement PlaceAtChoice(Instant now, const PlacementRequest& request,
                        UnitId unit, UnitPool& units);
Placement PlaceBeyond(Instant now, const PlacementRequest& request,
                      UnitPool& units, ControllerOut& out);

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_PLACEMENT_H_
