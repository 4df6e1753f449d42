// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_CONTROL_CAPTURE_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_CONTROL_CAPTURE_COMMAND_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// The command that captures packets of a running daemon, each with its unit,
// latency or drop reason.
std::unique_ptr<Command> CreateCaptureCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_CONTROL_CAPTURE_COMMAND_H_
