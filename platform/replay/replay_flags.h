// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_REPLAY_FLAGS_H_
#define SNF_PLATFORM_REPLAY_REPLAY_FLAGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "platform/process/flags.h"
#include "platform/process/flow_key_flag.h"
#include "platform/replay/replay_options.h"

namespace snf {

// The flags of `snf replay`, and of `snf run`, which has ports instead of
// captures: turns a command line into ReplayOptions, and runs nothing.
// Owner-thread only.
class ReplayFlags {
 public:
  enum class Input : uint8_t { kCaptures, kPorts };
  // Adds all flags to `flags`, which must outlive this.
  explicit ReplayFlags(FlagSet& flags, Input input = Input::kCaptures);
  ReplayFlags(const ReplayFlags&) = delete;
  ReplayFlags& operator=(const ReplayFlags&) = delete;

  // Lets the text be that of the chain, as --nf says it, or of one with this
  // name in the file of --config. Before Settle.
  void ReplaceChain(std::string name, std::string text) {
    replaced_[std::move(name)] = std::move(text);
  }

  // Checks the flags against each other, and reads what they name: chains and
  // flows. Call once, after the parsing. Errors are InvalidArgument, or those
  // of LoadConfig.
  absl::Status Settle();

  // Returns what was asked for. Only after Settle.
  const ReplayOptions& options() const { return options_; }

  // Returns the command that would do the same where no file was given; ""
  // where one was. Only after Settle.
  std::string bundled_command() const;

 private:
  static constexpr size_t kNoReplicas = 3;  // as replica_choice_
  static constexpr size_t kExternal = static_cast<size_t>(StateMode::kExternal);
  static constexpr int64_t kMaxCapacityBps = 1'000'000'000'000;
  static constexpr Nanos kMaxPushDelay = Seconds(10);

  bool has_captures() const { return input_ == Input::kCaptures; }
  void AddFlags();
  void AddPorts();
  void AddController();
  void AddConfig();
  void AddInside();
  void AddOutputs();
  void AddStories();
  void AddTuningFlags();
  void AddStateFlags();
  void AddStateMode();
  void AddStateModel();
  void AddLoggers();
  void AddChaos();
  void AddUnitFlags();
  void AddRealFlags();
  void AddPaceFlags();
  void AddFaults();
  void AddLeases();
  void AddThreads();
  void AddIsolation();
  void AddComparison();
  absl::Status ParseCompare(const std::string& text);

  // The following are in replay_settle.cc. Checks return InvalidArgument for
  // flags that are right alone but not together.
  absl::Status CheckTogether() const;
  absl::Status CheckStarts() const;
  absl::Status CheckState() const;
  absl::Status CheckStore() const;
  absl::Status CheckPolicies() const;
  absl::Status CheckFaults() const;
  absl::Status CheckMembers() const;
  absl::Status CheckLeases() const;
  // The processes of units come and go.
  bool has_warm_pool() const;
  absl::Status CheckWarmPool() const;
  absl::Status CheckLeasesInRealTime() const;
  absl::Status CheckReal() const;
  absl::Status CheckWritten() const;
  absl::Status CheckReadOnce() const;
  absl::Status AtOdds(const char* a, const char* b, const char* because) const;
  void UseBundledCapture();
  // Carries over what was not parsed into its place.
  void SettlePolicies();
  void SettleRun();
  void SettleReal();
  absl::Status SettleChains();
  absl::Status SettleLiveChain();
  absl::Status SettleController();
  void SettleFlags();

  FlagSet& flags_;
  const Input input_;
  ReplayOptions options_;
  std::string explain_;
  bool force_ = false;
  size_t policy_ = 0;  // in PlacementPolicies()
  std::vector<std::string> compare_;
  FlowKeyFlag flow_key_;
  size_t load_signal_ = 0;
  size_t demand_ = 0;
  size_t state_ = 0;  // as StateMode
  size_t replica_choice_ = 0;
  size_t loggers_ = 0;    // 1: on
  size_t leases_ = 0;     // 1: independent
  size_t clock_ = 0;      // 1: real
  size_t overload_ = 0;   // 1: wait, 2: drop
  size_t isolation_ = 0;  // as Isolation
  uint32_t warm_pool_ = 2;
  uint32_t metrics_port_ = 0;
  std::map<std::string, std::string> replaced_;  // by chain; "": of --nf
  bool is_bundled_ = false;
  std::string bundled_flag_;  // that the bundled capture gave a value
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_REPLAY_FLAGS_H_
