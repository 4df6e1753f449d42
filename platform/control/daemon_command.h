// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_DAEMON_COMMAND_H_
#define SNF_PLATFORM_CONTROL_DAEMON_COMMAND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "platform/control/control_client.h"
#include "platform/control/daemon_files.h"
#include "platform/process/command.h"

namespace snf {

// The base of a command that asks a daemon, which --name names.
class DaemonCommand : public FlagCommand {
 protected:
  explicit DaemonCommand(Text text);

  const std::string& daemon() const { return daemon_; }
  // Finds the daemon, and connects to it at the first call. Error:
  // FailedPrecondition, none of that name runs.
  absl::StatusOr<ControlClient*> Connect();
  // Asks it, once.
  template <typename Request>
  auto Ask(const Request& request)
      -> decltype(std::declval<ControlClient>().Ask(request)) {
    const absl::StatusOr<ControlClient*> client = Connect();
    if (!client.ok()) return client.status();
    auto reply = (*client)->Ask(request);
    if (reply.ok()) return reply;
    return OfDaemon(reply.status());
  }

 private:
  absl::Status OfDaemon(const absl::Status& status) const;

  std::string daemon_ = "default";
  std::unique_ptr<ControlClient> client_;
};

// Adds the flag that names a daemon.
void AddDaemonName(FlagSet& flags, std::string& name);
// Says that there is none of that name.
absl::Status NoDaemon(const std::string& name);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_DAEMON_COMMAND_H_
