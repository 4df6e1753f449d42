// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_HAND_OVER_HAND_OVER_H_
#define SNF_CONTROLLER_HAND_OVER_HAND_OVER_H_

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "controller/core/controller.h"

namespace snf {

// The message by which one controller hands a flow over to another.
struct HandedFlow {
  FlowName name;  // with the flow's id at the first controller
  Clock last{};   // its newest clock
  Instant last_packet;
  int64_t demand_bps = 0;
  uint32_t flowlet = 0;
};

// Theory of operation. Moves a flow to another controller (proto/protocol.md
// H1-H3). The first controller gives the flow no more packets, waits until its
// unit has released the last clock, and gives the flow up. The second gives it
// an id of its own and the next clock: a null packet, which takes the flow's
// state to a unit. Once that clock is released, the first forgets the flow.
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
  // Returns the message for the second controller; nothing if the controller
  // does not know the flow.
  static std::optional<HandedFlow> Read(const Controller& c, FlowId flow);
  // The same of a flow that the controller keeps, as of an earlier clock: so a
  // copy goes elsewhere. Some unit may have an older copy.
  static std::optional<HandedFlow> ReadAsOf(const Controller& c, FlowId flow,
                                            Clock applied);
  // Makes the controller, which knows the flow, send no more messages about it
  // and accept none. Its id is not used again until on_ended.
  static void Give(Controller& c, Instant now, FlowId flow);
  // Makes the controller continue the flow. A kEnqueue of a null packet, with
  // the clock behind `last`, goes to a unit, which needs the state before that
  // clock. If no unit runs, one is started. Returns the flow's id here. Returns
  // nothing if there is no room now, or already a flow with that key or alias;
  // another flow may have been evicted then.
  static std::optional<FlowId> Take(Controller& c, Instant now,
                                    const HandedFlow& flow, ControllerOut& out);
};

}  // namespace snf

#endif  // SNF_CONTROLLER_HAND_OVER_HAND_OVER_H_
