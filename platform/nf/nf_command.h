// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_NF_NF_COMMAND_H_
#define SNF_PLATFORM_NF_NF_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "platform/process/flags.h"

namespace CLI {
class App;
}

namespace snf {

// `snf nf`: which network functions there are, what each takes and keeps, and a
// new one to start from. Built once at start; parsing fills it, Run does the
// work.
class NfCommand {
 public:
  // Adds the subcommand to `app`, which must outlive it.
  explicit NfCommand(CLI::App& app);
  NfCommand(const NfCommand&) = delete;
  NfCommand& operator=(const NfCommand&) = delete;

  // Runs and prints; errors are one line on stderr. Returns the exit code
  // (platform/process/exit_code.h).
  int Run();

 private:
  absl::Status List() const;
  absl::Status Show() const;
  absl::Status New();

  CLI::App& command_;
  CLI::App& list_;
  CLI::App& show_;
  CLI::App& new_;
  FlagSet list_flags_;
  FlagSet show_flags_;
  FlagSet new_flags_;
  bool json_ = false;
  std::string nf_;
  std::string directory_;
  bool force_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_NF_NF_COMMAND_H_
