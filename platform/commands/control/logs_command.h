// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_CONTROL_LOGS_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_CONTROL_LOGS_COMMAND_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// `snf logs`: prints the logs of NFs (--nf_logs), also as they grow.
std::unique_ptr<Command> CreateLogsCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_CONTROL_LOGS_COMMAND_H_
