// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_CONTROL_CHAIN_COMMANDS_H_
#define SNF_PLATFORM_COMMANDS_CONTROL_CHAIN_COMMANDS_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// `snf chain set` and `snf nf deploy`, which change what NFs a daemon runs.
std::unique_ptr<Command> CreateChainCommand();
std::unique_ptr<Command> CreateNfDeployCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_CONTROL_CHAIN_COMMANDS_H_
