// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_CONFIG_CONFIG_COMMANDS_H_
#define SNF_PLATFORM_COMMANDS_CONFIG_CONFIG_COMMANDS_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// `snf config` looks at the configuration file of a daemon (proto/config.proto)
// and lets a daemon that runs take it.
std::unique_ptr<Command> CreateConfigCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_CONFIG_CONFIG_COMMANDS_H_
