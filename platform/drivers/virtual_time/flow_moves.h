// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_FLOW_MOVES_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_FLOW_MOVES_H_

#include <optional>

#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/check/checker.h"
#include "platform/drivers/virtual_time/controller_runner.h"
#include "platform/drivers/virtual_time/moved_flow.h"
#include "platform/drivers/virtual_time/unit_runner.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/ingress.h"
#include "platform/run/observers.h"
#include "platform/run/run_digests.h"

namespace snf {

// Moves flows between the controllers of several drivers that share units
// (proto/protocol.md H1-H3, controller/hand_over). A flow goes like this:
//
//   from: Read ─► Give ───────────────────────────► Forget
//   to:                 Take ─► its state is here ──┘
//
// Worked example: flow 7 of driver A has no packet under way. A's Read returns
// its name, clock and state, A's Give ends it for A's units, B's Take returns
// flow 12. B sends a null packet, with which the state reaches the unit; then
// UnitSharing::on_advanced names flow 12, and A's Forget frees the copy.
//
// Owner-thread only; all calls are made at the time of the cluster's event.
class FlowMoves {
 public:
  // All references must outlive the object.
  FlowMoves(Controller& controller, ControllerRunner& controller_runner,
            UnitRunner& unit_runner, VirtualUnits& units,
            VirtualNetwork& network, ArrivingFlows& arriving, Ingress& ingress,
            Observers& observers, RunDigests& digests, Checker& checker);

  bool Has(const FlowKey& key) const;
  bool Has(FlowId flow) const;
  bool HasAlias(const FlowKey& alias) const;
  // Returns true if the flow has ended here and its unit has not said so yet.
  bool AwaitsEnd(FlowId flow) const;
  // Returns what goes along with the flow; nothing if a packet of the flow is
  // under way.
  std::optional<MovedFlow> Read(FlowId flow);
  // Stops timer packets of the flow until ReleaseTimers.
  void HoldTimers(FlowId flow) { controller_runner_.HoldTimers(flow); }
  void ReleaseTimers(FlowId flow) { controller_runner_.ReleaseTimers(flow); }
  // Gives the flow away; `again` if a successor of the controller has found it.
  void Give(Instant time, FlowId flow, bool again);
  // Drops what is left of a flow that another controller has.
  void Forget(Instant time, FlowId flow);
  // Returns the flow's id here; nothing if there is no room. The flow is here
  // once UnitSharing::on_advanced names the id and the clock behind.
  std::optional<FlowId> Take(Instant time, const MovedFlow& moved);

 private:
  void Continue(FlowId id, const MovedFlow& moved);

  Controller& controller_;
  ControllerRunner& controller_runner_;
  UnitRunner& unit_runner_;
  VirtualUnits& units_;
  VirtualNetwork& network_;
  ArrivingFlows& arriving_;
  Ingress& ingress_;
  Observers& observers_;
  RunDigests& digests_;
  Checker& checker_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_FLOW_MOVES_H_
