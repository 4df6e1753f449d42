// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
#define SNF_PLATFORM_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "platform/cluster/cluster_options.h"
#include "platform/cluster/flow_dispatcher.h"
#include "platform/run/ingress.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "platform/virtual_cluster/cluster_member.h"
#include "platform/virtual_cluster/cluster_unit.h"
#include "platform/virtual_time/event_queue.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {

// Theory of operation. A run in virtual time with several controllers (SNF §7,
// proto/protocol.md §7). A dispatcher gives each flow to one of them; each has
// a driver of its own (virtual_time/virtual_driver.h) and leases shares of
// units. A unit has an inbox for each controller that uses it, with a Unit and
// an NF behind it that keep that controller's flows alone, and serves one
// packet at a time, by shares.
//
//   capture ─► dispatcher ─► member: LeaseKeeper, VirtualDriver
//                               │ ▲ asks, grants       │ ▲ next, serve
//                               ▼ │                    ▼ │
//                         ResourceManager ─shares─► ClusterUnit
//
// Messages about leases take a hop each and keep their order. Drivers go on in
// turns, each to the time of the next event of all: at equal times, leases
// first, then drivers by their numbers. So a run is the same on every machine.
//
// Controllers lease their first shares before the first packet comes, so that
// units are there. After the last one no lease changes.
//
// Owner-thread only.
class VirtualCluster final : private ClusterMember::Host {
 public:
  // The NF must pass FlowDispatcher::Check. `observers` has those of each
  // member.
  VirtualCluster(const RunOptions& options, const ClusterOptions& cluster,
                 const PlacementPolicy& policy, const NfSpec& nf,
                 std::vector<Observers> observers);
  VirtualCluster(const VirtualCluster&) = delete;
  VirtualCluster& operator=(const VirtualCluster&) = delete;

  // As those of VirtualDriver.
  void Offer(const CapturedPacket& captured);
  RunResult Finish();

  // What tests ask. Units whose shares, as their controllers use them, add up
  // to more than the unit; aliases of other controllers' blocks.
  const ClusterFigures& figures() const { return figures_; }
  uint32_t buffers_in_use() const { return buffers_.in_use(); }
  uint32_t members() const { return static_cast<uint32_t>(members_.size()); }
  ClusterMember& member(uint32_t i) { return *members_[i]; }
  // A manager takes all leases of a unit back. Returns false if it cannot.
  bool CloseUnit(uint32_t manager, GlobalUnitId unit);

 private:
  struct UnitReady {
    UnitLife unit;
  };
  struct UnitStopped {
    UnitLife unit;
  };
  struct Tick {};
  struct Sample {};
  struct EpochEnd {
    uint32_t member;
  };
  struct Event {
    uint32_t manager = 0;
    std::variant<Ask, Renew, GiveBack, VacateLease, ShareSet, UnitReady,
                 UnitStopped, SetShare, Grant, Revoke, Gone, StartUnit,
                 StopUnit, AskReport, Tick, Sample, EpochEnd>
        what;
  };
  using Units = std::map<uint32_t, ClusterUnit>;  // by GlobalUnitId

  // ClusterMember::Host:
  Instant now() const override { return now_; }
  BufferPool& buffers() override { return buffers_; }
  Ingress& ingress() override { return ingress_; }
  ClusterUnit& UnitOf(ControllerId controller, UnitLife life) override;
  void Send(ControllerId from, const LeaseCommand& request) override;
  void Send(ControllerId of, const ShareSet& answer) override;
  void on_detached(ControllerId controller, UnitLife life) override;
  void on_shares(ControllerId controller, UnitLife life) override;
  void on_alias(ControllerId of, const FlowKey& alias) override;
  void on_hairpin(const FlowKey& alias, PacketHandle packet) override;

  uint32_t ManagerOf(ControllerId controller) const {
    return cluster_.shared ? 0 : value(controller);
  }
  ClusterMember& MemberOf(ControllerLife life) {
    return *members_[value(life.controller)];
  }
  ClusterMember& Steer(const FlowKey& key, bool by_alias);
  void Begin(Instant first_packet);
  void RunUntil(Instant time);
  void SendCommands(uint32_t manager);
  template <typename What>
  void SendAfterHop(uint32_t manager, const What& what) {
    events_.PushInOrder(now_ + options_.hop_delay, {manager, what});
  }
  void StopIfUnused(uint32_t manager, UnitLife life);
  // Adds the time that units were up, before their number changes.
  void CountUnitTime();

  void On(uint32_t manager, const Ask& ask);
  void On(uint32_t manager, const Renew& renew);
  void On(uint32_t manager, const GiveBack& back);
  void On(uint32_t, const VacateLease&) {}  // stays with the member
  void On(uint32_t manager, const ShareSet& set);
  void On(uint32_t manager, const UnitReady& ready);
  void On(uint32_t manager, const UnitStopped& stopped);
  void On(uint32_t manager, const SetShare& set);
  void On(uint32_t manager, const StartUnit& start);
  void On(uint32_t manager, const StopUnit& stop);
  void On(uint32_t, const AskReport&) {}  // only after a restart
  void On(uint32_t, const Grant& grant);
  void On(uint32_t, const Revoke& revoke);
  void On(uint32_t, const Gone& gone);
  void On(uint32_t manager, const Tick&);
  void On(uint32_t, const Sample&);
  void On(uint32_t, const EpochEnd& end);

  RunOptions options_;
  ClusterOptions cluster_;
  const PlacementPolicy& policy_;
  NfSpec nf_;
  std::unique_ptr<NetworkFunction> example_;
  std::vector<Observers> observers_;  // until members are made
  BufferPool buffers_;
  Ingress ingress_;
  Instant now_ = Instant::min();
  bool has_begun_ = false;
  bool is_ending_ = false;
  bool samples_ = false;  // a Sample is under way
  uint64_t late_packets_ = 0;
  EventQueue<Event> events_;
  std::vector<std::unique_ptr<ResourceManager>> managers_;
  ManagerOut commands_;
  std::vector<Units> units_;  // by manager
  FlowDispatcher dispatcher_;
  std::vector<ControllerFigures> leases_;  // by controller
  std::vector<std::unique_ptr<ClusterMember>> members_;
  ClusterFigures figures_;
  Instant first_packet_;
  Instant counted_until_;
  int64_t unit_ns_ = 0;  // of units that were up, from the first packet on
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
