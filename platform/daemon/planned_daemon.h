// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_PLANNED_DAEMON_H_
#define SNF_PLATFORM_DAEMON_PLANNED_DAEMON_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/daemon/daemon_flags.h"
#include "platform/process/flags.h"

namespace snf {

// Tells how a daemon runs, or would run, by a command line of `snf up`, a
// configuration file, and later changes. Nothing is started. Call Parse, then
// Check or Settle. Owner-thread only.
class PlannedDaemon {
 public:
  using Values = std::map<std::string, std::string>;

  struct Input {
    std::vector<std::string> command_line;
    std::string file;  // in place of the file of --config; "": none
    // The text of the file; absent: it is read.
    std::optional<std::string> text = std::nullopt;
    Values set = {};     // settings that were set since
    Values chains = {};  // texts of chains that were set since, by name
  };

  PlannedDaemon() : flags_(set_) {}

  // Errors: as of FlagSet::ParseCommandLine and RunFlags::TakeConfig;
  // `all_wrong` is as there.
  absl::Status Parse(const Input& input,
                     std::vector<std::string>* all_wrong = nullptr);
  // As RunFlags::TellNoNotes.
  void TellNoNotes() { flags_.run.TellNoNotes(); }
  // As DaemonFlags::Check and Settle. They make the NFs of the chain.
  absl::Status Check() { return flags_.Check(); }
  absl::Status Settle() { return flags_.Settle(); }

  const RunRequest& options() const { return flags_.run.options(); }
  // Returns true if the daemon makes its ports itself, as the command line says
  // none. After Check or Settle.
  bool makes_ports() const { return flags_.network.has_value(); }
  // Returns the ports as one text: "inside=lan0, outside=wan0".
  std::string ports() const;
  // Returns the rules of several chains, as a file says them; "": there is one.
  std::string rules() const;
  // Returns the flags that a file can set, without ports, with their values. An
  // empty value is none.
  std::vector<std::pair<std::string, std::string>> settings() const;
  // Returns true if the flag may change while the daemon runs.
  bool may_change(const std::string& setting) const;

  // Returns a file (proto/config.proto) by which the daemon would be the same.
  // Settings that have their default are comments.
  std::string Text() const;

 private:
  FlagSet set_;
  DaemonFlags flags_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_PLANNED_DAEMON_H_
