// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_NULL_PACKETS_H_
#define SNF_CONTROLLER_CORE_NULL_PACKETS_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/units/unit_pool.h"

namespace snf {

class Controller;

// Theory of operation. The packets without payload that a controller makes
// itself. Each has a clock, and takes a slot of its unit's channel, like any
// packet of its flow.
//
// Scale-in (U8). If a unit that is to stop owns flows, they are moved away: for
// each flow another unit gets a null packet and pulls the state. The flows are
// found by going through the flow table, evacuate_slots at a time, for all such
// units at once. A packet of the flow that comes before the null packet moves
// the flow as well.
//
// Timers of flows (U11). A unit that owns a flow asks for a timer packet. If
// the owner is parked or stopping, the packet goes to another unit, which takes
// the flow over with it.
//
// Worked example: unit 1 is to stop and owns the flow in slot 7, whose newest
// clock is 4. Unit 0 gets a null packet of clock 5 with unit 1 as the source of
// the state: unit 0 is the owner from clock 5 on. Once unit 1 owns no flow, it
// may stop.
//
// Works on the controller that it belongs to: its calls name that, always the
// same one. A value; owner-thread only; nothing is allocated after
// construction.
class NullPackets {
 public:
  // Handles a request for a timer packet, as Controller::on_timer_due.
  static void on_timer_due(Controller& c, Instant now, const TimerDue& due,
                           ControllerOut& out);

  // Returns the time at which Evacuate must be called, or `other` if that is
  // earlier.
  Instant Earlier(const UnitPool& units, Instant other) const {
    return IsEvacuating(units) ? std::min(other, evacuate_at_) : other;
  }
  // Returns true if Evacuate is to be called now. Units had flows to be moved
  // before this step if `was_leaving`.
  bool IsDue(Instant now, const UnitPool& units, bool was_leaving) {
    if (!was_leaving) evacuate_at_ = now;
    return IsEvacuating(units) && evacuate_at_ <= now;
  }
  // Moves flows away from units that are to stop.
  void Evacuate(Controller& c, Instant now, ControllerOut& out);

 private:
  // The time after which a null packet that found no slot is tried again.
  static constexpr Nanos kEvacuateRetry = Milliseconds(1);

  static bool IsEvacuating(const UnitPool& units) {
    return units.leaving_flows() > 0 && units.placeable_units() > 0;
  }
  static bool SendTimerPacket(Controller& c, Instant now, uint32_t slot,
                              ControllerOut& out);
  static bool SendNullPacket(Controller& c, Instant now, uint32_t slot,
                             ControllerOut& out);
  // Moves the flow to that unit by a packet without payload, which has such
  // flags besides. Returns false if the unit's channel is full.
  static bool MoveFlow(Controller& c, Instant now, uint32_t slot,
                       UnitId receiver, uint8_t flags, ControllerOut& out);

  uint32_t evacuate_next_ = 0;  // slot at which Evacuate continues
  Instant evacuate_at_;         // time at which it continues
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_NULL_PACKETS_H_
