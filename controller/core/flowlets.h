// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FLOWLETS_H_
#define SNF_CONTROLLER_CORE_FLOWLETS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/controller_counters.h"
#include "controller/core/decision.h"
#include "controller/core/demand_estimator.h"
#include "controller/core/flow_table.h"
#include "controller/core/options.h"
#include "controller/core/placement.h"
#include "controller/core/reassign_periods.h"

namespace snf {

class Controller;

// Theory of operation. The life of a flowlet, from the decision for a unit to
// its end (SNF §4). A flowlet begins with a flow's first packet, after a gap of
// more than T, or when the packet would push it over B bytes: the previous one
// is closed, its rate is measured, the flow's estimate is updated, and the
// policy is asked for a unit (Begin). The demand counts on that unit as long as
// the flowlet is open. The flow's timer closes a flowlet that has been silent
// for more than T (FlowEnds). If a packet of the flowlet comes all the same, or
// its unit is gone, the flowlet is resumed or placed again.
//
// A flow that moves to another unit finds its state there at once only if a
// replica has landed: then the policy counts that unit among units with state.
// Each move is counted by its cause (MoveCause).
//
// Worked example, T = 500 µs: packets of a flow come at 0, 100 and 800 µs. The
// gap of 700 µs ends the first flowlet, of two packets in 100 µs. Its rate is
// measured over demand_floor, 500 µs, since it was shorter, and the second
// flowlet is placed by the new estimate.
//
// Works on the controller that it belongs to: its calls name that, always the
// same one. A value; owner-thread only; nothing is allocated after
// construction.
class Flowlets {
 public:
  // The policy must outlive the object.
  Flowlets(const ControllerOptions& options, const PlacementPolicy& policy);

  // As Controller::Tune.
  void Tune(const ControllerOptions& options);
  void set_observer(DecisionObserver* observer) { observer_ = observer; }

  // A gap that exceeds T ends a flowlet.
  Nanos timeout() const { return timeout_; }
  // B, or -1 if every packet begins a flowlet.
  int64_t most_bytes() const { return most_bytes_; }
  // Returns the demand of a flow's first flowlet.
  int64_t FirstDemand() const { return demand_.FirstDemand(); }

  // A packet begins a flowlet of the flow in that slot.
  void Begin(Controller& c, Instant now, const Arrival& arrival, uint32_t slot,
             FlowletCause cause, ControllerOut& out);
  // A packet comes to a flowlet that is not open.
  void Resume(Controller& c, Instant now, const Arrival& arrival, uint32_t slot,
              ControllerOut& out);
  // Asks the policy for the flowlet's unit, and opens it there.
  void Place(Controller& c, Instant now, const Arrival& arrival, uint32_t slot,
             FlowletCause cause, ControllerOut& out);
  // Closes an open flowlet, and measures it if this is its first end.
  void Close(Controller& c, uint32_t slot);
  // Counts a flowlet that began at another unit than the flow's owner.
  static void CountMove(MoveCause cause, ControllerCounters& counters);

 private:
  static MoveCause CauseOfMove(const Controller& c, uint32_t slot,
                               const PlacementRequest& request, UnitId to);
  static void ScaleAhead(Controller& c, Instant now, ControllerOut& out);

  Nanos timeout_;
  Nanos timeout_at_start_;
  int64_t most_bytes_;
  Nanos replicas_after_;  // after this gap replicas have landed
  uint32_t alpha_;
  const PlacementPolicy* policy_;
  DecisionObserver* observer_ = nullptr;
  DemandEstimator demand_;
  ReassignPeriods periods_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FLOWLETS_H_
