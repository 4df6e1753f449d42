// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MEMBER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MEMBER_H_

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/messages/manager_messages.h"
#include "base/time.h"
#include "controller/leases/lease_user.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/virtual_cluster/cluster_pools.h"
#include "platform/drivers/virtual_cluster/cluster_unit.h"
#include "platform/drivers/virtual_network/unit_sharing.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/run/ingress.h"
#include "platform/run/run.h"

namespace snf {

// One of several controllers that share units: its driver, and a LeaseUser
// whose commands it carries out. Owner-thread only.
class ClusterMember final : private UnitSharing {
 public:
  // The cluster, which must outlive the member.
  class Host {
   public:
    virtual ~Host() = default;
    virtual Instant now() const = 0;
    // The time of leases, which stands still while nothing comes for long.
    virtual Instant lease_now() const = 0;
    virtual BufferPool& buffers() = 0;
    virtual Ingress& ingress() = 0;
    virtual ClusterTables& tables() = 0;
    // Returns null if there is no such process of a unit.
    virtual ClusterUnit* FindUnit(ControllerId controller, UnitLife life) = 0;
    // Sends a message to the controller's resource manager.
    virtual void Send(ControllerId from, const ToManager& message) = 0;
    // The controller has left the unit; its share of the unit has changed.
    virtual void on_detached(ControllerId controller, UnitLife life) = 0;
    virtual void on_shares(ControllerId controller, UnitLife life) = 0;
    virtual void on_alias(ControllerId of, const FlowKey& alias) = 0;
    virtual const ClusterPools& pools() = 0;
    virtual void on_returned(const PieceBlock& pieces) = 0;
    virtual void on_lack(ControllerId of, const PieceRequest& request) = 0;
    virtual void on_hairpin(const FlowKey& to, bool by_alias,
                            PacketHandle packet) = 0;
    virtual void on_advanced(FlowId flow, Clock clock) = 0;
    // The controller has failed, and its successor has what units reported.
    virtual void on_rebuilt(ControllerId id) = 0;
    // Returns a life for a successor; none while no resource manager is ready.
    virtual std::optional<ControllerLife> NewLife(ControllerId id) = 0;
  };

  ClusterMember(const RunOptions& options, const ClusterOptions& cluster,
                const PlacementPolicy& policy, const NfSpec& nf,
                Observers observers, ControllerLife life, Host& host);

  // Returns the options of a controller's driver.
  static RunOptions OptionsOf(RunOptions options, ControllerId controller);

  VirtualDriver& driver() { return driver_; }
  ControllerId id() const { return id_; }
  // Returns the controller's share of that unit, in 1/1024. Without a
  // controller, returns the share that the unit has for it.
  int64_t share(UnitLife life) const;
  // Returns the unit that the driver knows by that number.
  UnitLife LifeOf(UnitId unit) const { return user_.life(unit); }

  // A packet came from the capture, or from the outside. A packet that waits
  // comes later, by VirtualDriver::TakeWaiting.
  void Take(Instant arrival, const CapturedPacket& captured,
            const Ingress::Taken& taken, bool waits);
  void TakeBack(const FlowKey& to, bool by_alias, PacketHandle packet,
                bool waits);

  // To be called every LeaseUser::kSample. Returns false if nothing came for
  // some time.
  bool Sample();
  void on_epoch();
  // A message that comes while there is no controller is lost.
  void Handle(const ToController& message);
  // Counts a grant that has come, also if there was no controller.
  void on_granted();
  // Measures the longest time that the controller asked and had no share of any
  // unit. RestartWait excludes time without a resource manager, or in which the
  // manager has nothing to give. EndWait ends the measurement, at the end of
  // traffic.
  void RestartWait() { unleased_since_ = host_.now(); }
  void EndWait(bool has_manager);
  // Adds what the member counted, at the end of the run.
  void AddFigures(ClusterFigures& all, ControllerFigures& own) const;

  // Counts successors of controllers that failed.
  uint32_t successions() const { return successions_; }
  ControllerLife life() const { return user_.life(); }
  // The controller has no flows any more, and gives all its leases back.
  void GiveUpUnits();
  bool gives_up_units() const { return user_.is_leaving(); }
  bool uses_units() const { return user_.uses_units(); }

 private:
  // UnitSharing:
  BufferPool& buffers() override { return host_.buffers(); }
  Ingress& ingress() override { return host_.ingress(); }
  ClusterTables& tables() override { return host_.tables(); }
  void AddPiecePools(const NetworkFunction& example,
                     Controller& controller) override;
  void on_next(UnitId unit, uint32_t cost) override;
  void on_empty(UnitId unit) override;
  void on_served(UnitId unit) override;
  void on_left(UnitId unit) override;
  void on_unit_stopped(UnitId unit) override;
  void on_advanced(FlowId flow, Clock clock) override {
    host_.on_advanced(flow, clock);
  }
  void on_rebuilt() override;
  bool on_returned(const PieceBlock& pieces) override;
  void on_lack(const PieceRequest& request) override {
    host_.on_lack(id_, request);
  }
  void on_alias(const FlowKey& alias) override { host_.on_alias(id_, alias); }
  void on_hairpin(const FlowKey& to, bool by_alias,
                  PacketHandle packet) override {
    host_.on_hairpin(to, by_alias, packet);
  }

  // A unit that is used has its process.
  ClusterUnit& Shared(UnitId unit) {
    return *host_.FindUnit(id_, LifeOf(unit));
  }
  // Carries out what the leases' events have led to.
  void Carry();
  // Returns false if there is no such process any more.
  bool Lease(const LeaseUnit& lease);
  // Nothing of the controller is left in the unit.
  void Detach(UnitLife life);
  HeldLeases ReportedLeases();
  bool is_up() const { return driver_.is_controller_up(); }
  void TakeLife();
  void NoteHeld();

  Host& host_;
  ControllerId id_;
  bool has_units_ = false;  // a share of any
  bool is_waiting_over_ = false;
  Instant unleased_since_;
  Nanos unleased_max_{};
  uint32_t successions_ = 0;
  uint64_t grants_ = 0;
  int64_t share_max_ = 0;
  LeaseUser user_;
  VirtualDriver driver_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MEMBER_H_
