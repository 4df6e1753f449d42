// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_NETWORK_H_
#define SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_NETWORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "platform/virtual_time/event_queue.h"
#include "platform/virtual_time/state_network.h"
#include "platform/virtual_time/virtual_event.h"
#include "platform/virtual_time/virtual_units.h"

namespace snf {

// The present time of a run in virtual time, and all that is on its way then:
// what controller, units and loggers send each other, and what is to happen
// later. Where units fail, each event carries the number of its unit's channel.
//
// Owner-thread only. Grows with what is on its way.
class VirtualNetwork {
 public:
  // All of them must outlive the object. `record_bytes`: of StateNetwork.
  VirtualNetwork(const RunOptions& options, uint32_t record_bytes,
                 VirtualUnits& units, Observers& observers,
                 StateFigures& figures)
      : hop_delay_(options.hop_delay),
        units_fail_(options.faults.any()),
        units_(units),
        observers_(observers),
        figures_(figures),
        states_(options, record_bytes) {}

  Instant now() const { return now_; }
  void AdvanceTo(Instant time) { now_ = std::max(now_, time); }

  // The next event; Instant::max() and true if there is none.
  Instant next_time() const { return events_.next_time(); }
  bool empty() const { return events_.empty(); }
  VirtualEvent Pop() { return events_.Pop(); }

  void At(Instant time, VirtualEvent event) {
    Stamp(event);
    events_.Push(time, event);
  }
  void After(Nanos delay, const VirtualEvent& event) {
    At(now_ + delay, event);
  }
  // To or from the controller, or to the outside.
  void AfterHop(VirtualEvent event) {
    Stamp(event);
    events_.PushInOrder(now_ + hop_delay_, event);
  }
  // From a unit, or its logger, to another: chaos may befall it. It names the
  // epoch of its sender.
  void Send(UnitId from, VirtualEvent message);
  void SendState(UnitId from, UnitId to, const State& state,
                 std::span<const std::byte> record);

  // Of the messages between units.
  StateNetwork& states() { return states_; }
  const StateNetwork& states() const { return states_; }

 private:
  void Stamp(VirtualEvent& event) {
    if (!units_fail_ || event.unit == kNoUnit || event.life != 0) return;
    event.life = units_.of(event.unit).process.life;
  }

  // It may be a logger that sends in the unit's name.
  uint16_t EpochOf(UnitId unit) {
    if (!units_fail_) return 0;
    const UnitProcess& process = units_.of(unit).process;
    return std::max(process.epoch, process.log_epoch);
  }

  const Nanos hop_delay_;
  const bool units_fail_;
  VirtualUnits& units_;
  Observers& observers_;
  StateFigures& figures_;
  StateNetwork states_;
  EventQueue<VirtualEvent> events_;
  Instant now_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_NETWORK_H_
