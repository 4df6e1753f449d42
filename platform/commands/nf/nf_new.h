// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_NF_NEW_H_
#define SNF_PLATFORM_COMMANDS_NF_NF_NEW_H_

#include <string>

#include "absl/status/status.h"
#include "platform/process/command.h"

namespace snf {

// `snf nf new` writes the files of a new NF (nf_template.h) and says how to
// build and run them.
class NfNew final : public FlagCommand {
 public:
  NfNew();

 private:
  absl::Status Run() override;

  std::string nf_;
  std::string directory_;
  bool force_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_NF_NEW_H_
