// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LIVE_SETTINGS_H_
#define SNF_PLATFORM_DAEMON_LIVE_SETTINGS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/core/options.h"
#include "platform/modules/file_versions.h"
#include "platform/options/run_request.h"
#include "platform/ports/steering.h"
#include "platform/process/flags.h"
#include "platform/service/daemon_log.h"

namespace snf {

class RunFlags;

// The settings of a live run that may change while it runs: the flags that
// RunFlags marks so (FlagSet::Traits), and the level of its log. A change is
// checked as the command line of the run would be with the new values. Calls
// must come one at a time.
class LiveSettings {
 public:
  using Values = std::map<std::string, std::string>;

  LiveSettings(const RunRequest& options, LogLevel log_level);

  // Returns true if a flag of `snf up` may change while the daemon runs.
  static bool MayChange(const std::string& name, const FlagSet& flags);

  // Returns all settings with their present values.
  Values List() const { return present_; }
  // Options of the controllers of chains, by the chains' names; "" names a
  // single chain.
  using Tuning = std::map<std::string, ControllerOptions>;
  // Returns the controllers' options as they would be with these values, and
  // changes nothing. InvalidArgument names the value that is wrong.
  absl::StatusOr<Tuning> Check(const Values& values) const;
  // Makes values that Check has found right the present ones.
  void Accept(const Values& values);

  // The flags of the command line that are not defaults, with their present
  // values. Those of a run that was killed take their place.
  const Values& flags() const { return given_; }
  void set_flags(Values flags) { given_ = std::move(flags); }
  // Returns the command line with the present values, without outputs. Texts
  // that chains() has are given to RunFlags::ReplaceChain.
  std::vector<std::string> CommandLine() const { return CommandLine({}); }
  // Returns the texts of chains that differ from the command line, by name; ""
  // names the only chain without --config.
  const std::map<std::string, std::string>& chains() const { return chains_; }
  // Returns the files that the chain's NFs had read when it was made, as they
  // were then. A file that changes between the reading and the noting, a few
  // microseconds, is taken for the newer one.
  const FileVersions& files(const std::string& chain) const;
  // Returns the options of a run that begins now, with these texts. Errors: as
  // RunFlags::Settle.
  absl::StatusOr<RunRequest> OptionsWith(
      const std::map<std::string, std::string>& chains) const;
  // Return the command line of the start, as it was given, and the name and the
  // text of the configuration file in force; both are "" if there is none.
  const std::vector<std::string>& arguments() const { return arguments_; }
  const std::string& config_file() const { return config_file_; }
  const std::string& config_text() const { return config_text_; }
  // Notes that a file is in force, with which a start would have these flags()
  // and chains of these texts.
  void AcceptConfig(std::string file, std::string text, Values flags,
                    std::map<std::string, std::string> chains);
  // Returns the settings that were changed since the start, or since the file
  // was taken.
  Values changed() const;

  // Notes that chains have these texts now, and that the named chain has units
  // for these options, and files of these versions.
  void AcceptChains(std::map<std::string, std::string> chains,
                    const std::string& name, const ControllerOptions& options,
                    FileVersions files) {
    chains_ = std::move(chains);
    began_[name] = options;
    files_[name] = std::move(files);
  }

 private:
  // As CommandLine, with these values.
  std::vector<std::string> CommandLine(const Values& values) const;
  // Sets the flags to that command line, with these texts of chains. Errors: as
  // RunFlags::Settle.
  absl::Status Settle(const Values& values,
                      const std::map<std::string, std::string>& chains,
                      FlagSet& flags, RunFlags& run_flags) const;

  Values given_;      // flags that are not defaults
  Values unchanged_;  // flags of the start, or of the file
  Values present_;    // of all settings
  std::map<std::string, std::string> chains_;
  std::vector<std::string> ports_;  // --port=…
  std::vector<std::string> arguments_;
  std::string config_file_;
  std::string config_text_;
  std::string first_level_;                    // of the log
  Tuning began_;                               // as the chains were started
  std::map<std::string, FileVersions> files_;  // likewise, by names of chains
  std::shared_ptr<const Steering>
      steering_;  // null if it is the only controller
  bool has_own_ports_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LIVE_SETTINGS_H_
