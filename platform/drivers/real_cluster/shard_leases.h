// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARD_LEASES_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARD_LEASES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "controller/leases/lease_user.h"
#include "controller/rebuild/lease_finder.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/real_cluster/lease_mail.h"
#include "platform/run/run.h"

namespace snf {

class RealDriver;

// Theory of operation. The leases of one of several controllers that run in
// real time: carries messages between a LeaseUser and the resource manager, and
// the LeaseUser's commands to the RealDriver. The controller's number of a unit
// is the unit's global one.
//
//   LeaseDesk ─grants─► mail ─► LeaseUser ─► RealDriver::Lease, Revoke
//       ▲                           │
//       └────asks, renewals─────────┘
//
// If the controller fails, all mail is lost until its successor is made. The
// threads of units report the successor's leases. The successor asks the
// resource manager for a life, and keeps its leases as they are before it has
// one.
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

  // Sets the controller's driver, before Poll; it must outlive all calls.
  void set_driver(RealDriver& driver) { driver_ = &driver; }
  ControllerMail& mail() { return mail_; }
  // Returns true if the controller has a share of a unit. Any thread.
  bool has_unit() const { return has_unit_.load(std::memory_order_acquire); }
  // Returns true if the controller has something at the unit, or may have.
  bool uses(GlobalUnitId unit) const {
    return value(unit) < user_.units() &&
           user_.uses(UnitId{static_cast<uint16_t>(value(unit))});
  }

  ControllerLife life() const { return user_.life(); }

  // A packet came, of that cost in bytes.
  void on_packet(uint64_t bytes) { user_.on_packet(bytes); }
  // Carries messages and commands that are due. Returns true if there was
  // anything. Not before RealDriver::Begin.
  bool Poll();

  void on_failure() override;
  bool has_answers() override;
  void on_successor() override;

  uint64_t grants() const { return grants_; }
  int64_t share_max() const { return share_max_; }

 private:
  void FindFailed(Instant now);
  void Handle(Instant now, const ToController& message);
  // Returns true if there was a command.
  bool Carry(Instant now);

  LeaseUser user_;
  ManagerMail& manager_;
  std::vector<UnitMail*> unit_mail_;  // by thread
  RealDriver* driver_ = nullptr;
  ControllerMail mail_;
  size_t awaited_ = 0;   // answers of threads of units
  HeldLeases reported_;  // by the threads that have answered
  Instant next_sample_ = Instant::min();
  std::atomic<bool> has_unit_{false};
  uint64_t grants_ = 0;
  int64_t share_max_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARD_LEASES_H_
