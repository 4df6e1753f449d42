// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MODULES_MODULE_PROCESS_H_
#define SNF_PLATFORM_MODULES_MODULE_PROCESS_H_

#include <atomic>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/module.pb.h"

namespace snf {

// Asks the modules of the question, in a process of a container like a unit's.
// Starts a program for it, which is killed after 10 s, or soon after `*stop` is
// true. Errors: InvalidArgument says why a module cannot be used, or how the
// module failed; Cancelled; as ContainerMethod::Make. Any thread.
absl::StatusOr<proto::ModuleAnswer> AskModuleProcess(
    const proto::ModuleQuestion& question,
    const std::atomic<bool>* stop = nullptr);

// The command of that program, which reads the question from standard input and
// writes the answer to standard output.
inline constexpr std::string_view kModuleProcessCommand = "describe-module";
int ModuleProcessMain();

}  // namespace snf

#endif  // SNF_PLATFORM_MODULES_MODULE_PROCESS_H_
