// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_OPTIONS_H_
#define SNF_CONTROLLER_CORE_OPTIONS_H_

#include <cstdint>

#include "base/time.h"

namespace snf {

// The measure of a unit's load when a flowlet is placed (proto/protocol.md
// 2.6).
enum class LoadSignal : uint8_t {
  kWait,     // the time that a packet would wait there, in parts of
             // latency_target
  kDemand,   // the larger of the drained rate and the open flowlets' demand,
             // plus the packets that still wait
  kDrained,  // the paper's bare rule: the drained rate alone
};

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
struct ControllerOptions {
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

  LoadSignal load_signal = LoadSignal::kWait;
  // LoadSignal::kWait fills units until 1 % of the packets wait longer. 1 µs …
  // 10 s.
  Nanos latency_target = Microseconds(350);
  // The drained rate is the mean over `load_buckets` of `load_bucket` (SNF §8).
  Nanos load_bucket = Microseconds(500);
  uint32_t load_buckets = 200;

  uint32_t max_units = 64;  // 1 … kMaxUnits
  // Number of spare units, the last ones of max_units. They take over the flows
  // of failed units if no other unit is left, and are not used otherwise. Less
  // than max_units.
  uint32_t spare_units = 0;
  // Units on one host (host_map.h): 1 … HostMap::kMaxUnitsPerHost.
  uint32_t units_per_host = 1;
  int64_t unit_capacity_bps = 1'000'000'000;  // 1 kbit/s … 1 Tbit/s
  // The most packets that a unit processes in a second (packet_cost.h); 0: as
  // many as its capacity in bits carries.
  int64_t unit_packets_ps = 0;
  // The units are leased (Controller::on_lease): none is started or parked, and
  // warm_units, unit_idle_timeout and keep_warm are nothing to them.
  bool leased = false;
  uint32_t unit_queue_packets = 1024;  // slots of a unit's channel
  // Additional slots, only for packets re-routed after failures: all other
  // slots may be taken by packets that wait for these.
  uint32_t recovery_slots = 0;
  // Units say when the end of a flow is in their logger (on_ended); until then
  // the flow is recovered from failures like any other.
  bool awaits_ends = false;
  // Owners are told the controller's data of their flows, so that a new
  // controller can be built from their reports (F9).
  bool names_flows = false;
  uint32_t start_buffer_packets = 256;  // slots usable until it is ready
  uint32_t warm_units = 1;              // units warm at the start
  // A start that takes longer has failed (proto/protocol.md F11); Nanos::max()
  // = none ever has.
  Nanos start_timeout = Nanos::max();
  Nanos unit_idle_timeout = Microseconds(500);  // active -> warm
  Nanos keep_warm = Seconds(30);                // warm -> stopped

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

  // Incarnation of the first unit start; later starts count up. A successor
  // continues above its predecessor's last incarnation.
  uint32_t first_incarnation = 1;
  // Number of this start of the controller, from 0. Its flow ids differ from
  // those of all earlier starts.
  uint32_t epoch = 0;

  uint64_t seed = 1;          // of random choices
  uint8_t controller_id = 0;  // upper bits of its flow ids
  uint64_t hash_seed = 0;     // of the flow table; does not change results
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_OPTIONS_H_
