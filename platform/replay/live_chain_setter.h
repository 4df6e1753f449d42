// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_LIVE_CHAIN_SETTER_H_
#define SNF_PLATFORM_REPLAY_LIVE_CHAIN_SETTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/control/control_desk.h"
#include "platform/control/kept_chains.h"
#include "platform/live/live_chains.h"
#include "platform/real_time/real_driver.h"
#include "platform/replay/live_run.h"
#include "platform/replay/live_settings.h"
#include "platform/replay/replay_options.h"
#include "platform/upgrade/live_upgrade.h"

namespace snf {

// Theory of operation. Gives a live run another chain. On the thread of whoever
// asks, a process of its own tries the chain (try_chain.h); then its driver is
// made, with units, threads and processes, while the old chain goes on; then
// the dispatcher puts it in place, between two batches of packets.
//
// A module is copied first, into a folder of the daemon: whatever becomes of
// the file, units that start later have the same one.
class LiveChainSetter final : public ControlChains {
 public:
  static constexpr uint32_t kMostModules = 64;  // in a daemon's life
  // Makes a driver for the run.
  using Start = std::function<absl::StatusOr<std::unique_ptr<RealDriver>>(
      const ReplayOptions& options)>;

  // `modules` is the folder, which is made when there is a module.
  LiveChainSetter(LiveSettings& settings, std::string program,
                  std::string modules);
  // The chains' processes outlive the daemon if it is killed, the first one's
  // as `keep` says, and all chains are noted in a file: if it has those of a
  // daemon before, whose processes wait, NextKept gives them. Call it before
  // these, if at all. Error: that of the file.
  absl::Status Keep(const RealOptions::Keep& keep, const std::string& file);
  // As LiveSteering::NextKept.
  absl::StatusOr<std::optional<LiveSteering::Kept>> NextKept();
  // Refuses other chains, and a daemon that is to take its place; says why.
  void Refuse(std::string why) { why_not_ = std::move(why); }
  // Call once, before the others. What is given must outlive those.
  void Begin(LiveChains& chains, Start start, LivePredecessor& upgrade);

  RealDriver& newest() override { return chains_->newest(); }
  absl::Status Set(Mailbox& mailbox, Mailbox::Deadline deadline,
                   const proto::ChainRequest& request,
                   proto::ChainReply& reply) override;
  absl::Status Upgrade(Mailbox& mailbox, Mailbox::Deadline deadline,
                       const proto::UpgradeRequest& request,
                       proto::UpgradeReply& reply) override {
    if (!why_not_.empty()) return absl::FailedPreconditionError(why_not_);
    return upgrade_->Upgrade(mailbox, deadline, request, reply);
  }

 private:
  using Texts = std::map<std::string, std::string>;

  std::string SocketOf(uint32_t place) const;
  std::vector<KeptChain> WhatWaits(const std::vector<KeptChain>& noted) const;
  absl::Status Note(const Texts& texts, Nanos within, uint32_t place);

  absl::StatusOr<std::string> CopyModule(const std::string& file);
  absl::Status Try(const Texts& texts,
                   const std::vector<std::string>& modules) const;
  absl::StatusOr<bool> Deploy(const std::string& file, const Texts& texts,
                              proto::ChainReply& reply);
  absl::Status Put(Mailbox& mailbox, Mailbox::Deadline deadline,
                   const Texts& texts, Nanos within, proto::ChainReply& reply);

  LiveSettings& settings_;
  const std::string program_;
  const std::string folder_;
  LiveChains* chains_ = nullptr;  // used by the dispatcher alone
  Start start_;
  LivePredecessor* upgrade_ = nullptr;
  std::vector<std::string> modules_;  // files of ours, that are loaded
  uint32_t copies_ = 0;
  std::string why_not_;  // "": chains may be set
  // Of Keep:
  std::optional<RealOptions::Keep> keep_;
  std::optional<KeptChains> notes_;
  std::map<std::string, std::string> began_;  // flags
  std::vector<KeptChain> noted_;
  std::deque<KeptChain> before_;  // that NextKept has still to give
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_LIVE_CHAIN_SETTER_H_
