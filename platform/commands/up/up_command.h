// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_UP_UP_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_UP_UP_COMMAND_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/daemon/daemon_flags.h"
#include "platform/daemon/group/group_membership.h"
#include "platform/daemon/group/state_link.h"
#include "platform/hosts/host_watch.h"
#include "platform/process/command.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"

namespace snf {

// `snf up` starts a daemon that does what `snf run` does, and that other
// commands look at and steer by its control service.
class UpCommand final : public FlagCommand {
 public:
  UpCommand();

 private:
  absl::Status Run() override;
  absl::Status Serve(const DaemonFiles& files);
  absl::StatusOr<std::unique_ptr<HostWatch>> WatchHosts() const;
  // Looks whether there is a place for this controller in its group.
  absl::StatusOr<std::unique_ptr<GroupMembership>> FindGroup(
      const DaemonFiles& files, const RunRequest& options,
      const StateLink* states) const;
  void TellReady(const DaemonFiles& files) const;
  LogOptions LogOf(const DaemonFiles& files) const;

  DaemonFlags daemon_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_UP_UP_COMMAND_H_
