// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_UP_UP_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_UP_UP_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/commands/up/manager_membership.h"
#include "platform/options/run_flags.h"
#include "platform/process/command.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"
#include "platform/service/daemon_network.h"
#include "platform/service/tls_endpoint.h"

namespace snf {

// `snf up` starts a daemon that does what `snf run` does, and that other
// commands look at and steer by its control service.
class UpCommand final : public FlagCommand {
 public:
  UpCommand();

 private:
  absl::Status Run() override;
  absl::Status Settle();
  absl::Status ChoosePorts();
  absl::Status CheckTogether() const;
  absl::Status Serve(const DaemonFiles& files);
  void TellReady(const DaemonFiles& files) const;
  LogOptions LogOf(const DaemonFiles& files) const;

  RunFlags run_flags_;
  std::string daemon_ = "default";
  std::string manager_;                          // "": its units are its own
  std::optional<ManagerMembership> membership_;  // if there is a manager
  uint32_t controllers_ = 1;
  uint32_t units_ = 0;  // of the resource manager of several; 0: none
  TlsFlags tls_;
  std::optional<TlsEndpoint> tcp_;
  std::optional<DaemonNetwork::Names> network_;  // that is made for it
  std::string no_containers_;  // why its units are in none, if they might be
  bool upgrade_ = false;
  Nanos keep_;
  Nanos within_ = Nanos::max();
  bool foreground_ = false;
  std::string log_;
  bool log_json_ = false;
  size_t log_level_ = 1;  // LogLevel
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_UP_UP_COMMAND_H_
