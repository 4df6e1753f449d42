// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_CLUSTER_SHARD_LEASES_H_
#define SNF_PLATFORM_REAL_CLUSTER_SHARD_LEASES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "controller/leases/lease_keeper.h"
#include "controller/rebuild/lease_finder.h"
#include "platform/cluster/cluster_options.h"
#include "platform/real_cluster/lease_mail.h"
#include "platform/real_time/real_driver.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. The leases of one of several controllers that run in
// real time: asks the resource manager for shares by the load of the last
// 10 ms, and makes the controller's units what it holds. The controller's
// number of a unit is the unit's global one.
//
//   LeaseDesk ─grants─► mail ─► LeaseKeeper ─► RealDriver::Lease, Revoke
//       ▲                           │
//       └────asks, renewals─────────┘
//
// All of that fails with the controller; what comes by mail until its successor
// is made is lost. That one is given the leases that units have for it: those
// that end stay over, and a unit which it uses without one it leaves. It asks
// the resource manager for a life of its own, and for nothing else before it
// has that: until then its leases stay as they are.
//
// Worked example: the controller fails with a lease of 512 of unit 3. Unit 3
// reports a flow, and its thread that lease. The successor places flowlets in
// unit 3 at once. The resource manager gives it life 9 and sets the lease anew,
// for life 9; the unit confirms, and the grant comes.
//
// Owner-thread only, but for the mail and has_unit.
class ShardLeases final : public LeaseFinder {
 public:
  // The mail of the manager, and of the threads of units, must outlive the
  // object.
  ShardLeases(const RunOptions& options, const ClusterOptions& cluster,
              ControllerLife life, ManagerMail& manager,
              std::vector<UnitMail*> units);

  // The controller's, before Poll; it must outlive all calls.
  void set_driver(RealDriver& driver) { driver_ = &driver; }
  ControllerMail& mail() { return mail_; }
  // The controller has a share of a unit. Any thread.
  bool has_unit() const { return has_unit_.load(std::memory_order_acquire); }
  // Something of the controller is at the unit, or may get there.
  bool uses(GlobalUnitId unit) const {
    return value(unit) < units_.size() && units_[value(unit)].is_used;
  }

  // A packet came, of that cost in bytes.
  void on_packet(uint64_t bytes) { sampled_[sample_] += bytes; }
  // Does what is to be done by now. Returns true if there was anything. Not
  // before RealDriver::Begin.
  bool Poll();

  void on_failure() override;
  bool has_answers() override;
  void on_successor() override;

  uint64_t grants() const { return grants_; }
  int64_t share_max() const { return share_max_; }

 private:
  static constexpr size_t kSamples = 10;
  static constexpr Nanos kSample = Milliseconds(1);
  // A unit that the controller uses, or has not left yet.
  struct Used {
    bool is_used = false;
    UnitLife life;
    int64_t share = 0;
    std::vector<LeaseId> vacating{};
  };

  void OnLeft(Instant now, UnitId unit);
  void FindFailed(Instant now);
  void Sample(Instant now);
  void Handle(Instant now, const ToController& message, bool& at_once);
  void Adopt(const HeldLease& held);
  void AskForLife();
  void Execute(Instant now, bool at_once);
  void SetShares(Instant now, bool at_once);
  void SetShare(Instant now, uint16_t unit, int64_t share, bool at_once);
  int64_t ShareByLeases(UnitLife life) const;

  int64_t least_bps_;
  LeaseKeeperOptions keeper_options_;
  ControllerLife life_;
  bool awaits_life_ = false;
  LeaseKeeper keeper_;
  ManagerMail& manager_;
  std::vector<UnitMail*> unit_mail_;  // by thread
  RealDriver* driver_ = nullptr;
  ControllerMail mail_;
  size_t awaited_ = 0;   // answers of threads of units
  HeldLeases reported_;  // by those that have answered
  LeaseCommands requests_;
  std::vector<Used> units_;                   // by number
  std::array<uint64_t, kSamples> sampled_{};  // bytes
  size_t sample_ = 0;
  Instant next_sample_ = Instant::min();
  std::atomic<bool> has_unit_{false};
  uint64_t grants_ = 0;
  int64_t share_max_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_CLUSTER_SHARD_LEASES_H_
