// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_UP_SEVERAL_CONTROLLERS_H_
#define SNF_PLATFORM_COMMANDS_UP_SEVERAL_CONTROLLERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "platform/options/run_flags.h"
#include "platform/process/flags.h"

namespace snf {

// A command line of `snf up` with --controllers. References are valid during
// the call.
struct SeveralControllers {
  const FlagSet& flags;
  const RunFlags& run;
  std::string name;
  uint32_t controllers = 2;
  uint32_t units = 0;  // of a resource manager of their own; 0: there is none
  bool upgrade = false;
};

// Starts a daemon for each controller, with the flags of the command line,
// which each of them checks. Errors: InvalidArgument, a flag is of one daemon
// alone; those of StartControllers.
absl::Status StartSeveral(const SeveralControllers& several);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_UP_SEVERAL_CONTROLLERS_H_
