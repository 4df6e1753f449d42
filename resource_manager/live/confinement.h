// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_CONFINEMENT_H_
#define SNF_RESOURCE_MANAGER_LIVE_CONFINEMENT_H_

#include "absl/status/status.h"

namespace snf {

// Takes from the calling process, for good, all that running units needs not:
// capabilities, new privileges by exec, and all system calls but those of
// memory, of threads, of waiting, and of descriptors that it has. Others return
// EPERM. The calling thread must be the only one. Errors: Unavailable, with the
// system's reason.
absl::Status ConfineToUnits();

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_CONFINEMENT_H_
