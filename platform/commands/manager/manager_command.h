// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_MANAGER_MANAGER_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_MANAGER_MANAGER_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "platform/process/command.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"

namespace snf {

// `snf manager` starts a resource manager, of which daemons of this machine
// lease their capacity.
class StartManagerCommand final : public FlagCommand {
 public:
  StartManagerCommand();

 private:
  absl::Status Run() override;
  absl::Status Serve(const DaemonFiles& files);
  void TellReady(const DaemonFiles& files) const;
  LogOptions LogOf(const DaemonFiles& files) const;

  std::string name_of_manager_ = "default";
  uint32_t units_ = 8;
  int64_t unit_capacity_bps_ = 1'000'000'000;
  bool foreground_ = false;
  std::string log_;
  bool log_json_ = false;
  size_t log_level_ = 1;  // LogLevel
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_MANAGER_MANAGER_COMMAND_H_
