// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_CLUSTER_CLUSTER_OPTIONS_H_
#define SNF_PLATFORM_DRIVERS_CLUSTER_CLUSTER_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace snf {

// Options of a run with several controllers, which lease units.
struct ClusterOptions {
  uint32_t controllers = 2;  // 1 … kMostControllers
  // True: one resource manager packs the leases of all controllers into units
  // that they share. False: each controller has units of its own, and leases
  // whole ones.
  bool shared = true;
  Nanos epoch = Milliseconds(100);  // between asks
  Nanos term = Seconds(1);
  Nanos revoke_grace = Milliseconds(100);
  // The least that a controller asks for, in 1/1024 of a unit; ≤ 1024.
  uint32_t least_share = 128;
  // The share that each controller asks for, whatever its load is. Empty: each
  // asks by load.
  std::vector<uint32_t> fixed_shares = {};
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_CLUSTER_CLUSTER_OPTIONS_H_
