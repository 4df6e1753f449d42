// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMMAND_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// Returns `snf trace`, the commands for captures besides replaying them.
std::unique_ptr<Command> CreateTraceCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMMAND_H_
