// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_OPTIONS_H_
#define SNF_CONTROLLER_CORE_OPTIONS_H_

#include <cstdint>

#include "base/time.h"
#include "controller/units/pool_options.h"

namespace snf {

// The rule by which a finished flowlet's rate is measured (proto/decisions.md
// 10).
enum class DemandRule : uint8_t {
  kFloor,  // bytes over max(last - first packet, demand_floor)
  kBurst,  // bytes over last - first packet; a lone packet counts as a
           // whole unit's capacity
};

// The choice of the units that get replicas of a flow's state (SNF §5.2.2,
// Pseudocode 2).
enum class ReplicaChoice : uint8_t {
  kLikely,         // as many as the chance that the flow moves is worth, at
                   // the other end of the units from its own
  kWeighted,       // random, weight inverse to the unit's rank by id
  kDeterministic,  // the units of the lowest ids
  kNone,           // none: state is pulled when it is missed ("reactive")
};

// A controller's configuration. All limits are fixed at construction; nothing
// is allocated afterwards. Defaults are taken from SNF §9 if it has them.
struct ControllerOptions : UnitPoolOptions {
  // Flowlets end when the gap exceeds T (SNF §4.1) …
  Nanos flowlet_timeout = Microseconds(500);
  // … or when the next packet would push their size over B bytes. At most 1 GB.
  uint32_t flowlet_bytes = 15'000;
  // A flow without packets for this long is forgotten; Nanos::max() = never.
  Nanos flow_timeout = Seconds(300);
  // Most flows at one time. If the table is full, a new flow evicts a flow that
  // has been idle for evict_after (Nanos::max() = never), preferably one that
  // would soon be forgotten. If there is none, the new flow's packet is
  // dropped.
  uint32_t max_flows = 1 << 20;
  Nanos evict_after = Seconds(1);

  // α, the weight of state against utilisation, in 1/1024: 0 … 1024.
  uint32_t alpha_1024 = 1024;
  // δ, the weight of the last measured rate in the EWMA, in 1/65536.
  uint32_t ewma_delta_65536 = 32'768;
  DemandRule demand_rule = DemandRule::kFloor;
  // The shortest time over which DemandRule::kFloor measures.
  Nanos demand_floor = Microseconds(500);
  // The demand of a flow's first flowlet before any flowlet was measured, which
  // counts as much as kPriorFlowlets measured ones; 0 = 1 % of a unit's
  // capacity.
  int64_t first_demand_bps = 0;

  // Units say when the end of a flow is in their logger (on_ended); until then
  // the flow is recovered from failures like any other.
  bool awaits_ends = false;
  // Owners are told the controller's data of their flows, so that a new
  // controller can be built from their reports (F9).
  bool names_flows = false;

  // K, the number of units that a flow's state is pushed to ahead of its next
  // flowlet, and the rule that chooses them (SNF §5.2.2).
  uint32_t replicas = 3;  // 0 … kMaxReplicas
  ReplicaChoice replica_choice = ReplicaChoice::kLikely;
  // The least chance of use that is worth a push under kLikely, in 1/65536: 1 …
  // 65536.
  uint32_t replica_chance_65536 = 4'096;
  // The time after a push at which its replica counts as landed
  // (proto/decisions.md 13).
  Nanos push_delay = Microseconds(200);

  // The period of the policy smart_flow, on a grid that begins at time 0.
  Nanos reassign_period = Milliseconds(100);

  // Flow slots that one step examines while a unit is being emptied (U8).
  uint32_t evacuate_slots = 4'096;
  // The most runs in the owner history (F5) of all flows together; 0 =
  // max_flows.
  uint32_t max_owner_runs = 0;

  // If true, an owner history keeps each run until its copy is gone, a flow
  // ends only once its history is empty, and kForget speaks for failed units.
  // So a successor finds no copy of an ended flow.
  bool forgets_copies = false;

  uint64_t seed = 1;          // of random choices
  uint8_t controller_id = 0;  // upper bits of its flow ids
  uint64_t hash_seed = 0;     // of the flow table; does not change results
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_OPTIONS_H_
