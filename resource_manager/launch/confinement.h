// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LAUNCH_CONFINEMENT_H_
#define SNF_RESOURCE_MANAGER_LAUNCH_CONFINEMENT_H_

#include "absl/status/status.h"

namespace snf {

// Drops for good all rights of the calling process that the loading of an NF's
// module does not need: as ConfineToUnits, but files that the process can see
// may be read. ConfineToUnits may follow.
absl::Status ConfineToLoading();

// Drops for good all rights of the calling process that units do not need:
// capabilities, new privileges by exec, and all system calls except for memory,
// threads, waiting and open descriptors. Other system calls return EPERM. The
// calling thread must be the only one. Errors: Unavailable, with the system's
// reason.
absl::Status ConfineToUnits();

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LAUNCH_CONFINEMENT_H_
