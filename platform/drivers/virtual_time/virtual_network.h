// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_NETWORK_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_NETWORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "controller/units/host_map.h"
#include "platform/drivers/virtual_network/event_queue.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"

namespace snf {

// The clock of a run in virtual time, and all events to come: messages of
// controller, units and loggers, and what is to happen later. Where units fail,
// each event carries the number of its unit's channel.
//
// Owner-thread only. Grows with what is on its way.
class VirtualNetwork {
 public:
  // All references must outlive the object. `record_bytes`: of StateNetwork.
  VirtualNetwork(const RunOptions& options, uint32_t record_bytes,
                 VirtualUnits& units, Observers& observers)
      : hop_delay_(options.hop_delay),
        units_fail_(options.faults.any()),
        units_(units),
        observers_(observers),
        states_(options, record_bytes),
        hosts_(options.controller) {}

  Instant now() const { return now_; }
  void AdvanceTo(Instant time) { now_ = std::max(now_, time); }

  // Return the time of the next event, Instant::max() if there is none, and
  // whether there is none.
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
  // Sends to or from the controller, or to the outside.
  void AfterHop(VirtualEvent event) {
    Stamp(event);
    events_.PushInOrder(now_ + hop_delay_, event);
  }
  // Sends a message of a unit, or of its logger, to another unit or its logger,
  // with the epoch of the sender. Chaos may befall the message.
  void Send(UnitId from, const UnitCommand& command);
  // A Push comes to all units of the host of `to`.
  void SendState(UnitId from, UnitId to, const State& state,
                 std::span<const std::byte> record);
  // Hands a State over to another unit of the same host.
  void HandOver(UnitId from, UnitId to, const State& state,
                std::span<const std::byte> record);

  // Sends a command of the unit to its controller.
  void SendToController(UnitId from, const UnitCommand& command) {
    AfterHop(
        VirtualEvent::Of(VirtualEvent::Kind::kToController, from, command));
  }
  // Sends a kSendAlias, for which an event has no room. The event that comes
  // next takes its alias; PutBack lets the following event take it.
  void SendAlias(UnitId from, const UnitCommand& command, const Alias& alias) {
    aliases_.push_back(alias);
    SendToController(from, command);
  }
  Alias TakeAlias() {
    const Alias alias = aliases_.front();
    aliases_.pop_front();
    return alias;
  }
  void PutBack(const Alias& alias) { aliases_.push_front(alias); }

  const HostMap& hosts() const { return hosts_; }

  // Returns the network of the messages between units.
  StateNetwork& states() { return states_; }
  const StateNetwork& states() const { return states_; }

 private:
  void Stamp(VirtualEvent& event) {
    if (!units_fail_ || event.unit == kNoUnit || event.life != 0) return;
    event.life = units_.of(event.unit).process.life;
  }

  // A logger may send in the unit's name.
  uint16_t EpochOf(UnitId unit) {
    if (!units_fail_) return 0;
    const UnitProcess& process = units_.of(unit).process;
    return std::max(process.epoch, process.log_epoch);
  }

  void DeliverState(UnitId from, UnitId to, const State& state,
                    std::span<const std::byte> record, Nanos delay);

  const Nanos hop_delay_;
  const bool units_fail_;
  VirtualUnits& units_;
  Observers& observers_;
  StateNetwork states_;
  HostMap hosts_;
  EventQueue<VirtualEvent> events_;
  std::deque<Alias> aliases_;  // of kSendAlias events, in order
  Instant now_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_NETWORK_H_
