// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_KEY_NAME_H_
#define SNF_RESOURCE_MANAGER_ETCD_KEY_NAME_H_

#include <string>

#include "absl/status/status.h"

namespace snf {

// Checks a name that is a part of a key of etcd. Error: InvalidArgument, which
// says `what` the name should be, as in "name of a host".
absl::Status CheckKeyName(const char* what, const std::string& name);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_KEY_NAME_H_
