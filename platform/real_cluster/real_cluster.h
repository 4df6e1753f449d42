// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_CLUSTER_REAL_CLUSTER_H_
#define SNF_PLATFORM_REAL_CLUSTER_REAL_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/placement.h"
#include "platform/cluster/cluster_options.h"
#include "platform/process/real_clock.h"
#include "platform/real_cluster/lease_desk.h"
#include "platform/real_cluster/packet_dispatcher.h"
#include "platform/real_cluster/real_shard.h"
#include "platform/real_cluster/shard_leases.h"
#include "platform/real_cluster/shared_workers.h"
#include "platform/real_time/real_driver.h"
#include "platform/run/observers.h"
#include "platform/run/pace.h"
#include "platform/run/run.h"
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
// So may controllers, whose units have output loggers then, which run on the
// controller's thread: what one knew is lost, and its thread makes a successor
// of what units report, and of the leases that they have for it. Packets for it
// wait meanwhile, and those of others go on, also in the same units.
//
// A packet's arrival is when it was due, as with a single controller; at the
// greatest speed it is when its controller took it.
//
// A packet from the inside to an alias of another controller's flow comes back
// to that one, as soon as the dispatcher knows of the alias.
//
// Where the NF has two sides, what comes from the outside needs an alias. If
// packets wait for room (RealOptions), one whose flow has none yet waits until
// the flow's controller has done all that it got.
//
// Owner-thread only.
class RealCluster {
 public:
  // Each controller gets all that the options say, pools of pieces apart:
  // threads, tables, buffers, max_units. The policy must outlive the run, and
  // the NF be good. `observers` has those of each controller, which are told on
  // its thread; of packets that no controller gets nobody is
  // told. Errors: InvalidArgument, what several
  // controllers do not have; others as RealDriver::Start.
  // `threads` is of each controller, the thread that runs it and the units
  // among them; with leases that are shared, it is that of all units.
  static absl::StatusOr<std::unique_ptr<RealCluster>> Start(
      const RunOptions& options, const RealOptions& real,
      const ClusterOptions& cluster, const PlacementPolicy& policy,
      const NfSpec& nf, std::vector<Observers> observers);

  ~RealCluster();
  RealCluster(const RealCluster&) = delete;
  RealCluster& operator=(const RealCluster&) = delete;

  // As those of RealDriver.
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
  PacketDispatcher dispatcher_;
  Pace pace_;
  RealClock clock_;
  Rng rng_;
  ExternalAddresses external_;
  // Of units that are shared: null and none, if they are not.
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

#endif  // SNF_PLATFORM_REAL_CLUSTER_REAL_CLUSTER_H_
