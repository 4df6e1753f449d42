// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/commands/recovery/drill_report.h"
#include "platform/process/command.h"
#include "traces/loaded_capture.h"

namespace snf {

// `snf recovery` lets a unit die again and again, and recovers it in three
// ways.
class RecoveryCommand final : public FlagCommand {
 public:
  RecoveryCommand();

 private:
  absl::Status Run() override;
  void AddFlags();
  absl::Status Load(LoadedCapture& capture) const;

  std::string nf_ = "nat";
  std::vector<std::string> files_;
  DrillOptions options_;
  std::string json_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_COMMAND_H_
