// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TRACE_TRACE_COMMAND_H_
#define SNF_PLATFORM_TRACE_TRACE_COMMAND_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// Returns `snf trace`: what researchers do with captures besides replaying
// them.
std::unique_ptr<Command> CreateTraceCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_TRACE_TRACE_COMMAND_H_
