// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_UP_RUN_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_UP_RUN_COMMAND_H_

#include "absl/status/status.h"
#include "platform/options/run_flags.h"
#include "platform/process/command.h"

namespace snf {

// `snf run` runs live traffic between two ports through flowlets and units, in
// real time, until it is interrupted, and reports as `snf replay` does.
class RunCommand final : public FlagCommand {
 public:
  RunCommand();

 private:
  absl::Status Run() override;

  RunFlags run_flags_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_UP_RUN_COMMAND_H_
