// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_DESK_H_
#define SNF_PLATFORM_CONTROL_CONTROL_DESK_H_

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/core/options.h"
#include "platform/control/control_handler.h"
#include "platform/process/mailbox.h"
#include "platform/real_time/real_driver.h"
#include "platform/run/live_board.h"

namespace snf {

// What can be changed of a run while it goes on. Calls come one at a time.
class ControlSettings {
 public:
  using Values = std::map<std::string, std::string>;

  virtual ~ControlSettings() = default;
  // Returns all, with their present values.
  virtual std::vector<std::pair<std::string, std::string>> List() const = 0;
  // Returns the controller's options as they would be with these values, and
  // changes nothing. InvalidArgument says what is wrong.
  virtual absl::StatusOr<ControllerOptions> Check(
      const Values& values) const = 0;
  // Makes values that were found right the present ones.
  virtual void Accept(const Values& values) = 0;
};

// The chains of a run, of which the newest takes the flows that begin.
class ControlChains {
 public:
  virtual ~ControlChains() = default;
  // Returns the newest one's driver. Called by the dispatcher alone.
  virtual RealDriver& newest() = 0;
  // Makes a chain, and lets the dispatcher, who opens the mailbox, put it in
  // place. Called for one at a time. Errors, after which nothing has changed:
  // InvalidArgument, it cannot be; those of RealDriver::Start;
  // FailedPrecondition, there are too many; those of Mailbox.
  virtual absl::Status Set(Mailbox& mailbox, Mailbox::Deadline deadline,
                           const proto::ChainRequest& request,
                           proto::ChainReply& reply) = 0;
  // Lets another daemon take the place of this one (proto/control.proto).
  virtual absl::Status Upgrade(Mailbox& mailbox, Mailbox::Deadline deadline,
                               const proto::UpgradeRequest& request,
                               proto::UpgradeReply& reply) = 0;
};

// Theory of operation. Answers the control service for a run: figures come from
// the board, where the dispatcher puts them anyway; everything else is a letter
// to the dispatcher, which looks at the run, or changes it, between two batches
// of packets.
//
// The table of flows is read in pieces of kSlotsAtATime, a letter each, so that
// no packet waits for long.
//
// Thread-safe, but Begin and End.
class ControlDesk final : public ControlHandler {
 public:
  static constexpr uint32_t kMostFlows = 10'000;
  static constexpr uint32_t kFlows = 20;  // if no limit is named
  static constexpr uint32_t kSlotsAtATime = 1'024;

  // Both must outlive the desk. `about` is copied into each reply of Status,
  // and Down sets `down`.
  ControlDesk(proto::StatusReply about, ControlSettings& settings,
              std::atomic<bool>& down);

  // Opened by the run's dispatcher; closed where no question is answered any
  // more but Status.
  Mailbox& mailbox() { return mailbox_; }
  // Questions are of this run. Call once, before any comes; both must outlive
  // the mailbox's end, the board the desk. `inherited_flows`: as in
  // StatusReply.
  void Begin(ControlChains& chains, const LiveBoard& board,
             std::optional<uint64_t> inherited_flows);

  absl::Status Status(Deadline deadline, const proto::StatusRequest& request,
                      proto::StatusReply& reply) override;
  absl::Status Units(Deadline deadline, const proto::UnitsRequest& request,
                     proto::UnitsReply& reply) override;
  absl::Status Flows(Deadline deadline, const proto::FlowsRequest& request,
                     proto::FlowsReply& reply) override;
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

 private:
  absl::Status Change(Deadline deadline, const ControlSettings::Values& values);

  proto::StatusReply about_;
  std::atomic<bool>& down_;
  Mailbox mailbox_;
  ControlChains* chains_ = nullptr;
  const LiveBoard* board_ = nullptr;
  std::timed_mutex mutex_;  // held while a setting or the chain changes
  ControlSettings& settings_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_DESK_H_
