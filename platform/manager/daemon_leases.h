// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MANAGER_DAEMON_LEASES_H_
#define SNF_PLATFORM_MANAGER_DAEMON_LEASES_H_

#include <cstdint>
#include <memory>

#include "controller/rebuild/lease_finder.h"
#include "platform/live/live_leases.h"
#include "platform/manager/held_units.h"
#include "platform/manager/lease_member.h"
#include "platform/real_cluster/shard_leases.h"
#include "platform/real_time/real_driver.h"
#include "platform/run/run.h"

namespace snf {

// The leases of a daemon: what it asks of its resource manager, and its parts
// of units (HeldUnits), which are its own units of the same numbers.
//
//   LeaseMember ─inbox─► HeldUnits, ShardLeases ─► RealDriver::Lease, Revoke
//        ▲                          │
//        └─────────outbox───────────┘
//
// Owner-thread only, but for has_unit.
class DaemonLeases final : public LiveLeases {
 public:
  // The options are those of the run, whose units are the manager's.
  DaemonLeases(std::unique_ptr<LeaseMember> member, const RunOptions& options);

  // Before Poll; it must outlive all calls.
  void set_driver(RealDriver& driver) { leases_.set_driver(driver); }
  // For a driver that takes over units of a process that was killed, which is
  // to be set before it asks for their leases. Those have ended with that
  // process: it leaves units that it uses and does not lease anew.
  LeaseFinder& finder() { return leases_; }

  void on_packet(uint64_t bytes) override { leases_.on_packet(bytes); }
  bool Poll() override;
  bool has_unit() const override { return leases_.has_unit(); }

 private:
  void Handle(const FromManager& message);
  void PollLeases();

  std::unique_ptr<LeaseMember> member_;
  ShardLeases leases_;
  HeldUnits units_;
  bool did_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_MANAGER_DAEMON_LEASES_H_
