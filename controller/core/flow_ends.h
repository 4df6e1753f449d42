// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FLOW_ENDS_H_
#define SNF_CONTROLLER_CORE_FLOW_ENDS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "controller/core/options.h"

namespace snf {

class Controller;

// Why a flow is deleted.
enum class Deletion : uint8_t {
  kByHand,      // an operator wants it
  kForAnother,  // another controller continues it, or has had its key since
};

// Theory of operation. The ends of a controller's flows. A flow ends when it
// has been silent for its timeout, when its NF says that it is over, when the
// caller deletes it, or when it is evicted. Then its owner is told (kEndFlow),
// and its slot is free for another flow.
//
// A full table. A new flow that finds no room looks at the next few slots and
// ends, as if it had timed out, the flow that would be forgotten first among
// flows that have been idle for evict_after. So a sender that fills the table
// with flows of one packet evicts its own flows, and flows that an NF keeps for
// long stay.
//
// Ends that wait. A flow may not end while failed units may have state of it,
// or, with ControllerOptions::forgets_copies, while a unit may have an old
// copy: it is looked at again every kEndRetry, and the oldest copy is forgotten
// meanwhile. With ControllerOptions::awaits_ends the slot stays taken, and the
// flow is recovered from failures like any other (FlowHot::kEnding), until a
// logger has the end (on_ended).
//
// Worked example, a timeout of 300 s: the last packet of a flow came at 10 s,
// its flowlet was closed by the flow's timer, which was then armed for 310 s.
// At 310 s its owner, unit 2, gets the flow's end with its last clock.
//
// Works on the controller that it belongs to: its calls name that, always the
// same one. A value; owner-thread only; nothing is allocated after
// construction.
class FlowEnds {
 public:
  explicit FlowEnds(const ControllerOptions& options);

  void set_evict_after(Nanos evict_after) { evict_after_ = evict_after; }

  // The flow's timer is due: its flowlet closes, or the flow ends.
  void on_flow_timer(Controller& c, Instant now, uint32_t slot,
                     ControllerOut& out);
  // Arms the flow's timer for its end. Its flowlet is closed.
  static void ArmIdle(Controller& c, uint32_t slot);
  // Returns true if the flow may not end yet.
  static bool IsMoving(const Controller& c, uint32_t slot);
  // Ends a flow that may end.
  void EndOpenFlow(Controller& c, Instant now, uint32_t slot,
                   ControllerOut& out);
  // As Controller::DeleteFlow and Controller::on_ended.
  bool Delete(Controller& c, Instant now, FlowId flow, Deletion why,
              ControllerOut& out);
  static bool on_ended(Controller& c, FlowId flow);
  // Ends a flow to make room for another. Returns false if there is none that
  // may go.
  bool Evict(Controller& c, Instant now, ControllerOut& out);
  // Tells the owner of a flow that is ending, and has moved since, of the end:
  // once it may end.
  static void EndAgain(Controller& c, Instant now, uint32_t slot,
                       ControllerOut& out);
  // Frees the slot of a flow that is over.
  static void Forget(Controller& c, uint32_t slot);

 private:
  // The time after which a flow that may not end yet is looked at again.
  static constexpr Nanos kEndRetry = Milliseconds(10);
  // Flows that are examined when a new flow finds no room.
  static constexpr uint32_t kEvictSlots = 32;

  void End(Controller& c, Instant now, uint32_t slot, ControllerOut& out);
  static void ForgetOldest(Controller& c, uint32_t slot, ControllerOut& out);
  static void WaitToEnd(Controller& c, Instant now, uint32_t slot,
                        ControllerOut& out);

  bool awaits_ends_;
  Nanos evict_after_;
  uint32_t evict_next_ = 0;  // slot at which Evict continues
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FLOW_ENDS_H_
