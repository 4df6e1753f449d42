// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROLLERS_START_H_
#define SNF_PLATFORM_CONTROL_CONTROLLERS_START_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace snf {

// Daemons that share ports, each a controller, as `snf up --controllers` starts
// them.
struct ControllersStart {
  std::string name;  // controller I is the daemon NAME.I
  uint32_t count = 2;
  std::vector<std::string> flags;  // that each of them has
  // The flags of `snf manager`, which is NAME and is started first; without
  // any it is not.
  std::vector<std::string> manager;
  // They all run, and each flag list has --upgrade: others take their places.
  bool upgrade = false;
  std::string program;  // the file of this program
};

// Starts those that do not run yet, one after the other, and says on stdout
// what runs then; each says itself, on stderr, why it cannot. With `upgrade` it
// starts all, and stops at the first one that cannot: those before have been
// replaced then, the others go on. Errors: FailedPrecondition, others of that
// name run, one does not answer, or one to be replaced does not run; Internal,
// one did not start.
absl::Status StartControllers(const ControllersStart& start);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROLLERS_START_H_
