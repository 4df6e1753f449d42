// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_HAND_OVER_HAND_OVER_H_
#define SNF_CONTROLLER_HAND_OVER_HAND_OVER_H_

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/controller.h"

namespace snf {

// What one controller tells another of a flow that is to be its flow.
struct HandedFlow {
  FlowName name;  // with the id that the flow has at the first
  Clock last{};   // its newest clock
  Instant last_packet;
  int64_t demand_bps = 0;
  uint32_t flowlet = 0;
};

// Theory of operation. A flow goes on under another controller
// (proto/protocol.md H1-H3). The first one gives it no more packets, waits
// until its unit has released the last clock, and lets go of the flow. The
// second gives it an id of its own and the next clock: a null packet, which
// takes the flow's state to a unit. Once that clock is released, the first
// forgets the flow.
//
//   first     Read ─► Give ───────────────────────► Controller::on_ended
//                └──────────► Take ─► null packet ─► released ─┘
//   second
//
// Worked example: the newest clock of a flow is 7, released at unit 0. The
// second controller takes the flow: clock 8, without payload, goes to its unit
// 3 together with the state after 7. The flow's next packet has clock 9.
//
// Each call is of one controller, on its thread.
class FlowHandOver {
 public:
  // Returns what is to be told; none if the controller does not know the flow.
  static std::optional<HandedFlow> Read(const Controller& c, FlowId flow);
  // The controller, which knows the flow, is to send nothing of it any more,
  // nor to take messages about it. Its id is not used again until on_ended.
  static void Give(Controller& c, Instant now, FlowId flow);
  // The controller is to go on with it. A kEnqueue of a null packet, with the
  // clock behind `last`, goes to a unit, which needs the state before that.
  // Returns the flow's id here; none, and nothing is changed but that a flow
  // may have been evicted, if there is no room now, or a flow of that key.
  static std::optional<FlowId> Take(Controller& c, Instant now,
                                    const HandedFlow& flow, ControllerOut& out);
};

}  // namespace snf

#endif  // SNF_CONTROLLER_HAND_OVER_HAND_OVER_H_
