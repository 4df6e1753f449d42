// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LIVE_CHAIN_SETTER_H_
#define SNF_PLATFORM_DAEMON_LIVE_CHAIN_SETTER_H_

#include <atomic>
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
#include "platform/daemon/chains/chain_set.h"
#include "platform/daemon/chains/kept_chains.h"
#include "platform/daemon/live_settings.h"
#include "platform/daemon/live_upgrade.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/options/run_request.h"
#include "platform/process/mailbox.h"
#include "proto/control.pb.h"

namespace snf {

// Theory of operation. Gives a live run another chain, in three steps:
//
//   1. A process of its own tries the chain (try_chain.h).
//   2. The driver of the chain is made, with units, threads and processes,
//      while the old chain still runs. Both on the thread of the caller.
//   3. The dispatcher puts it in place, between two batches of packets.
//
// A module is first copied into a folder of the daemon: units that start later
// load the same file, even if the original has changed.
class LiveChainSetter {
 public:
  static constexpr uint32_t kMostModules = 64;  // in a daemon's life
  // Makes a driver for a chain of the run; on any thread.
  using Start = std::function<absl::StatusOr<std::unique_ptr<RealDriver>>(
      const RunRequest& options)>;

  // `program` is the file of this program. `modules` is the folder of copies,
  // which is made for the first one. A trial ends soon after `ends` is true.
  LiveChainSetter(LiveSettings& settings, std::string program,
                  std::string modules, const std::atomic<bool>& ends);
  // Lets the chains' processes outlive the daemon if it is killed, the first
  // one's as `keep` says, and notes all chains in a file. The run begins with
  // chains of these names, or one of the name "". If the file names chains of
  // an earlier daemon whose processes wait, NextKept returns them. Called
  // before the others, if at all. Error: that of the file.
  absl::Status Keep(const RealOptions::Keep& keep, const std::string& file,
                    const std::vector<std::string>& names = {""});
  // A chain of a run that was killed, which this run takes over.
  struct Kept {
    RunRequest options;  // with RealOptions::keep
    uint32_t number = 1;
    std::string name{};     // KeptChain::name
    bool is_newest = true;  // of the chains of this name
    // Flows of older chains begin anew then (LiveChains::Inherit).
    Instant end_of_older = Instant::max();
  };
  // Returns the next of these chains, the newest as the last, whose processes
  // may have ended; nothing if there are no more.
  absl::StatusOr<std::optional<Kept>> NextKept();
  // Makes Set and Upgrade fail, with this reason.
  void Refuse(std::string why) { why_not_ = std::move(why); }
  // Call once, before the following calls, which the arguments must outlive.
  void Begin(ChainSet& chains, Start start, LivePredecessor& upgrade);

  // Returns all chains. Any thread may look at their names; the rest is the
  // dispatcher's.
  ChainSet& all() { return *chains_; }
  // Returns true if several chains run side by side. Any thread.
  bool has_rules() const { return chains_ != nullptr && chains_->has_rules(); }
  // Makes a chain, and lets the dispatcher, which opens the mailbox, put it in
  // place. Called for one chain at a time. Errors, after which nothing has
  // changed: InvalidArgument, the chain is not valid; those of
  // RealDriver::Start; FailedPrecondition, there are too many chains; those of
  // Mailbox.
  absl::Status Set(Mailbox& mailbox, Mailbox::Deadline deadline,
                   const proto::ChainRequest& request,
                   proto::ChainReply& reply);
  // As Set, with a chain that TryConfig has tried, of a text that names nothing
  // of a file. `name` is that of a member of all().
  absl::Status SetTried(Mailbox& mailbox, Mailbox::Deadline deadline,
                        const std::string& name, const std::string& text,
                        proto::ChainReply& reply);
  // Lets rules choose among the chains, from the next packet on.
  absl::Status SetRules(Mailbox& mailbox, Mailbox::Deadline deadline,
                        const RunRequest& options);
  // Makes and tries the chain of a configuration file, in a process of its own,
  // and checks its settings. Errors: DataLoss; Cancelled.
  absl::Status TryConfig(const std::string& file,
                         const std::string& text) const;
  // Returns FailedPrecondition if no other chain can be set.
  absl::Status CheckAnother() const;
  // Returns how the processes of the chain wait that was started after `place`
  // others of the run.
  static RealOptions::Keep KeepAt(const RealOptions::Keep& keep,
                                  uint32_t place);
  // Notes that the next start has these flags, and changes nothing else.
  void BeginFrom(const LiveSettings::Values& flags);
  // Lets another daemon take the place of this one (proto/control.proto).
  absl::Status Upgrade(Mailbox& mailbox, Mailbox::Deadline deadline,
                       const proto::UpgradeRequest& request,
                       proto::UpgradeReply& reply) {
    if (!why_not_.empty()) return absl::FailedPreconditionError(why_not_);
    return upgrade_->Upgrade(mailbox, deadline, request, reply);
  }

 private:
  using Texts = std::map<std::string, std::string>;

  std::vector<KeptChain> WhatWaits(const std::vector<KeptChain>& noted,
                                   const std::vector<std::string>& names) const;
  absl::Status Note(const std::string& name, const Texts& texts, Nanos within,
                    uint32_t place);

  absl::StatusOr<std::string> CopyModule(const std::string& file);
  absl::StatusOr<Texts> ByNames(const Texts& texts) const;
  absl::Status Try(const Texts& texts,
                   const std::vector<std::string>& modules) const;
  absl::StatusOr<std::vector<std::string>> Deploy(const std::string& file,
                                                  const Texts& texts,
                                                  proto::ChainReply& reply);
  absl::Status Put(Mailbox& mailbox, Mailbox::Deadline deadline,
                   const std::string& name, const Texts& texts, Nanos within,
                   proto::ChainReply& reply);

  LiveSettings& settings_;
  const std::string program_;
  const std::string folder_;
  const std::atomic<bool>& ends_;  // the daemon is to end
  ChainSet* chains_ = nullptr;     // used by the dispatcher alone
  Start start_;
  LivePredecessor* upgrade_ = nullptr;
  std::vector<std::string> modules_;  // files of the folder that are loaded
  uint32_t copies_ = 0;
  std::string why_not_;  // "": chains may be set
  // The following are set by Keep.
  std::optional<RealOptions::Keep> keep_;
  std::optional<KeptChains> notes_;
  LiveSettings::Values began_;  // flags at the start
  std::vector<KeptChain> noted_;
  std::deque<KeptChain> before_;  // not yet returned by NextKept
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LIVE_CHAIN_SETTER_H_
