// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_NF_CHECK_RULES_H_
#define SNF_PLATFORM_COMMANDS_NF_NF_CHECK_RULES_H_

#include <memory>

#include "platform/process/command.h"

namespace snf {

// Returns `snf nf check-rules`: says of each rule of Snort's whether the NF ids
// honours it, in part, or not, and why.
std::unique_ptr<Command> CreateNfCheckRulesCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_NF_CHECK_RULES_H_
