// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_REPLAY_SIDE_BY_SIDE_H_
#define SNF_PLATFORM_COMMANDS_REPLAY_SIDE_BY_SIDE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rules/chain_rules.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/options/config.h"
#include "platform/outcome/nf_log_files.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. Runs several chains side by side in virtual time, each
// by a VirtualDriver, with a controller and units of its own, so that none
// feels the others. Rules choose the chain of a packet (ChainRules).
//
// All drivers are at the same time after each packet, and what they release is
// shown to the sink in the order of time, and of chains at equal times.
//
// Owner-thread only.
class SideBySide {
 public:
  // `config` is checked (config.h) and has the sizes that chains give
  // themselves; `options` has all others. The policy must outlive this; `sink`
  // and `logs` may be null. Fails where the rules are too many for a table, or
  // a log cannot be opened.
  static absl::StatusOr<std::unique_ptr<SideBySide>> Make(
      const Config& config, const RunOptions& options,
      const PlacementPolicy& policy, RunObserver* sink,
      NfLogFiles* logs = nullptr);
  ~SideBySide();

  void Offer(const CapturedPacket& captured);
  // Returns what came of each chain, in the order of the configuration. Call
  // once.
  std::vector<RunResult> Finish();

  uint64_t packets_in() const { return packets_in_; }
  // Counts the packets that were dropped because neither a rule nor a default
  // names a chain for them.
  uint64_t packets_without_chain() const { return packets_without_chain_; }
  // Returns the options that a chain's driver has.
  const RunOptions& options(size_t chain) const;

 private:
  class Lane;

  SideBySide(RunObserver* sink, std::unique_ptr<ChainRules> rules);
  void ShowReleased();

  std::unique_ptr<ChainRules> rules_;
  RunObserver* sink_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  uint64_t packets_in_ = 0;
  uint64_t packets_without_chain_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_REPLAY_SIDE_BY_SIDE_H_
