// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_RUN_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_RUN_FLAGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "platform/options/config_settings.h"
#include "platform/options/fault_flags.h"
#include "platform/options/flow_flags.h"
#include "platform/options/input_flags.h"
#include "platform/options/lease_flags.h"
#include "platform/options/output_flags.h"
#include "platform/options/real_flags.h"
#include "platform/options/run_flag_set.h"
#include "platform/options/run_request.h"
#include "platform/options/state_flags.h"
#include "platform/options/story_flags.h"
#include "platform/options/unit_flags.h"
#include "platform/process/flags.h"

namespace snf {

// The flags of `snf replay`, and of `snf run`, which has ports instead of
// captures: turns a command line into RunRequest, and runs nothing. Each part
// has the flags of one matter; this class knows in which order parts are
// checked and settled. Owner-thread only.
class RunFlags {
 public:
  enum class Input : uint8_t { kCaptures, kPorts };
  // Adds all flags to `flags`, which must outlive this.
  explicit RunFlags(FlagSet& flags, Input input = Input::kCaptures);
  RunFlags(const RunFlags&) = delete;
  RunFlags& operator=(const RunFlags&) = delete;

  // Loads these modules before the chains are read, in this order. Before
  // Settle.
  void LoadModules(std::vector<std::string> files) {
    input_.LoadModules(std::move(files));
  }
  // Runs the chain of this text in place of the one of --nf, if the name is
  // empty, or of this name in the file of --config. Before Settle.
  void ReplaceChain(std::string name, std::string text) {
    input_.ReplaceChain(std::move(name), std::move(text));
  }

  // Gives flags that the command line has not given the values that the file of
  // --config has, if there is one, and keeps the file's text for Settle. Call
  // before Settle. Errors: as of ReadConfigFile, and DataLoss, which names the
  // place; `all_wrong`, if given, gets a line for each error.
  absl::Status TakeConfig(std::vector<std::string>* all_wrong = nullptr);
  // Returns a line for each flag that wins over another value in the file.
  const std::vector<std::string>& overridden() const {
    return settings_.overridden();
  }
  // Returns the error with its place in the file, if it is of a flag that the
  // file gave.
  absl::Status Placed(const absl::Status& status) const;
  // Returns true if the flag has its value from the file.
  bool is_from_file(std::string_view flag) const {
    return settings_.gave(flag);
  }
  // The controllers of --controller have ports of their own. Before Settle.
  void HaveOwnPorts(bool have) { request_.has_own_ports = have; }
  // Uses this text in place of the file of --config, which is not read.
  void UseConfig(std::string text) { input_.UseConfig(std::move(text)); }

  // Leaves warnings of NFs (WarningsOf) and Config::notes to the caller, who
  // has them otherwise on stderr. Before Settle.
  void TellNoNotes() { input_.TellNoNotes(); }

  // Checks the flags against each other, and reads what they name: chains and
  // flows. Call once, after the parsing. Errors: InvalidArgument; as of
  // ReadConfigFile and ParseConfig.
  absl::Status Settle();

  // Returns what was asked for. Only after Settle.
  const RunRequest& options() const { return request_; }

  // Returns the command that would do the same if no file was given; "" if one
  // was. Only after Settle.
  std::string bundled_command() const { return input_.bundled_command(); }

 private:
  absl::Status Check() const;
  absl::Status SettleAll();
  void SettleParts();
  void SettleFlags();

  RunRequest request_;
  RunFlagSet set_;
  ConfigSettings settings_;
  // In the order of the help.
  InputFlags input_;
  OutputFlags output_;
  StoryFlags story_;
  FlowFlags flow_;
  StateFlags state_;
  FaultFlags fault_;
  LeaseFlags lease_;
  UnitFlags unit_;
  RealFlags real_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_RUN_FLAGS_H_
