// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_REAL_CLUSTER_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_REAL_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/placement.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/real_cluster/lease_desk.h"
#include "platform/drivers/real_cluster/locked_homes.h"
#include "platform/drivers/real_cluster/packet_dispatcher.h"
#include "platform/drivers/real_cluster/real_shard.h"
#include "platform/drivers/real_cluster/shard_leases.h"
#include "platform/drivers/real_cluster/shared_workers.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/run/kill_plan.h"
#include "platform/run/observers.h"
#include "platform/run/pace.h"
#include "platform/run/run.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf_spec.h"
#include "traces/capture_reader.h"

namespace snf {

// Theory of operation. A run in real time with several controllers. A
// dispatcher, on the caller's thread, gives each packet at its time to the
// controller that has its flow; each controller has a thread with a driver
// (real_driver.h). Units are each controller's own, and run there or on threads
// of its own.
//
//   capture ─► PacketDispatcher ─┬► RealShard: RealDriver, units
//        aliases ▲               ├► RealShard
//                └───────────────┴─ …
//
// Or controllers lease shares of units, from a resource manager on a thread of
// its own (lease_desk.h): then further threads run these units for all
// (shared_workers.h), with a loop of units, and so a ring, for each controller.
// Each controller has a share before the first packet comes; after the last one
// no lease changes. This manager may fail (RunOptions::faults).
//
// Controllers may fail, too. Their units then have output loggers, which run on
// the controller's thread. The thread of a failed controller makes a successor
// from the flows and leases that units report. Packets for that controller wait
// meanwhile; packets for others go on, also in the same units.
//
// A packet arrives when it is due, as with a single controller; at the greatest
// speed, when its controller takes it.
//
// A packet from the inside to an alias of another controller's flow comes back
// to that controller, as soon as the dispatcher knows the alias.
//
// If the NF has two sides, a packet from the outside needs an alias. If packets
// wait for room (RealOptions), a packet whose flow has no alias yet waits until
// the flow's controller has handled all its packets.
//
// Owner-thread only.
class RealCluster {
 public:
  // Each controller has all that the options give (threads, tables, buffers,
  // max_units), but a part of the pools of pieces. The policy must outlive the
  // run. observers[c] observe controller c, on its thread; packets that no
  // controller gets have no observer. The option `threads` counts the threads
  // of each controller and its units; with shared leases, the threads of all
  // units. Errors: InvalidArgument for an option that several controllers do
  // not have; others as RealDriver::Start.
  static absl::StatusOr<std::unique_ptr<RealCluster>> Start(
      const RunOptions& options, const RealOptions& real,
      const ClusterOptions& cluster, const PlacementPolicy& policy,
      const NfSpec& nf, std::vector<Observers> observers);

  ~RealCluster();
  RealCluster(const RealCluster&) = delete;
  RealCluster& operator=(const RealCluster&) = delete;

  // See RealDriver.
  void Offer(const CapturedPacket& captured);
  bool has_failed() const;
  RunResult Finish();
  uint32_t buffers_in_use() const;

 private:
  static constexpr Nanos kWait = Milliseconds(10);
  static constexpr Nanos kLead = Milliseconds(10);

  RealCluster(const RunOptions& options, const RealOptions& real,
              uint32_t controllers, const NfSpec& nf);
  void MakeLeases(const ClusterOptions& cluster);
  void WaitForUnits();
  void Begin(Instant first_packet);
  std::vector<FaultOptions> FaultsOfControllers(uint32_t controllers);
  size_t Choose(const Kill& kill, size_t controllers);
  void KillByChance();
  Instant WaitUntilDue(const CapturedPacket& captured);
  void WaitForAlias(RealShard& shard);
  // Returns true if packets that departed came back.
  bool TakeNews();
  bool BringBack(const AliasMail::News& departed);
  void Push(ControllerId to, const CapturedPacket& packet);
  void Settle();
  bool is_interrupted() const {
    return has_failed() ||
           (real_.interrupted != nullptr && real_.interrupted->load());
  }
  RunResult Merge(std::vector<RunResult> results) const;

  RunOptions options_;
  RealOptions real_;
  std::unique_ptr<NetworkFunction> example_;  // runs nothing
  LockedHomes tables_;
  PacketDispatcher dispatcher_;
  Pace pace_;
  RealClock clock_;
  Rng rng_;
  KillPlan plan_;
  ExternalAddresses external_;
  // Null, and empty, without shared units.
  std::unique_ptr<SharedWorkers> workers_;
  std::vector<std::unique_ptr<ShardLeases>> leases_;  // by controller
  std::unique_ptr<LeaseDesk> desk_;
  std::vector<std::unique_ptr<RealShard>> shards_;  // by controller
  RunResult own_;  // of packets that no controller got, and of all in
  Instant began_;
  Instant now_;  // of the clock, not long ago
  Instant last_captured_ = Instant::min();
  uint32_t buffers_in_use_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_REAL_CLUSTER_H_
