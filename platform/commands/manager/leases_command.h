// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_MANAGER_LEASES_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_MANAGER_LEASES_COMMAND_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/process/command.h"
#include "platform/service/daemon_files.h"
#include "proto/leases.pb.h"

namespace snf {

// `snf leases` tells who holds what share of which unit of a resource manager.
class LeasesCommand final : public FlagCommand {
 public:
  LeasesCommand();

 private:
  absl::Status Run() override;
  absl::StatusOr<proto::LookReply> Look() const;
  absl::Status WhyNoLeases(const DaemonFiles& files, pid_t pid) const;

  std::string manager_ = "default";
  bool json_ = false;
  bool watch_ = false;
};

// The answer for people, in lines.
std::string TextOf(const proto::LookReply& reply);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_MANAGER_LEASES_COMMAND_H_
