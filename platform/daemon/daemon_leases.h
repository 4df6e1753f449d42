// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_DAEMON_LEASES_H_
#define SNF_PLATFORM_DAEMON_DAEMON_LEASES_H_

#include <cstdint>
#include <memory>

#include "controller/rebuild/lease_finder.h"
#include "platform/daemon/chains/live_leases.h"
#include "platform/daemon/lease_member.h"
#include "platform/drivers/real_cluster/shard_leases.h"
#include "platform/run/run.h"
#include "runtime/leases/held_units.h"

namespace snf {

class RealDriver;

// The leases of a daemon: its messages to the resource manager, and its parts
// of units (HeldUnits), which are its own units of the same numbers.
//
//   LeaseMember ─inbox─► HeldUnits, ShardLeases ─► RealDriver::Lease, Revoke
//        ▲                          │
//        └─────────outbox───────────┘
//
// Owner-thread only, but for has_unit.
class DaemonLeases final : public LiveLeases {
 public:
  // `options` are the run's; the run has the manager's units.
  DaemonLeases(std::unique_ptr<LeaseMember> member, const RunOptions& options);

  // Sets the driver, before Poll; it must outlive all calls.
  void set_driver(RealDriver& driver) { leases_.set_driver(driver); }
  // Says on which hosts units run; null without LeaseMember::Options::hosts.
  const HostSource* hosts() const { return member_->hosts(); }
  // As LeaseMember::manager.
  Outage::State manager() const { return member_->manager(); }
  // Finds the leases for a driver that takes over the units of a killed
  // process; the driver is to be set before. The leases have ended with the
  // process, so the driver leaves the units that it does not lease anew.
  LeaseFinder& finder() { return leases_; }

  void on_packet(uint64_t bytes) override { leases_.on_packet(bytes); }
  bool Poll() override;
  bool has_unit() const override { return leases_.has_unit(); }

 private:
  void Handle(const FromManager& message);
  void PollLeases();
  void EndAll();

  std::unique_ptr<LeaseMember> member_;
  ShardLeases leases_;
  HeldUnits units_;
  bool did_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_DAEMON_LEASES_H_
