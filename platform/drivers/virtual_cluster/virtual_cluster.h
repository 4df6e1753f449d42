// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "base/rng.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/virtual_cluster/cluster_dispatch.h"
#include "platform/drivers/virtual_cluster/cluster_event.h"
#include "platform/drivers/virtual_cluster/cluster_managers.h"
#include "platform/drivers/virtual_cluster/cluster_member.h"
#include "platform/drivers/virtual_cluster/cluster_meter.h"
#include "platform/drivers/virtual_cluster/cluster_moves.h"
#include "platform/drivers/virtual_cluster/cluster_pieces.h"
#include "platform/drivers/virtual_cluster/cluster_unit.h"
#include "platform/drivers/virtual_cluster/lease_clock.h"
#include "platform/drivers/virtual_network/event_queue.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "platform/run/figures/table_spread.h"
#include "platform/run/ingress.h"
#include "platform/run/kill_plan.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"

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
// The time of leases stands still while nothing comes (lease_clock.h).
//
// Controllers fail, join and leave as RunOptions::faults says. A controller
// that fails has a successor with its leases
// (virtual_time/controller_faults.h). A controller that joins is in the
// dispatcher's table once it has a share of a unit. A controller that leaves
// gives its shares back once others have its flows (cluster_moves.h). A
// resource manager that fails is replaced once the failure is detected. Until
// its successor knows all leases, these stay, none is granted, no controller
// joins, and a controller's successor has no life of its own
// (cluster_managers.h, unit_hosts.h).
//
// Owner-thread only.
class VirtualCluster final : private ClusterMember::Host,
                             private ClusterManagers::Host,
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
  bool CloseUnit(uint32_t manager, GlobalUnitId unit) {
    return managers_.Close(manager, unit);
  }
  // Delivers a forged message to the first manager, or to its units and
  // controllers.
  template <typename What>
  void Inject(const What& message) {
    events_.Push(now_, {0, message});
  }

 private:
  using Event = ClusterEvent;

  // ClusterMember::Host and ClusterManagers::Host:
  Instant now() const override { return now_; }
  Instant lease_now() const override { return lease_clock_.At(now_); }
  // ClusterMember::Host:
  BufferPool& buffers() override { return buffers_; }
  Ingress& ingress() override { return ingress_; }
  ClusterTables& tables() override { return tables_; }
  ClusterUnit* FindUnit(ControllerId controller, UnitLife life) override {
    return managers_.Find(managers_.ManagerOf(controller), life);
  }
  void Send(ControllerId from, const ToManager& message) override {
    SendOfLeases(managers_.ManagerOf(from), message);
  }
  void on_detached(ControllerId controller, UnitLife life) override {
    managers_.on_detached(managers_.ManagerOf(controller), life);
  }
  void on_shares(ControllerId controller, UnitLife life) override;
  void on_alias(ControllerId of, const FlowKey& alias) override;
  void on_hairpin(const FlowKey& to, bool by_alias,
                  PacketHandle packet) override;
  void on_advanced(FlowId flow, Clock clock) override {
    if (moves_.empty()) return;
    events_.Push(now_, {0, Event::Advanced{flow, clock}});
  }
  void on_rebuilt(ControllerId id) override;
  std::optional<ControllerLife> NewLife(ControllerId id) override {
    return managers_.NewLife(id);
  }
  const ClusterPools& pools() override { return pieces_.pools(); }
  void on_returned(const PieceBlock& pieces) override {
    SendAfterHop(0, Event::PiecesHome{pieces});
  }
  void on_lack(ControllerId of, const PieceRequest& request) override;
  // ClusterManagers::Host:
  void SendToManager(uint32_t manager, const ToManager& message) override {
    SendOfLeases(manager, message);
  }
  void SendCommand(uint32_t manager, const ManagerCommand& command) override {
    SendOfLeases(manager, command);
  }
  void on_start(uint32_t manager, UnitLife unit) override {
    events_.Push(now_ + options_.unit_start_delay,
                 {manager, Event::UnitUp{unit}});
  }
  void on_nothing_to_give(uint32_t manager) override;
  // ClusterMoves::Host:
  ClusterMember& OwnerOf(const FlowKey& flow) override {
    return Steer(flow, false);
  }

  // A message to a controller that never joined is lost.
  bool IsMember(ControllerId id) const { return value(id) < members_.size(); }
  ClusterMember& MemberOf(ControllerId id) { return *members_[value(id)]; }
  ClusterMember& Steer(const FlowKey& key, bool by_alias) {
    return MemberOf(dispatch_.Steer(key, by_alias));
  }
  void Begin(Instant first_packet);
  void AddMember(ControllerId id);
  void Join(const Event::Change& change);
  void Leave(int controller);
  void TableChanged();
  void EnterIfReady(ClusterMember& member);
  void LeaveIfDone(ClusterMember& member);
  void MoveLater();
  void RunUntil(Instant time);
  // Skips most of the time up to `until` if no packet came for so long that
  // leases have settled, and nothing else is under way. Returns true if it did.
  bool SkipIdleTime(Instant until);
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

  void On(uint32_t manager, const ToManager& message);
  void On(uint32_t manager, const ManagerCommand& command);
  void On(uint32_t manager, const Event::UnitUp& up) {
    managers_.on_started(manager, up.unit);
  }
  void On(uint32_t manager, const Event::Tick&);
  void On(uint32_t, const Event::Sample&);
  void On(uint32_t, const Event::EpochEnd& end);
  void On(uint32_t, const Event::MoveOn&);
  void On(uint32_t, const Event::Change& change);
  void On(uint32_t, const Event::Death& death);
  void KillManager();
  void On(uint32_t manager, const Event::NextManager&) {
    managers_.Succeed(manager);
  }
  void On(uint32_t, const Event::PiecesHome& home);
  void On(uint32_t, const Event::Lack& lack);
  void On(uint32_t, const Event::Advanced& advanced) {
    moves_.on_advanced(advanced.flow, advanced.clock);
  }

  // A command of a manager, at a controller.
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
  LeaseClock lease_clock_;
  bool has_begun_ = false;
  bool is_ending_ = false;
  bool samples_ = false;  // a Sample is under way
  uint64_t late_packets_ = 0;
  EventQueue<Event> events_;
  StateNetwork network_;  // of messages about leases
  ClusterDispatch dispatch_;
  std::vector<std::unique_ptr<ClusterMember>> members_;
  ClusterFigures figures_;
  ClusterMoves moves_;
  ClusterPieces pieces_;
  bool moves_on_ = false;  // a MoveOn is under way
  Rng rng_;                // says who dies
  KillPlan plan_;
  Instant first_packet_;
  ClusterMeter meter_;
  ClusterManagers managers_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_VIRTUAL_CLUSTER_H_
