// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_NF_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_NF_NF_COMMAND_H_

#include <memory>

#include "platform/process/command_group.h"

namespace snf {

// Returns `snf nf`: which network functions there are, what each takes and
// keeps, and a new one to start from. `more` are commands of other folders that
// belong into the group.
std::unique_ptr<Command> CreateNfCommand(CommandTable more);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_NF_COMMAND_H_
