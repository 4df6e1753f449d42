// SPDX-License-Identifier: Apache-2.0
#include "platform/control/daemon_command.h"

#include <fmt/format.h>

#include <utility>

namespace snf {

void AddDaemonName(FlagSet& flags, std::string& name) {
  flags.Text("name", name, "NAME",
             "which daemon, where there are several: small letters, digits, _ "
             "and -");
}

absl::Status NoDaemon(const std::string& name) {
  return absl::FailedPreconditionError(
      fmt::format("no daemon \"{}\" runs; snf up{} starts one", name,
                  name == "default" ? "" : " --name=" + name));
}

DaemonCommand::DaemonCommand(Text text) : FlagCommand(std::move(text)) {
  AddDaemonName(flags(), daemon_);
}

absl::StatusOr<ControlClient*> DaemonCommand::Connect() {
  if (client_ != nullptr) return client_.get();
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(daemon_);
  if (!files.ok()) return files.status();
  const absl::StatusOr<pid_t> pid = PidOf(*files);
  if (!pid.ok()) return pid.status();
  if (*pid == 0) return NoDaemon(daemon_);
  client_ = ControlClient::Connect(files->socket);
  return client_.get();
}

// An answer that there is none is no input or output that failed.
absl::Status DaemonCommand::OfDaemon(const absl::Status& status) const {
  const std::string text =
      fmt::format("\"{}\": {}", daemon_, std::string(status.message()));
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
      return {status.code(), text};
    case absl::StatusCode::kUnavailable: {
      // It may have ended meanwhile.
      const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(daemon_);
      if (files.ok() && PidOf(*files).value_or(0) == 0)
        return NoDaemon(daemon_);
      return absl::FailedPreconditionError(text);
    }
    default:
      return absl::FailedPreconditionError(text);
  }
}

}  // namespace snf
