// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_HANDLER_H_
#define SNF_PLATFORM_CONTROL_CONTROL_HANDLER_H_

#include "absl/status/status.h"
#include "platform/process/mailbox.h"
#include "proto/control.pb.h"

namespace snf {

// What the control service (proto/control.proto) is answered by. Calls come on
// many threads at a time. An error is told to whoever asked, and the reply is
// not used.
class ControlHandler {
 public:
  using Deadline = Mailbox::Deadline;

  virtual ~ControlHandler() = default;
  virtual absl::Status Status(Deadline deadline,
                              const proto::StatusRequest& request,
                              proto::StatusReply& reply) = 0;
  virtual absl::Status Units(Deadline deadline,
                             const proto::UnitsRequest& request,
                             proto::UnitsReply& reply) = 0;
  virtual absl::Status Flows(Deadline deadline,
                             const proto::FlowsRequest& request,
                             proto::FlowsReply& reply) = 0;
  virtual absl::Status Rules(Deadline deadline,
                             const proto::RulesRequest& request,
                             proto::RulesReply& reply) = 0;
  virtual absl::Status Capture(Deadline deadline,
                               const proto::CaptureRequest& request,
                               proto::CaptureReply& reply) = 0;
  virtual absl::Status Set(Deadline deadline, const proto::SetRequest& request,
                           proto::SetReply& reply) = 0;
  virtual absl::Status Drain(Deadline deadline,
                             const proto::DrainRequest& request,
                             proto::DrainReply& reply) = 0;
  virtual absl::Status Kill(Deadline deadline,
                            const proto::KillRequest& request,
                            proto::KillReply& reply) = 0;
  virtual absl::Status Chain(Deadline deadline,
                             const proto::ChainRequest& request,
                             proto::ChainReply& reply) = 0;
  virtual absl::Status Upgrade(Deadline deadline,
                               const proto::UpgradeRequest& request,
                               proto::UpgradeReply& reply) = 0;
  virtual absl::Status Down(Deadline deadline,
                            const proto::DownRequest& request,
                            proto::DownReply& reply) = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_HANDLER_H_
