// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_CONTROL_CERT_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_CONTROL_CERT_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/process/command.h"
#include "platform/service/client_role.h"

namespace snf {

// `snf cert` makes the certificates of a daemon's control service over TCP.
class CertCommand final : public FlagCommand {
 public:
  CertCommand();

 private:
  absl::Status Run() override;

  std::string directory_;
  std::vector<std::string> hosts_;
  uint32_t days_ = 365;
  ClientRole role_ = ClientRole::kLook;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_CONTROL_CERT_COMMAND_H_
