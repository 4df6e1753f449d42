// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_MANAGER_LOOK_H_
#define SNF_RESOURCE_MANAGER_LIVE_MANAGER_LOOK_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "proto/leases.pb.h"
#include "resource_manager/live/lease_address.h"

namespace snf {

// Asks resource managers one after the other, each for `patience` at most, and
// returns what the first one says that answers. A process of its own asks, so
// the caller may fork later: gRPC's threads would not be in the child. Before
// the caller has threads. Errors: FailedPrecondition, none answers, with the
// last one's reason; Unavailable, no process can be started.
absl::StatusOr<proto::LookReply> LookAtManagers(
    const std::vector<LeaseAddress>& addresses, Nanos patience);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_MANAGER_LOOK_H_
