// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LIVE_CONFIG_H_
#define SNF_PLATFORM_DAEMON_LIVE_CONFIG_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/daemon/live_chain_setter.h"
#include "platform/daemon/live_settings.h"
#include "platform/daemon/planned_daemon.h"
#include "platform/process/mailbox.h"
#include "proto/control.pb.h"

namespace snf {

// Theory of operation. Lets a live run take a configuration file, whole or not
// at all:
//
//   1. The file is read, and its settings are parsed.
//   2. A process of its own makes the NFs of the file, and tries them.
//   3. The daemon that its command line would start with this file is compared
//      with the daemon that runs (PlannedDaemon). If anything that differs
//      cannot change while the daemon runs, nothing does.
//   4. Settings are set, then the chains, then the rules. If there can be no
//      such chain, the settings are set back, and chains that were set already.
//
// A chain differs by its text, or by the content of a file that its NFs read:
// then another one is made of the same text, for new flows.
//
// The names of several chains cannot change, and the rules of several can. A
// flow whose packets get another chain by new rules restarts there; flows
// that a chain finds by a key of its own, as NAT's answers, stay with it.
//
// Calls must come one at a time.
class LiveConfig {
 public:
  // Sets settings, all or none.
  using SetValues =
      std::function<absl::Status(const LiveSettings::Values& values)>;

  // References must outlive this.
  LiveConfig(LiveSettings& settings, LiveChainSetter& chains)
      : settings_(settings), chains_(chains) {}

  // Fills the changes of the reply, and makes them unless `only_plan` is set.
  // Errors, after which nothing has changed: as of ReadConfigFile,
  // PlannedDaemon, SetValues and LiveChainSetter::Set; FailedPrecondition,
  // which names each change that cannot be made.
  absl::Status Take(const proto::SetRequest& request, Mailbox& mailbox,
                    Mailbox::Deadline deadline, const SetValues& set,
                    proto::SetReply& reply);
  // Returns what is in force, as a file. Errors: as of PlannedDaemon.
  absl::StatusOr<std::string> Text() const;

 private:
  absl::Status SettlePresent(PlannedDaemon& present) const;
  absl::Status Compare(const PlannedDaemon& present,
                       const PlannedDaemon& wanted,
                       proto::SetReply& reply) const;
  // Returns a change for each file of the chain whose content is another one
  // than when the chain was made, by names of files.
  std::vector<proto::ConfigChange> ChangedFilesOf(
      const Config::Chain& wanted) const;
  void CompareChains(const RunRequest& present, const RunRequest& wanted,
                     proto::SetReply& reply) const;
  absl::Status Change(const PlannedDaemon& present, const PlannedDaemon& wanted,
                      Mailbox& mailbox, Mailbox::Deadline deadline,
                      const SetValues& set, const proto::SetReply& plan);
  // Sets the chains that differ, then the rules. If one cannot be set, sets
  // those before back.
  absl::Status SetChains(const PlannedDaemon& present,
                         const PlannedDaemon& wanted, Mailbox& mailbox,
                         Mailbox::Deadline deadline);

  LiveSettings& settings_;
  LiveChainSetter& chains_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LIVE_CONFIG_H_
