// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_HOST_HOST_COMMANDS_H_
#define SNF_PLATFORM_COMMANDS_HOST_HOST_COMMANDS_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// `snf host join`, `leave` and `list`: the hosts of a cluster, kept in etcd.
std::unique_ptr<Command> CreateHostCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_HOST_HOST_COMMANDS_H_
