// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_DAEMON_H_
#define SNF_PLATFORM_DAEMON_DAEMON_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/bypass/bypass_guard.h"
#include "platform/control/control_server.h"
#include "platform/daemon/chains/chain_set.h"
#include "platform/daemon/control_desk.h"
#include "platform/daemon/daemon_leases.h"
#include "platform/daemon/group/group_link.h"
#include "platform/daemon/group/group_membership.h"
#include "platform/daemon/group/state_link.h"
#include "platform/daemon/live_chain_setter.h"
#include "platform/daemon/live_settings.h"
#include "platform/daemon/live_traffic.h"
#include "platform/daemon/live_upgrade.h"
#include "platform/options/run_request.h"
#include "platform/outcome/nf_log_files.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/mailbox.h"
#include "platform/run/figures/live_board.h"
#include "platform/run/run_events.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"
#include "platform/service/tls_endpoint.h"

namespace snf {

// Theory of operation. The daemon of `snf up`: steers a live run (RunPorts) as
// the control service asks, and logs what happens.
//
//   control service ─► ControlDesk ─┬─► LiveSettings
//                                   ├─► LiveChainSetter ─► LivePredecessor
//                                   └─mailbox─► dispatcher of the run
//
// A successor first takes the ports and the lock of the daemon whose place it
// takes (LiveSuccessor). A daemon with a resource manager leases its units
// (DaemonLeases).
//
// Owner-thread only, except Reload and ReopenNfLogs: calls are made on the
// thread of the run.
class Daemon {
 public:
  // References must outlive the daemon. `lock` is empty for a successor until
  // Begin. The control service ends the run by `interrupt`.
  Daemon(const DaemonFiles& files, const std::optional<TlsEndpoint>& tcp,
         const RunRequest& options, const LogOptions& log,
         FirstInterrupt& interrupt, std::optional<DaemonLock>& lock);

  // The following are called before the run, if at all.

  // Takes the place of the daemon of the same name, whose flows begin anew
  // after `within`.
  void Succeed(std::unique_ptr<LiveSuccessor> successor, Nanos within);
  // Leases units for each chain, in their order. The leases must outlive the
  // daemon.
  void LeaseBy(std::span<const std::unique_ptr<DaemonLeases>> leases);
  // Goes by the table of a group, whose membership must outlive the daemon.
  // `link` is null if the members share the ports of one machine.
  void JoinBy(GroupMembership& group, std::unique_ptr<GroupLink> link,
              std::unique_ptr<StateLink> states);
  // The same, for a successor, which gets the links of the daemon before.
  // `states_tls` is as in StateLink::Listen.
  void ContinueBy(GroupMembership& group, std::string states_tls);
  // Lets the chains outlive the daemon if it is killed. Error: that of the file
  // of chains.
  absl::Status Keep(const RealOptions::Keep& keep);
  // Lets packets pass unprocessed if the daemon dies and no other one comes
  // within that time. The ports are two packet sockets.
  void BypassAfter(Nanos patience) { bypass_ = patience; }

  // Returns true if another daemon has taken the place of this one.
  bool has_handed_on() const { return upgrade_.has_handed_on(); }

  // The following are called by the run.

  // Returns true if the run takes the place of another one.
  bool is_successor() const { return successor_ != nullptr; }
  // As LiveChainSetter::NextKept. Without any such chain the run begins with
  // the chain of its options.
  absl::StatusOr<std::optional<LiveChainSetter::Kept>> NextKept() {
    return chains_.NextKept();
  }
  // Listens, and says that the daemon is ready: packets are about to be taken.
  // The chains must live until the mailbox is closed, the others until End. An
  // error ends the run.
  absl::Status Begin(LiveTraffic& traffic, ChainSet& chains,
                     const LiveChainSetter::Start& start,
                     const LiveBoard& board);
  // Returns the mailbox to be opened between batches of packets, and closed
  // after the last one.
  Mailbox& mailbox() { return desk_.mailbox(); }
  // Returns what sees the run.
  RunObserver& observer() { return unit_log_; }
  // Returns what watches the packets of all chains.
  PacketWatch& watch() { return desk_.watch(); }
  // Logs that a process or an interface is lost, or is back.
  void Notice(std::string_view line);
  // Logs that a chain has ended.
  void on_chain_ended(std::string_view line);
  // Stops listening, once all chains have ended.
  void End(ChainSet& chains);

  // Ends the guard, if there is one: the daemon's end is a clean one.
  void EndBypass();

  // Says how the resource manager answers, if there is one. Any thread.
  void AddManager(LiveFigures& figures) const;

  // Names the files of NFs' logs, until null is set.
  void set_nf_logs(NfLogFiles* logs);
  // Opens these files again. Any thread.
  void ReopenNfLogs();

  // Begins to take the configuration file in force again, unless it is under
  // way or there is none; the log tells the outcome. Any thread.
  void Reload();

 private:
  // Logs starts of units.
  class UnitLog final : public RunObserver {
   public:
    void on_unit_up(Instant now, UnitId unit) override;
    void on_unit_down(Instant now, UnitId unit) override;
  };

  void TakeConfigAgain();
  void EndReload();
  absl::Status Listen();
  void ListenAgain();
  absl::Status StartBypass();
  absl::Status TakeOver(const UpgradePorts& ports, LiveTraffic& traffic,
                        ChainSet& chains);
  absl::Status TakeOverMember(ControlClient& client, const UpgradePorts& ports,
                              LiveTraffic& traffic);
  std::string TextOfGroup() const;
  void JoinGroup(LiveTraffic& traffic);

  const DaemonFiles& files_;
  std::optional<DaemonLock>& lock_;
  FirstInterrupt& interrupt_;
  const std::optional<TlsEndpoint>& tcp_;
  const RunRequest& options_;
  const LogOptions log_;
  LiveSettings settings_;
  LiveChainSetter chains_;
  ControlDesk desk_;
  UnitLog unit_log_;
  std::unique_ptr<ControlServer> server_;
  LivePredecessor upgrade_;
  std::unique_ptr<LiveSuccessor> successor_;
  Nanos within_ = Nanos::max();
  std::span<const std::unique_ptr<DaemonLeases>> leases_;  // by chain
  GroupMembership* group_ = nullptr;
  std::unique_ptr<GroupLink> group_link_;
  std::unique_ptr<StateLink> states_;  // null: its flows end with it
  std::string states_tls_;             // of a successor
  std::optional<ReceivedPlace> received_;
  Nanos bypass_;  // 0: no packets pass without a daemon
  std::optional<BypassGuard> guard_;
  std::mutex reload_mutex_;
  // False before Begin, and once the run ends.
  bool may_reload_ ABSL_GUARDED_BY(reload_mutex_) = false;
  std::atomic<bool> reloads_ = false;
  std::thread reload_ ABSL_GUARDED_BY(reload_mutex_);
  std::mutex nf_logs_mutex_;
  NfLogFiles* nf_logs_ ABSL_GUARDED_BY(nf_logs_mutex_) = nullptr;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_DAEMON_H_
