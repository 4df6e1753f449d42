// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_LIVE_SETTINGS_H_
#define SNF_PLATFORM_REPLAY_LIVE_SETTINGS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/core/options.h"
#include "platform/control/control_desk.h"
#include "platform/control/daemon_log.h"
#include "platform/replay/replay_options.h"
#include "platform/steering/steering.h"

namespace snf {

// The settings of a live run that may change while it goes on: flags of the
// command line that began it, which mean the same, and the level of its log. A
// change is checked as that command line would be with the new values.
// Owner-thread only.
class LiveSettings final : public ControlSettings {
 public:
  LiveSettings(const ReplayOptions& options, LogLevel log_level);

  std::vector<std::pair<std::string, std::string>> List() const override;
  absl::StatusOr<ControllerOptions> Check(const Values& values) const override;
  void Accept(const Values& values) override;

  // The flags of the command line that are not defaults, with their present
  // values; in place of which come those of a run that was killed.
  const Values& flags() const { return given_; }
  void set_flags(Values flags) { given_ = std::move(flags); }
  // Returns the command line with the present values, without outputs; a
  // chain's text in place of the one that it has is to be given to
  // ReplayFlags::ReplaceChain.
  std::vector<std::string> CommandLine() const { return CommandLine({}); }
  // The texts that chains have instead of those of the command line; "" is the
  // only one without --config.
  const std::map<std::string, std::string>& chains() const { return chains_; }
  // Returns the options of a run that begins now, with these texts. Errors: as
  // ReplayFlags::Settle.
  absl::StatusOr<ReplayOptions> OptionsWith(
      const std::map<std::string, std::string>& chains) const;
  // They run now, with units for these options.
  void AcceptChains(std::map<std::string, std::string> chains,
                    const ControllerOptions& options) {
    chains_ = std::move(chains);
    began_ = options;
  }

 private:
  // The command line with these values, without outputs.
  std::vector<std::string> CommandLine(const Values& values) const;

  Values given_;  // flags that are not defaults
  std::map<std::string, std::string> chains_;
  std::vector<std::string> ports_;  // --port=…
  std::vector<std::pair<std::string, std::string>> list_;
  ControllerOptions began_;
  std::shared_ptr<const Steering> steering_;  // of its ports; null: one alone
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_LIVE_SETTINGS_H_
