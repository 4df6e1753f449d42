// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_POLICIES_POLICY_MODULE_H_
#define SNF_CONTROLLER_POLICIES_POLICY_MODULE_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/core/placement.h"

namespace snf {

// Returns the policy of a name, or that of a module's file, as in ./mine.so (a
// text with a '/', or that ends in ".so"). A module is loaded for good, and its
// policies (controller/sdk/policy.h) are known to FindPlacementPolicy then; of
// several the one with the file's name is returned. Errors are InvalidArgument
// and begin with the file or the name. Call it before there are threads.
absl::StatusOr<const PlacementPolicy*> ChoosePolicy(const std::string& text);

}  // namespace snf

#endif  // SNF_CONTROLLER_POLICIES_POLICY_MODULE_H_
