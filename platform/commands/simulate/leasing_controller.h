// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_SIMULATE_LEASING_CONTROLLER_H_
#define SNF_PLATFORM_COMMANDS_SIMULATE_LEASING_CONTROLLER_H_

#include <cstdint>

#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "controller/leases/lease_keeper.h"
#include "platform/commands/simulate/lease_options.h"

namespace snf {

// A controller with a fluid load: a LeaseKeeper, and figures of its leases and
// its load. Flows leave a lease that is to be vacated at once, so the commands
// contain no VacateLease. A value; owner-thread only.
class LeasingController {
 public:
  LeasingController(const LeaseOptions& options, ControllerLife life);

  // Figures since the last ResetFigures.
  struct Figures {
    double offered_bits = 0;
    double leased_bits = 0;  // that it could have served
    double short_bits = 0;   // of load above its leases
  };
  const Figures& figures() const { return figures_; }
  void ResetFigures() { figures_ = {}; }
  // Brings the figures up to now, as the following calls do.
  void Advance(Instant now);

  // In 1/1024 of a unit.
  int64_t held() const { return keeper_.held(); }

  void on_load(Instant now, int64_t change_bps, LeaseCommands& out);
  void on_epoch(Instant now, LeaseCommands& out);
  void on_grant(Instant now, const Grant& grant, LeaseCommands& out);
  void on_revoke(Instant now, const Revoke& revoke, LeaseCommands& out);
  void on_gone(Instant now, const Gone& gone);

 private:
  void VacateAll(Instant now, LeaseCommands& out);

  double unit_capacity_bps_;
  LeaseKeeper keeper_;
  Instant since_{};  // of the figures
  Figures figures_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_SIMULATE_LEASING_CONTROLLER_H_
