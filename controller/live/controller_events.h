// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_CONTROLLER_EVENTS_H_
#define SNF_CONTROLLER_LIVE_CONTROLLER_EVENTS_H_

#include <concepts>
#include <cstddef>
#include <span>

#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/core/controller.h"

namespace snf {

// Hears of a controller's decisions, and of what units and loggers tell it. No
// function is called for each packet.
class ControllerEvents {
 public:
  virtual ~ControllerEvents() = default;
  // The controller drops a packet; its buffer belongs to the receiver now.
  virtual void on_drop(Instant now, PacketHandle packet, DropReason reason) = 0;
  virtual void on_unit_up(Instant now, UnitId unit) = 0;
  virtual void on_unit_down(Instant now, UnitId unit) = 0;
  // Packets left a unit; only those with a payload are counted.
  virtual void on_drained(Instant now, const DrainReport& with_payload) = 0;
  // The flow is over: no clock comes after end.last.
  virtual void on_end_flow(const EndFlow& end) = 0;
  // The flow is given up: its lost clocks never end. No clock comes after
  // end.last; if end.last is 0, on_end_flow told the last one before.
  virtual void on_forsake(Instant /*now*/, const EndFlow& end) {
    if (end.last > Clock{}) on_end_flow(end);
  }
  // A flow, whose key is `inside`, got an alias.
  virtual void on_alias_granted(const Alias& alias, const FlowKey& inside) = 0;
  // A successor has taken the place of a failed controller, with what units
  // reported.
  virtual void on_successor(Instant /*now*/, const Controller& /*controller*/) {
  }
  // Called after on_successor, once for each packet still in a unit, if the
  // failed controller ran in another process. `packet` is kNoPacket for a clock
  // without a packet.
  virtual void on_inherited(const PacketMeta& /*meta*/,
                            PacketHandle /*packet*/) {}
  // A flow is taken that was another controller's, as of this clock.
  virtual void on_flow_taken(FlowId /*flow*/, Clock /*last*/) {}
  // A unit shows the state of a flow, for which the controller has asked.
  virtual void on_state(const State& /*state*/,
                        std::span<const std::byte> /*record*/) {}
  // Aliases that the flow got up to this clock are over.
  virtual void on_alias_over(FlowId flow, Clock clock) = 0;
};

// Runs a ControllerLoop. Two further functions are called for each packet, so
// they are not virtual:
//   on_enqueue(meta)         a packet was sent to a unit
//   on_packet(now, command)  a packet left a unit. The host calls FreeSlot at
//                            the packet's end, which may be later; but not for
//                            emitted packets and kDropPayload.
template <typename Host>
concept ControllerHost = std::derived_from<Host, ControllerEvents> &&
    requires(Host& host, Instant now, const PacketMeta& meta,
             const UnitCommand& command) {
  host.on_enqueue(meta);
  host.on_packet(now, command);
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_CONTROLLER_EVENTS_H_
