// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_TRY_CHAIN_H_
#define SNF_PLATFORM_DAEMON_TRY_CHAIN_H_

#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "platform/daemon/daemon_flags.h"
#include "platform/process/command.h"

namespace snf {

// What a run of live traffic would be with other chains.
struct TriedChain {
  std::vector<std::string> command_line;      // of snf up
  std::map<std::string, std::string> chains;  // RunFlags::ReplaceChain
  std::vector<std::string> modules;  // files, in the order of their loading
  std::string config_file;           // in place of that of --config; "": none
  std::string config_text;
  bool takes_settings = false;  // also ports and settings of that file
  const std::atomic<bool>* stop = nullptr;  // ends the trial; may be null
};

// Makes the run's NFs, and runs them with packets of their own, in a process
// that is started for it by the file `program`. So an NF that crashes, or never
// returns, does no harm: the process is killed after 10 s, or if `*stop` is
// true. Errors: InvalidArgument, which says why it cannot be; Cancelled.
absl::Status TryChain(const std::string& program, const TriedChain& tried);

// The name of the command that does so, which is no user's.
inline constexpr std::string_view kTryChainCommand = "try-chain";

class TryChainCommand final : public FlagCommand {
 public:
  TryChainCommand();

 private:
  absl::Status Run() override;
  absl::Status SettleFlags();

  DaemonFlags daemon_;
  std::vector<std::string> modules_;
  std::vector<std::string> chains_;  // NAME=TEXT
  std::vector<std::string> config_;  // a file's name; its text is stdin
  bool takes_settings_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_TRY_CHAIN_H_
