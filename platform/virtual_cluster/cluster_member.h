// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_MEMBER_H_
#define SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_MEMBER_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "controller/leases/lease_keeper.h"
#include "platform/cluster/cluster_options.h"
#include "platform/run/ingress.h"
#include "platform/run/run.h"
#include "platform/virtual_cluster/cluster_pools.h"
#include "platform/virtual_cluster/cluster_unit.h"
#include "platform/virtual_time/unit_sharing.h"
#include "platform/virtual_time/virtual_driver.h"

namespace snf {

// One of several controllers that share units: with its driver, and the keeper
// of its leases. Units that it uses have numbers of its own, from its first
// lease of a unit's life until nothing of it is left there. Owner-thread only.
class ClusterMember final : private UnitSharing {
 public:
  // Is what it needs of the cluster, which must outlive it.
  class Host {
   public:
    virtual ~Host() = default;
    virtual Instant now() const = 0;
    virtual BufferPool& buffers() = 0;
    virtual Ingress& ingress() = 0;
    // Returns null if there is no such process of a unit.
    virtual ClusterUnit* FindUnit(ControllerId controller, UnitLife life) = 0;
    virtual void Send(ControllerId from, const LeaseCommand& request) = 0;
    virtual void Send(ControllerId of, const ShareSet& answer) = 0;
    // The controller uses the unit no more, or its share of it has changed.
    virtual void on_detached(ControllerId controller, UnitLife life) = 0;
    virtual void on_shares(ControllerId controller, UnitLife life) = 0;
    virtual void on_alias(ControllerId of, const FlowKey& alias) = 0;
    virtual const ClusterPools& pools() = 0;
    virtual void on_returned(const PieceBlock& pieces) = 0;
    virtual void on_lack(ControllerId of, const PieceRequest& request) = 0;
    virtual void on_hairpin(const FlowKey& alias, PacketHandle packet) = 0;
    virtual void on_advanced(FlowId flow, Clock clock) = 0;
    // The controller failed, and another was made of what units had.
    virtual void on_rebuilt(ControllerId id) = 0;
    // Returns a life for that one; none while no resource manager can give one.
    virtual std::optional<ControllerLife> NewLife(ControllerId id) = 0;
  };

  ClusterMember(const RunOptions& options, const ClusterOptions& cluster,
                const PlacementPolicy& policy, const NfSpec& nf,
                Observers observers, ControllerLife life, Host& host);

  VirtualDriver& driver() { return driver_; }
  ControllerId id() const { return id_; }
  // Returns what its controller uses of that unit, in 1/1024. While there is
  // none, it is what the unit has for it: nobody hears of a share that is cut.
  int64_t share(UnitLife life) const;
  int64_t held() const { return keeper_.held(); }
  // Returns the unit that the driver knows by that number.
  UnitLife LifeOf(UnitId unit) const { return locals_[value(unit)].life; }

  // A packet came from the capture, or from the outside. One that waits comes
  // later, by VirtualDriver::TakeWaiting.
  void Take(Instant arrival, const CapturedPacket& captured,
            const Ingress::Taken& taken, bool waits);
  void TakeBack(const FlowKey& alias, PacketHandle packet, bool waits);

  // To be called every kSample; returns false if nothing came for some time.
  static constexpr Nanos kSample = Milliseconds(1);
  bool Sample();
  Instant next_epoch() const { return keeper_.next_wakeup(); }
  void on_epoch();
  void on_grant(const Grant& grant);
  void on_revoke(const Revoke& revoke);
  void on_gone(const Gone& gone);
  void on_new_manager(const NewManager& manager);
  // Returns the longest that the controller asked and had no share of any unit.
  // Time without a resource manager, or in which it has nothing to give, does
  // not count: then RestartWait is to be called. From EndWait on, at the end of
  // traffic, nobody waits.
  void RestartWait() { unleased_since_ = host_.now(); }
  void EndWait(bool has_manager);
  Nanos unleased_max() const { return unleased_max_; }
  uint64_t refused() const { return refused_ + keeper_.refused(); }

  // Counts the controllers that took the place of one that failed.
  uint32_t successions() const { return successions_; }
  ControllerLife life() const { return life_; }
  // The controller has no flows any more, and gives back all that it holds.
  void GiveUpUnits();
  bool gives_up_units() const { return gives_up_units_; }
  bool uses_units() const;

 private:
  static constexpr size_t kSamples = 10;
  // A unit as the driver knows it.
  struct Local {
    bool is_used = false;
    UnitLife life;
    int64_t share = 0;
    LeaseId newest{};  // of its leases of it, when it last had a share
    std::vector<LeaseId> vacating = {};
  };

  // UnitSharing:
  BufferPool& buffers() override { return host_.buffers(); }
  Ingress& ingress() override { return host_.ingress(); }
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
  void on_hairpin(const FlowKey& alias, PacketHandle packet) override {
    host_.on_hairpin(alias, packet);
  }

  // The unit has its process as long as it is used.
  ClusterUnit& Shared(UnitId unit) {
    return *host_.FindUnit(id_, LifeOf(unit));
  }
  const Local* Find(UnitLife life) const;
  Local* Find(UnitLife life) {
    return const_cast<Local*>(std::as_const(*this).Find(life));
  }
  UnitId NumberOf(const Local& local) const {
    return UnitId{static_cast<uint16_t>(&local - locals_.data())};
  }
  int64_t ShareByLeases(UnitLife life) const;
  // Does what the keeper has said, and makes the controller's shares what they
  // are by its leases.
  void Execute(bool at_once);
  void SetShares(bool at_once);
  void SetShare(Local& local, int64_t share, bool at_once);
  void AddLocals();

  void Detach(Local& local);
  int64_t Adopt(Local& local);
  bool is_up() const { return driver_.is_controller_up(); }
  void TakeLife();
  void NoteHeld();

  Host& host_;
  ControllerId id_;
  ControllerLife life_;
  bool awaits_life_ = false;  // has taken the place of one that failed
  bool has_units_ = false;    // a share of one
  bool is_waiting_over_ = false;
  Instant unleased_since_;
  Nanos unleased_max_{};
  uint64_t refused_ = 0;  // by keepers of controllers that failed
  uint32_t successions_ = 0;
  bool gives_up_units_ = false;
  bool is_fixed_;
  int64_t least_bps_;
  LeaseKeeperOptions keeper_options_;
  LeaseKeeper keeper_;
  LeaseCommands requests_;
  std::vector<Local> locals_;                 // by UnitId
  LeaseId newest_{};                          // of all its leases
  std::array<uint64_t, kSamples> sampled_{};  // bytes
  size_t sample_ = 0;
  VirtualDriver driver_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_MEMBER_H_
