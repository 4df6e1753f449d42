// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_CONTROLLER_EVENTS_H_
#define SNF_CONTROLLER_LIVE_CONTROLLER_EVENTS_H_

#include <concepts>

#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "runtime/core/unit_commands.h"

namespace snf {

// Learns what a controller decides, and what it is told. None of it happens for
// each packet.
class ControllerEvents {
 public:
  virtual ~ControllerEvents() = default;
  // The controller drops a packet, whose buffer is the receiver's now.
  virtual void on_drop(Instant now, PacketHandle packet, DropReason reason) = 0;
  virtual void on_unit_up(Instant now, UnitId unit) = 0;
  virtual void on_unit_down(Instant now, UnitId unit) = 0;
  // Packets left a unit; only those with a payload are counted.
  virtual void on_drained(Instant now, const DrainReport& with_payload) = 0;
  // The flow is over: no clock comes after end.last.
  virtual void on_end_flow(const EndFlow& end) = 0;
  // The flow is given up: clocks of it that are lost never end. None comes
  // after end.last; if that is 0, its last one was told before.
  virtual void on_forsake(Instant /*now*/, const EndFlow& end) {
    if (end.last > Clock{}) on_end_flow(end);
  }
  // A flow, whose key is `inside`, got an alias.
  virtual void on_alias_granted(const Alias& alias, const FlowKey& inside) = 0;
  // Another controller goes on in the place of one that has failed, with what
  // units had of it.
  virtual void on_successor(Instant /*now*/, const Controller& /*controller*/) {
  }
  // Behind that, if it was one of another process: for each packet that units
  // have of it. kNoPacket: a clock without a packet.
  virtual void on_inherited(const PacketMeta& /*meta*/,
                            PacketHandle /*packet*/) {}
  // The NF says that the flow has no alias of up to this clock any more.
  virtual void on_alias_over(FlowId flow, Clock clock) = 0;
};

// Runs a ControllerLoop. It has two further functions, which are called for
// each packet, so they are not virtual:
//   on_enqueue(meta)         a packet was sent to a unit
//   on_packet(now, command)  a unit says what became of a packet. For each that
//                            ended, but not for emitted ones and kDropPayload,
//                            the host calls FreeSlot, be it later.
template <typename Host>
concept ControllerHost = std::derived_from<Host, ControllerEvents> &&
    requires(Host& host, Instant now, const PacketMeta& meta,
             const UnitCommand& command) {
  host.on_enqueue(meta);
  host.on_packet(now, command);
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_CONTROLLER_EVENTS_H_
