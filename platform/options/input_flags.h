// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_INPUT_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_INPUT_FLAGS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/options/run_flag_set.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// The flags of what is run: captures or ports, and chains (RunFlagSet).
class InputFlags {
 public:
  explicit InputFlags(RunFlagSet& set);

  // As RunFlags has them.
  void LoadModules(std::vector<std::string> files) {
    modules_ = std::move(files);
  }
  void ReplaceChain(std::string name, std::string text) {
    replaced_[std::move(name)] = std::move(text);
  }
  // As RunFlags::UseConfig.
  void UseConfig(std::string text) {
    set_.request.config_text = std::move(text);
  }
  // As RunFlags::TellNoNotes.
  void TellNoNotes() { tells_notes_ = false; }
  absl::Status Check() const;
  // Replays the bundled capture if no file is named.
  void SettleCapture();
  // Reads the chains.
  absl::Status SettleChains();
  // Lets the ports know which of several controllers the run is. Called after
  // SettleChains.
  absl::Status SettleController();

  // Returns true if flows are named by their inside end. Only after
  // SettleChains.
  bool has_sides() const { return has_sides_; }
  // Returns the flag that the bundled capture gave a value; "" if none.
  const std::string& bundled_flag() const { return bundled_flag_; }
  // As RunFlags::bundled_command.
  std::string bundled_command() const;

 private:
  void AddPorts();
  void AddController();
  void AddChains();
  void AddUnreadable();
  void AddInside();
  void AddChanges();
  // Adds the options that change to a chain.
  absl::Status ChangeOptions(NfSpec& nf) const;
  absl::Status ReadChains();
  void TellNotes() const;
  absl::Status CheckChains() const;
  absl::Status SettleLiveChain();
  absl::Status SettleLiveChains();
  absl::Status CheckPools() const;

  RunFlagSet& set_;
  std::vector<std::string> modules_;
  std::map<std::string, std::string> replaced_;  // by chain; "": of --nf
  // An option that has another value from a time after the first packet on.
  struct Change {
    Nanos after;
    std::string nf;
    std::string key;
    std::string value;
  };
  static absl::StatusOr<Change> ParseChange(const std::string& text);

  std::vector<Change> changes_;
  bool tells_notes_ = true;
  bool has_sides_ = false;
  bool has_own_keys_ = false;
  bool is_bundled_ = false;
  std::string bundled_flag_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_INPUT_FLAGS_H_
