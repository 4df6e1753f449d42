// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_CONTROL_CONTROL_COMMANDS_H_
#define SNF_PLATFORM_COMMANDS_CONTROL_CONTROL_COMMANDS_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// The commands that look at a daemon of `snf up` and steer it.
std::unique_ptr<Command> CreateStatusCommand();
std::unique_ptr<Command> CreateUnitsCommand();
std::unique_ptr<Command> CreateFlowsCommand();
std::unique_ptr<Command> CreateRulesCommand();
std::unique_ptr<Command> CreateTopCommand();
std::unique_ptr<Command> CreateSetCommand();
std::unique_ptr<Command> CreateDrainCommand();
std::unique_ptr<Command> CreateKillCommand();
std::unique_ptr<Command> CreateDownCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_CONTROL_CONTROL_COMMANDS_H_
