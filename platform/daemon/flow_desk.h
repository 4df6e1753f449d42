// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_FLOW_DESK_H_
#define SNF_PLATFORM_DAEMON_FLOW_DESK_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "platform/control/control_handler.h"
#include "platform/daemon/chains/chain_set.h"
#include "platform/process/mailbox.h"

namespace snf {

// Theory of operation. Answers questions about the flows of a run, and deletes
// flows. The tables of flows are the dispatcher's: they are read chain by
// chain, in pieces of kSlotsAtATime, a letter each, so that no packet waits for
// long; for a deletion, which looks at flows in the letter, in pieces of
// kDeletedAtATime. Texts are made by the caller's thread.
//
// Worked example: of a chain with 2,500 slots three letters copy 1,024, 1,024
// and 452 flows; the caller keeps the 20 that had a packet last.
//
// Thread-safe.
class FlowDesk {
 public:
  using Deadline = ControlHandler::Deadline;
  static constexpr uint32_t kMostFlows = 10'000;
  static constexpr uint32_t kFlows = 20;  // if no limit is named
  static constexpr uint32_t kSlotsAtATime = 1'024;
  static constexpr uint32_t kDeletedAtATime = 128;
  // The time for which a deletion waits for flows whose state is on its way.
  static constexpr std::chrono::seconds kDeletesWithin{2};

  // Letters go by the mailbox. References must outlive the desk.
  // `flows_before` is LiveSuccessor's: flows that the desk cannot reach.
  FlowDesk(ChainSet& chains, Mailbox& mailbox, uint64_t flows_before = 0)
      : chains_(chains), mailbox_(mailbox), flows_before_(flows_before) {}

  // Lists or deletes the flows that the request names. Errors:
  // InvalidArgument; FailedPrecondition, not all could be deleted; errors of
  // Mailbox::Ask.
  absl::Status Answer(Deadline deadline, const proto::FlowsRequest& request,
                      proto::FlowsReply& reply);

 private:
  absl::Status Delete(Deadline deadline, const proto::FlowsRequest& request,
                      proto::FlowsReply& reply);

  ChainSet& chains_;
  Mailbox& mailbox_;
  const uint64_t flows_before_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_FLOW_DESK_H_
