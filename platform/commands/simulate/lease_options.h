// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_OPTIONS_H_
#define SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_OPTIONS_H_

#include <cstdint>

#include "base/time.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {

// Options of the simulation. Controllers are 1 … 256.
struct LeaseOptions {
  static constexpr uint32_t kOne = 1'024;  // of the headroom

  uint32_t controllers = 10;
  // Controllers share units by one resource manager; else each has a manager
  // and units of its own, and asks for whole units.
  bool shared = true;
  Nanos epoch = Milliseconds(100);
  uint32_t headroom =
      kOne / 10;  // of what a controller asks for, over its load
  int64_t unit_capacity_bps = 1'000'000'000;
  ManagerOptions manager{.keep_warm = Seconds(1)};
  Nanos unit_start_delay = Milliseconds(10);
  Nanos message_delay = Microseconds(50);
  Nanos drain_delay = Milliseconds(1);  // until the end of a lease is confirmed
  Nanos warm_up = Seconds(1);           // goes by before anything is measured
  Nanos duration = Seconds(10);
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_OPTIONS_H_
