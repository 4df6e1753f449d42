// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_CLUSTER_LEASE_USER_OPTIONS_H_
#define SNF_PLATFORM_DRIVERS_CLUSTER_LEASE_USER_OPTIONS_H_

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "controller/leases/lease_user.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/run/run.h"

namespace snf {

// Returns the options of the leases of one controller of a run. A message to
// the resource manager and its answer take `round_trip` at most.
inline LeaseUserOptions LeaseUserOptionsOf(const RunOptions& options,
                                           const ClusterOptions& cluster,
                                           ControllerId controller,
                                           Nanos round_trip) {
  const bool is_fixed = !cluster.fixed_shares.empty();
  const int64_t unit_bps = options.controller.unit_capacity_bps;
  const int64_t least =
      is_fixed ? cluster.fixed_shares[value(controller)] : cluster.least_share;
  return {.keeper = {.unit_capacity_bps = unit_bps,
                     .max_units = options.controller.max_units,
                     .headroom = is_fixed ? 0 : LeaseKeeperOptions().headroom,
                     .whole_units = !cluster.shared,
                     .epoch = cluster.epoch,
                     .term = cluster.term,
                     .round_trip = round_trip},
          .least_bps = unit_bps * least / kWholeUnit,
          .is_fixed = is_fixed};
}

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_CLUSTER_LEASE_USER_OPTIONS_H_
