// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_TRY_CHAIN_H_
#define SNF_PLATFORM_REPLAY_TRY_CHAIN_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "platform/process/command.h"
#include "platform/replay/replay_flags.h"

namespace snf {

// What a run of live traffic would be with other chains.
struct TriedChain {
  std::vector<std::string> command_line;      // of snf run
  std::map<std::string, std::string> chains;  // ReplayFlags::ReplaceChain
  std::vector<std::string> modules;  // files, in the order of their loading
};

// Makes the run's NFs, and runs them with packets of their own, in a process
// that is started for it by the file `program`. So an NF that crashes, or never
// returns, does no harm. Error: InvalidArgument, which says why it cannot be.
absl::Status TryChain(const std::string& program, const TriedChain& tried);

// The name of the command that does so, which is no user's.
inline constexpr std::string_view kTryChainCommand = "try-chain";

class TryChainCommand final : public FlagCommand {
 public:
  TryChainCommand();

 private:
  absl::Status Run() override;

  ReplayFlags run_flags_;
  std::vector<std::string> modules_;
  std::vector<std::string> chains_;  // NAME=TEXT
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_TRY_CHAIN_H_
