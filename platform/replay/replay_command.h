// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_REPLAY_COMMAND_H_
#define SNF_PLATFORM_REPLAY_REPLAY_COMMAND_H_

#include "absl/status/status.h"
#include "platform/process/command.h"
#include "platform/replay/replay_flags.h"

namespace snf {

// `snf replay` runs captures through flowlets and units, in virtual or real
// time, and reports. Its parts are ReplayFlags, ReplayRun and ReplayOutput.
class ReplayCommand final : public FlagCommand {
 public:
  ReplayCommand();

 private:
  absl::Status Run() override;

  ReplayFlags replay_flags_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_REPLAY_COMMAND_H_
