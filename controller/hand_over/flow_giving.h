// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_HAND_OVER_FLOW_GIVING_H_
#define SNF_CONTROLLER_HAND_OVER_FLOW_GIVING_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/hand_over/hand_over.h"

namespace snf {

// Theory of operation. Says when flows of a controller, whose packets come to
// another controller from now on, can be given to that one (proto/protocol.md
// H7). The unit of each flow is asked again and again, until it shows the state
// of the flow's newest clock: then the unit has run all packets of the flow.
//
//   Turn ─ask(flow)─► unit ─state─► OnState ─HandedFlow─► the other controller
//
// Worked example: the newest clocks of flows A and B are 5 and 2. The unit
// shows A as of 5, which is given, and B as of 1, which is not. Turn asks for B
// again; the unit runs B's packet, and shows B as of 2: all are given.
//
// A flow that is not shown within kPatience, and the time in which all can be
// asked for, is not given.
//
// Owner-thread only. Memory: some 20 bytes a flow.
class FlowGiving {
 public:
  static constexpr Nanos kPause = Milliseconds(1);
  static constexpr Nanos kPatience = Seconds(1);
  static constexpr size_t kAsksPerTurn = 128;

  // Returns true if the controller has the flow, and is not ending it.
  static bool IsThere(const Controller& c, FlowId flow) {
    return FlowHandOver::ReadAsOf(c, flow, Clock{}).has_value();
  }
  // Gives these flows, none of which was given yet.
  void Begin(Instant now, std::span<const FlowId> flows);
  // Asks for flows, at most `room` of them.
  void Turn(Instant now, const Controller& c, size_t room,
            absl::FunctionRef<void(FlowId)> ask);
  // A unit shows a state. Returns the message for the other controller, once
  // for each flow; nothing if the flow is not to be given, or not yet.
  std::optional<HandedFlow> OnState(const Controller& c, const State& state);
  // Returns true if all flows were given, have ended, or were not shown.
  bool is_done() const { return waiting_.empty(); }
  // Counts flows that were not shown in time, since Begin.
  uint64_t unshown() const { return unshown_; }

 private:
  std::vector<FlowId> flows_;
  absl::flat_hash_set<FlowId> waiting_;
  size_t at_ = 0;  // the next one
  uint64_t unshown_ = 0;
  Instant next_turn_ = Instant::min();
  Instant end_ = Instant::max();
};

}  // namespace snf

#endif  // SNF_CONTROLLER_HAND_OVER_FLOW_GIVING_H_
