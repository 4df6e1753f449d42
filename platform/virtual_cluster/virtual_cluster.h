// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
#define SNF_PLATFORM_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/rng.h"
#include "platform/cluster/cluster_options.h"
#include "platform/cluster/flow_dispatcher.h"
#include "platform/run/ingress.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "platform/virtual_cluster/cluster_manager.h"
#include "platform/virtual_cluster/cluster_member.h"
#include "platform/virtual_cluster/cluster_meter.h"
#include "platform/virtual_cluster/cluster_moves.h"
#include "platform/virtual_cluster/cluster_unit.h"
#include "platform/virtual_time/event_queue.h"
#include "platform/virtual_time/state_network.h"
#include "resource_manager/core/dispatch_table.h"
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
// Messages about leases take a hop each and keep their order, unless chaos
// befalls them (ChaosOptions). Drivers go on in turns, each to the time of the
// next event of all: at equal times, leases first, then drivers by their
// numbers. So a run is the same on every machine.
//
// Controllers lease their first shares before the first packet comes, so that
// units are there. After the last one no lease changes.
//
// Controllers fail, join and leave as RunOptions::faults says. One that fails
// has a successor, as in a run of one (virtual_time/controller_faults.h), which
// goes on with its leases. One that joins is in the dispatcher's table once it
// has a share of a unit. One that leaves gives its shares back once others have
// its flows (cluster_moves.h). A resource manager that fails is replaced once
// that is detected; until the next one knows all leases, these stay, no other
// is granted, nobody joins, and the successor of a controller has no life of
// its own (cluster_manager.h, unit_hosts.h).
//
// Owner-thread only.
class VirtualCluster final : private ClusterMember::Host,
                             private ClusterMoves::Host {
 public:
  // The NF must pass FlowDispatcher::Check. `observers` has those of each
  // member, and of those that join.
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
  // A message that nobody of them has sent comes to the first manager, or to
  // one of its units.
  template <typename What>
  void Inject(const What& message) {
    events_.Push(now_, {0, message});
  }

 private:
  struct UnitUp {  // its start is over
    UnitLife unit;
  };
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
  struct MoveOn {};  // flows that change their controller
  struct Change {
    MemberChange what;
  };
  struct Death {
    int controller;
  };
  struct ManagerDeath {};
  struct NextManager {};
  struct PiecesHome {
    PieceBlock pieces;
  };
  struct Lack {
    ControllerId controller;
    uint32_t successions;
    PieceRequest request;
  };
  struct Advanced {
    FlowId flow;
    Clock clock;
  };
  struct Event {
    uint32_t manager = 0;
    std::variant<Ask, Renew, GiveBack, VacateLease, ShareSet, UnitUp, UnitReady,
                 UnitStopped, UnitLeaseReport, SetShare, Grant, Revoke, Gone,
                 NewManager, StartUnit, StopUnit, AskReport, Tick, Sample,
                 EpochEnd, MoveOn, Change, Death, ManagerDeath, NextManager,
                 Advanced, PiecesHome, Lack>
        what;
  };
  // ClusterMember::Host:
  Instant now() const override { return now_; }
  BufferPool& buffers() override { return buffers_; }
  Ingress& ingress() override { return ingress_; }
  ClusterUnit* FindUnit(ControllerId controller, UnitLife life) override;
  void Send(ControllerId from, const LeaseCommand& request) override;
  void Send(ControllerId of, const ShareSet& answer) override;
  void on_detached(ControllerId controller, UnitLife life) override;
  void on_shares(ControllerId controller, UnitLife life) override;
  void on_alias(ControllerId of, const FlowKey& alias) override;
  void on_hairpin(const FlowKey& alias, PacketHandle packet) override;
  void on_advanced(FlowId flow, Clock clock) override {
    if (moves_.empty()) return;
    events_.Push(now_, {0, Advanced{flow, clock}});
  }
  void on_rebuilt(ControllerId id) override;
  std::optional<ControllerLife> NewLife(ControllerId id) override;
  const ClusterPools& pools() override { return pools_; }
  void on_returned(const PieceBlock& pieces) override {
    SendAfterHop(0, PiecesHome{pieces});
  }
  void on_lack(ControllerId of, const PieceRequest& request) override;
  // ClusterMoves::Host:
  ClusterMember& OwnerOf(const FlowKey& flow) override {
    return Steer(flow, false);
  }

  uint32_t ManagerOf(ControllerId controller) const {
    return cluster_.shared ? 0 : value(controller);
  }
  // A message to one that never was is lost.
  bool IsMember(ControllerId id) const { return value(id) < members_.size(); }
  ClusterMember& MemberOf(ControllerLife life) {
    return *members_[value(life.controller)];
  }
  ClusterMember& Steer(const FlowKey& key, bool by_alias);
  void Begin(Instant first_packet);
  void AddManager();
  void AddMember(ControllerId id, ControllerLife life);
  void Join(const Change& change);
  void Leave(int controller);
  // Returns the number of one that is in the table; -1 if that one, or any, is
  // not.
  int Choose(int controller);
  void TableChanged();
  void EnterIfReady(ClusterMember& member);
  void LeaveIfDone(ClusterMember& member);
  bool Bequeath(ClusterMember& member);
  void MoveLater();
  void RunUntil(Instant time);
  void SendCommands(uint32_t manager);
  template <typename What>
  void SendAfterHop(uint32_t manager, const What& what) {
    events_.PushInOrder(now_ + options_.hop_delay, {manager, what});
  }
  // Chaos may befall a message about leases, while there is traffic.
  template <typename What>
  void SendOfLeases(uint32_t manager, const What& what) {
    const bool is_safe =
        !options_.chaos.meets_leases() || is_ending_ || now_ < first_packet_;
    if (is_safe) return SendAfterHop(manager, what);
    for (const Nanos delay : network_.Send()) {
      events_.Push(now_ + delay, {manager, what});
    }
  }
  // Returns null, and counts the message, if there is no manager.
  ResourceManager* Hear(uint32_t manager);
  void StopIfUnused(uint32_t manager, UnitLife life);
  void CheckPromises(uint32_t manager);

  void On(uint32_t manager, const Ask& ask);
  void On(uint32_t manager, const Renew& renew);
  void On(uint32_t manager, const GiveBack& back);
  void On(uint32_t, const VacateLease&) {}  // stays with the member
  void On(uint32_t manager, const ShareSet& set);
  void On(uint32_t manager, const UnitUp& up);
  void On(uint32_t manager, const UnitReady& ready);
  void On(uint32_t manager, const UnitLeaseReport& report);
  void On(uint32_t manager, const UnitStopped& stopped);
  void On(uint32_t manager, const SetShare& set);
  void On(uint32_t manager, const StartUnit& start);
  void On(uint32_t manager, const StopUnit& stop);
  void On(uint32_t manager, const AskReport& ask);
  void On(uint32_t, const Grant& grant);
  void On(uint32_t, const Revoke& revoke);
  void On(uint32_t, const Gone& gone);
  void On(uint32_t manager, const NewManager& next);
  void On(uint32_t manager, const Tick&);
  void On(uint32_t, const Sample&);
  void On(uint32_t, const EpochEnd& end);
  void On(uint32_t, const MoveOn&);
  void On(uint32_t, const Change& change);
  void On(uint32_t, const Death& death);
  void On(uint32_t manager, const ManagerDeath&);
  void On(uint32_t manager, const NextManager&);
  void On(uint32_t, const PiecesHome& home);
  void On(uint32_t, const Lack& lack);
  void On(uint32_t, const Advanced& advanced) {
    moves_.on_advanced(advanced.flow, advanced.clock);
  }

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
  StateNetwork network_;  // of messages about leases
  std::deque<ClusterManager> managers_;
  uint64_t manager_epochs_ = 0;
  ManagerOut commands_;
  DispatchTable dispatcher_;
  std::vector<ControllerId> live_;      // those in its table
  std::vector<ControllerId> joining_;   // … that are to be in it
  std::map<IpAddress, bool> external_;  // addresses whose blocks are given
  std::vector<std::unique_ptr<ClusterMember>> members_;
  ClusterFigures figures_;
  ClusterMoves moves_;
  ClusterPools pools_;
  std::vector<ControllerFigures> leases_;  // by controller
  bool moves_on_ = false;                  // a MoveOn is under way
  Rng rng_;                                // says who dies
  Instant first_packet_;
  ClusterMeter meter_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
