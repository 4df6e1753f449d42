// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CLUSTER_CLUSTER_OPTIONS_H_
#define SNF_PLATFORM_CLUSTER_CLUSTER_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace snf {

// How controllers of a run in virtual time lease units.
struct ClusterOptions {
  static constexpr uint32_t kMostControllers = 64;

  uint32_t controllers = 2;  // 1 … kMostControllers
  // One resource manager packs the leases of all into units that they share;
  // else each has units of its own, and leases whole ones.
  bool shared = true;
  Nanos epoch = Milliseconds(100);  // of asks
  Nanos term = Seconds(1);
  Nanos revoke_grace = Milliseconds(100);
  // A controller asks for so much at least, in 1/1024 of a unit; ≤ 1024.
  uint32_t least_share = 128;
  // One for each controller: it asks for that all along, whatever its load is.
  // Empty: by load.
  std::vector<uint32_t> fixed_shares = {};
};

}  // namespace snf

#endif  // SNF_PLATFORM_CLUSTER_CLUSTER_OPTIONS_H_
