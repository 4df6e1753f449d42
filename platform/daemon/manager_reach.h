// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_MANAGER_REACH_H_
#define SNF_PLATFORM_DAEMON_MANAGER_REACH_H_

#include <string>

#include "absl/status/status.h"
#include "resource_manager/live/lease_address.h"

namespace snf {

// Says why nobody has answered at a resource manager's address, and names the
// address: a call there ended with that status. Over TCP, connects to the
// address once more (WhyNotReachable), which takes some seconds at most.
std::string WhyNoManager(const LeaseAddress& address,
                         const absl::Status& status);

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_MANAGER_REACH_H_
