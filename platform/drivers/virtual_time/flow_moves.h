// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_FLOW_MOVES_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_FLOW_MOVES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "platform/drivers/virtual_time/moved_flow.h"

namespace snf {

class VirtualDriver;
struct VirtualUnit;

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
  // The driver must outlive the object, which is a part of it.
  explicit FlowMoves(VirtualDriver& driver) : driver_(driver) {}

  bool Has(const FlowKey& key) const;
  bool Has(FlowId flow) const;
  bool HasAlias(const FlowKey& alias) const;
  // Returns true if the flow has ended here and its unit has not said so yet.
  bool AwaitsEnd(FlowId flow) const;
  // Returns what goes along with the flow; nothing if a packet of the flow is
  // under way.
  std::optional<MovedFlow> Read(FlowId flow);
  // Stops timer packets of the flow until ReleaseTimers.
  void HoldTimers(FlowId flow) { timers_held_.insert(flow); }
  void ReleaseTimers(FlowId flow) { timers_held_.erase(flow); }
  // Gives the flow away; `again` if a successor of the controller has found it.
  void Give(Instant time, FlowId flow, bool again);
  // Drops what is left of a flow that another controller has.
  void Forget(Instant time, FlowId flow);
  // Returns the flow's id here; nothing if there is no room. The flow is here
  // once UnitSharing::on_advanced names the id and the clock behind.
  std::optional<FlowId> Take(Instant time, const MovedFlow& moved);

  // --- For the driver. ---

  bool holds_timers(FlowId flow) const { return timers_held_.contains(flow); }
  // Hands a unit the state that comes with this packet, if any does.
  void on_packet(const PacketMeta& meta, VirtualUnit& shell);
  // The packet that was to bring the flow's state was never sent.
  void on_unsent(FlowId flow) { arriving_.erase(flow); }

 private:
  struct Arriving {
    State state;
    std::vector<std::byte> record;
  };

  VirtualDriver& driver_;
  std::map<FlowId, Arriving> arriving_;
  std::set<FlowId> timers_held_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_FLOW_MOVES_H_
