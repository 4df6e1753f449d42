// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CONTROL_DESK_H_
#define SNF_PLATFORM_DAEMON_CONTROL_DESK_H_

#include <atomic>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "platform/control/control_handler.h"
#include "platform/daemon/live_chain_setter.h"
#include "platform/daemon/live_config.h"
#include "platform/daemon/live_settings.h"
#include "platform/outcome/packet_captures.h"
#include "platform/process/mailbox.h"
#include "platform/run/figures/live_board.h"

namespace snf {

// Theory of operation. Answers the control service for a run. Figures come from
// the board, where the dispatcher puts them in any case. Every other question
// is a letter to the dispatcher, which looks at the run, or changes it, between
// two batches of packets.
//
// Thread-safe, but Begin and End.
class ControlDesk final : public ControlHandler {
 public:
  // References must outlive the desk. `about` is copied into each reply of
  // Status, and Down sets `down`.
  ControlDesk(proto::StatusReply about, LiveSettings& settings,
              std::atomic<bool>& down);

  // Returns the mailbox that the run's dispatcher opens. Once it is closed,
  // only Status is answered.
  Mailbox& mailbox() { return mailbox_; }
  // Returns what watches the packets of all chains.
  PacketWatch& watch() { return captures_; }
  // Answers questions about this run from now on. Call once, before the first
  // one. The chains must live until the mailbox is closed, the board as long as
  // the desk. `inherited_flows`: as in StatusReply.
  void Begin(LiveChainSetter& chains, const LiveBoard& board,
             std::optional<uint64_t> inherited_flows);

  // Takes the configuration file in force again, if there is one. Errors: as of
  // Set; FailedPrecondition, another change is under way.
  absl::Status Reload(Deadline deadline);

  absl::Status Status(Deadline deadline, const proto::StatusRequest& request,
                      proto::StatusReply& reply) override;
  absl::Status Units(Deadline deadline, const proto::UnitsRequest& request,
                     proto::UnitsReply& reply) override;
  absl::Status Flows(Deadline deadline, const proto::FlowsRequest& request,
                     proto::FlowsReply& reply) override;
  absl::Status Rules(Deadline deadline, const proto::RulesRequest& request,
                     proto::RulesReply& reply) override;
  absl::Status Capture(Deadline deadline, const proto::CaptureRequest& request,
                       proto::CaptureReply& reply) override;
  absl::Status Set(Deadline deadline, const proto::SetRequest& request,
                   proto::SetReply& reply) override;
  absl::Status Drain(Deadline deadline, const proto::DrainRequest& request,
                     proto::DrainReply& reply) override;
  absl::Status Kill(Deadline deadline, const proto::KillRequest& request,
                    proto::KillReply& reply) override;
  absl::Status Chain(Deadline deadline, const proto::ChainRequest& request,
                     proto::ChainReply& reply) override;
  absl::Status Upgrade(Deadline deadline, const proto::UpgradeRequest& request,
                       proto::UpgradeReply& reply) override;
  absl::Status Down(Deadline deadline, const proto::DownRequest& request,
                    proto::DownReply& reply) override;

  // Lets answers name the process before an upgrade, which has flows of its
  // own. The successor must outlive all calls, which come later.
  void Follow(const LiveSuccessor& successor) { successor_ = &successor; }

 private:
  uint64_t flows_before() const {
    return successor_ == nullptr ? 0 : successor_->flows_before();
  }
  absl::Status Change(Deadline deadline, const LiveSettings::Values& values);
  absl::Status RulesOf(Deadline deadline, ChainSet::Member& chain,
                       proto::RulesReply& reply);
  absl::Status TakeConfig(Deadline deadline, const proto::SetRequest& request,
                          proto::SetReply& reply);

  proto::StatusReply about_;
  std::atomic<bool>& down_;
  Mailbox mailbox_;
  PacketCaptures captures_;
  LiveChainSetter* chains_ = nullptr;
  const LiveBoard* board_ = nullptr;
  const LiveSuccessor* successor_ = nullptr;  // null: no upgrade
  std::timed_mutex mutex_;  // held while a setting or the chain changes
  LiveSettings& settings_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CONTROL_DESK_H_
