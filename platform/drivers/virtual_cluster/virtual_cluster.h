// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "base/rng.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
#include "platform/drivers/virtual_cluster/cluster_manager.h"
#include "platform/drivers/virtual_cluster/cluster_member.h"
#include "platform/drivers/virtual_cluster/cluster_meter.h"
#include "platform/drivers/virtual_cluster/cluster_moves.h"
#include "platform/drivers/virtual_cluster/cluster_unit.h"
#include "platform/drivers/virtual_network/event_queue.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "platform/run/figures/table_spread.h"
#include "platform/run/ingress.h"
#include "platform/run/kill_plan.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "resource_manager/core/dispatch_table.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {

// Theory of operation. A run in virtual time with several controllers (SNF §7,
// proto/protocol.md §7). A dispatcher gives each flow to one controller. Each
// controller has a driver of its own (virtual_time/virtual_driver.h) and leases
// shares of units. A unit has an inbox for each controller that uses it, with a
// Unit and an NF behind it that keep that controller's flows alone, and serves
// one packet at a time, by shares.
//
//   capture ─► dispatcher ─► member: LeaseUser, VirtualDriver
//                               │ ▲ asks, grants       │ ▲ next, serve
//                               ▼ │                    ▼ │
//                         ResourceManager ─shares─► ClusterUnit
//
// Messages about leases take a hop each and keep their order, but for chaos
// (ChaosOptions). Drivers run in turns, each to the time of the next event of
// all: at equal times, leases first, then drivers by their numbers. So a run is
// the same on every machine.
//
// Controllers lease their first shares before the first packet comes, so that
// units are there. After the last one no lease changes.
//
// Captures span years, and leases are renewed each epoch. So once nothing has
// come for a minute, the time of leases stands still until something is due.
// Example: between two packets that are ten days apart, leases are renewed for
// the first minute, and from an epoch before the second packet on.
//
// Controllers fail, join and leave as RunOptions::faults says. A controller
// that fails has a successor with its leases
// (virtual_time/controller_faults.h). A controller that joins is in the
// dispatcher's table once it has a share of a unit. A controller that leaves
// gives its shares back once others have its flows (cluster_moves.h). A
// resource manager that fails is replaced once the failure is detected. Until
// its successor knows all leases, these stay, none is granted, no controller
// joins, and a controller's successor has no life of its own
// (cluster_manager.h, unit_hosts.h).
//
// Owner-thread only.
class VirtualCluster final : private ClusterMember::Host,
                             private ClusterMoves::Host {
 public:
  // The NF must pass FlowDispatcher::Check, with the units of all observers.
  // observers[c] observe controller c, also if it joins later.
  VirtualCluster(const RunOptions& options, const ClusterOptions& cluster,
                 const PlacementPolicy& policy, const NfSpec& nf,
                 std::vector<Observers> observers);
  VirtualCluster(const VirtualCluster&) = delete;
  VirtualCluster& operator=(const VirtualCluster&) = delete;

  // See VirtualDriver.
  void Offer(const CapturedPacket& captured);
  RunResult Finish();

  // For tests.
  const ClusterFigures& figures() const { return figures_; }
  uint32_t buffers_in_use() const { return buffers_.in_use(); }
  uint32_t members() const { return static_cast<uint32_t>(members_.size()); }
  ClusterMember& member(uint32_t i) { return *members_[i]; }
  // Has a manager revoke all leases of a unit. Returns false if it cannot.
  bool CloseUnit(uint32_t manager, GlobalUnitId unit);
  // Delivers a forged message to the first manager, or to its units and
  // controllers.
  template <typename What>
  void Inject(const What& message) {
    events_.Push(now_, {0, message});
  }

 private:
  // The time in which leases settle without traffic, or 16 terms of leases.
  static constexpr Nanos kSettling = Seconds(60);

  struct UnitUp {  // the end of a start
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
    std::variant<ToManager, ManagerCommand, UnitUp, Tick, Sample, EpochEnd,
                 MoveOn, Change, Death, NextManager, Advanced, PiecesHome, Lack>
        what;
  };
  // ClusterMember::Host:
  Instant now() const override { return now_; }
  Instant lease_now() const override { return now_ + Nanos{-skipped_.ns}; }
  BufferPool& buffers() override { return buffers_; }
  Ingress& ingress() override { return ingress_; }
  ClusterTables& tables() override { return tables_; }
  ClusterUnit* FindUnit(ControllerId controller, UnitLife life) override;
  void Send(ControllerId from, const ToManager& message) override {
    SendOfLeases(ManagerOf(from), message);
  }
  void on_detached(ControllerId controller, UnitLife life) override;
  void on_shares(ControllerId controller, UnitLife life) override;
  void on_alias(ControllerId of, const FlowKey& alias) override;
  void on_hairpin(const FlowKey& to, bool by_alias,
                  PacketHandle packet) override;
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
  // A message to a controller that never joined is lost.
  bool IsMember(ControllerId id) const { return value(id) < members_.size(); }
  ClusterMember& Steer(const FlowKey& key, bool by_alias);
  void Begin(Instant first_packet);
  void AddManager();
  void AddMember(ControllerId id, ControllerLife life);
  void Join(const Change& change);
  void Leave(int controller);
  // Returns the number of that controller, or of a random one, if it is in the
  // table; else -1.
  int Choose(int controller);
  void TableChanged();
  void EnterIfReady(ClusterMember& member);
  void LeaveIfDone(ClusterMember& member);
  bool Bequeath(ClusterMember& member);
  void MoveLater();
  void RunUntil(Instant time);
  // Returns true if the event only keeps leases as they are.
  static bool KeepsLeases(const Event& event);
  // Skips most of the time up to `until` if no packet came for so long that
  // leases have settled, and nothing else is under way. Returns true if it did.
  bool SkipIdleTime(Instant until);
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
  void StopIfUnused(uint32_t manager, UnitLife life);
  void CheckPromises(uint32_t manager);

  void On(uint32_t manager, const ToManager& message);
  void On(uint32_t manager, const ManagerCommand& command);
  void On(uint32_t manager, const UnitUp& up);
  void On(uint32_t manager, const Tick&);
  void On(uint32_t, const Sample&);
  void On(uint32_t, const EpochEnd& end);
  void On(uint32_t, const MoveOn&);
  void On(uint32_t, const Change& change);
  void On(uint32_t, const Death& death);
  void KillManager();
  void On(uint32_t manager, const NextManager&);
  void On(uint32_t, const PiecesHome& home);
  void On(uint32_t, const Lack& lack);
  void On(uint32_t, const Advanced& advanced) {
    moves_.on_advanced(advanced.flow, advanced.clock);
  }

  // Commands of managers, at units and controllers.
  void AtUnit(uint32_t manager, const SetShare& set);
  void AtUnit(uint32_t manager, const StartUnit& start);
  void AtUnit(uint32_t manager, const StopUnit& stop);
  void AtUnit(uint32_t manager, const AskReport& ask);
  void AtController(ControllerId id, const ToController& message);

  RunOptions options_;
  ClusterOptions cluster_;
  const PlacementPolicy& policy_;
  NfSpec nf_;
  std::unique_ptr<NetworkFunction> example_;
  std::vector<Observers> observers_;  // until members are made
  BufferPool buffers_;
  Ingress ingress_;
  ClusterTables tables_;
  Instant now_ = Instant::min();
  Nanos skipped_;                        // now_ less the time of leases
  Instant busy_until_ = Instant::min();  // the last event that matters
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
  uint64_t units_up_max_ = 0;  // processes
  ClusterMoves moves_;
  ClusterPools pools_;
  std::vector<ControllerFigures> leases_;  // by controller
  bool moves_on_ = false;                  // a MoveOn is under way
  Rng rng_;                                // says who dies
  KillPlan plan_;
  Instant first_packet_;
  ClusterMeter meter_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
