// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_POLICY_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_NF_POLICY_COMMAND_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// Returns `snf policy`: which placement policies there are, and a new one to
// start from.
std::unique_ptr<Command> CreatePolicyCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_POLICY_COMMAND_H_
