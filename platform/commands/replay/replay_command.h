// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_REPLAY_REPLAY_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_REPLAY_REPLAY_COMMAND_H_

#include "absl/status/status.h"
#include "platform/options/run_flags.h"
#include "platform/process/command.h"

namespace snf {

// `snf replay` runs captures through flowlets and units, in virtual or real
// time, and reports. Its parts are RunFlags, ReplayRun and RunOutput.
class ReplayCommand final : public FlagCommand {
 public:
  ReplayCommand();

 private:
  absl::Status Run() override;

  RunFlags replay_flags_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_REPLAY_REPLAY_COMMAND_H_
