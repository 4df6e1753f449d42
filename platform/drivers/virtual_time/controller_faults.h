// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_FAULTS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_FAULTS_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/packet/flow_key.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/rebuild/succession.h"
#include "platform/drivers/virtual_time/kept_by_units.h"
#include "platform/drivers/virtual_time/report_round.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. The failures of the controller in a run in virtual time,
// and how another takes its place (proto/protocol.md F9):
//
//   death ─detection─► successor ─query─► units ─reports─► Succession
//
// Succession has the phases, the reports, and the packets that wait; this class
// has the network around it.
//
// Packets in the buffers of the controller die with it: packets that come until
// its death is noticed, and of the messages to each unit, from some message on,
// the rest. From then on packets wait, and units serve what they have. Words
// that only the dead controller had are lost. Words that a logger keeps until
// the controller has acknowledged them are said again to the successor, and so
// are open requests. Words that follow a unit's report wait until the successor
// is made.
//
// ReportRound asks units and loggers for reports, and KeptByUnits has what they
// keep for a successor. A unit that dies after its report fails as usual, once
// the successor is made. If the successor dies as well, the next one asks anew.
//
// Owner-thread only.
class ControllerFaults {
 public:
  using Event = VirtualEvent;

  // Runs the controller.
  class Host {
   public:
    // Replaces the controller by a blank one of this epoch.
    virtual void Succeed(uint32_t epoch) = 0;
    // The controller knows now what units reported.
    virtual void on_rebuilt() = 0;
    virtual void ExecuteOf(const ControllerOut& out) = 0;
    virtual void Arrive(const FlowKey& key, bool by_alias,
                        PacketHandle packet) = 0;
    // The event was never sent.
    virtual void Unsent(const Event& event) = 0;
    // The unit's failure is noticed while there is no controller.
    virtual void NoteFailure(UnitId unit) = 0;
    // The successor has the flow; its next clock follows `newest`. If
    // `is_ending`, only the end of the flow is to come.
    virtual void on_found(FlowId flow, Clock newest, bool is_ending) = 0;
    // The flow's alias of that clock is withdrawn.
    virtual void on_alias_withdrawn(FlowId flow, Clock clock) = 0;

   protected:
    ~Host() = default;
  };
  // Takes events where they belong.
  class Driver : public ReportRound::Loggers {
   public:
    // Handles an event that waited.
    virtual void Handle(const Event& event) = 0;

   protected:
    ~Driver() = default;
  };

  // All references must outlive the object.
  ControllerFaults(const RunOptions& options, Host& host, Driver& driver,
                   Controller& controller, VirtualUnits& units,
                   VirtualNetwork& network, Observers& observers,
                   PacketExits& exits, ControllerFaultFigures& figures);

  bool is_up() const { return succession_.is_up(); }
  // Kills the controller, or the successor that is being made. If it is dead
  // already, counts a kill in vain.
  void Kill();
  // Returns the controller that knows most: until a successor is made, the dead
  // one.
  const Controller& known() const { return succession_.known(controller_); }

  // --- What is under way. ---

  // Takes each event first. Returns true if the event is not to be handled now.
  bool Take(const Event& event);
  // A packet reaches the controller. Returns true if it is lost, or waits.
  bool Hold(const FlowKey& key, bool by_alias, PacketHandle packet);
  // A slot of the unit's channel is free. Returns true if there is no
  // controller to tell: it is told once made.
  bool HoldDrain(UnitId unit, uint32_t cost);

  // Returns what units keep for the next controller.
  KeptByUnits& kept() { return kept_; }

 private:
  using Phase = Succession::Phase;
  using Held = ReportRound::Held;
  // Of a unit, by number.
  struct OfUnit {
    bool is_cut = false;  // the rest for it died with the controller
    // Since its report:
    uint32_t drained = 0;
    uint64_t drained_bytes = 0;
  };

  static constexpr Nanos kMendRetry = Microseconds(10);
  static constexpr Nanos kMaxMendRetry = Milliseconds(1);
  uint16_t epoch() const {
    return static_cast<uint16_t>(succession_.newest_epoch());
  }
  bool is_gathering() const { return succession_.phase() == Phase::kGathering; }
  static bool IsFromController(const Event& event);
  bool TakeUnsent(const Event& event);
  bool TakeAtController(const Event& event);
  bool TakeTold(const Event& event);
  bool TakeFromLogger(const Event& event);
  void on_failure(const Event& event);
  bool IsStillToSay(const Held& held) const;
  void BeginSuccession();
  void MendIfHeard();
  void BeginMending();
  void TellRebuilt();
  void HandOver(const Held& held);
  void Mend();

  const RunOptions& options_;
  Host& host_;
  Driver& driver_;
  Controller& controller_;
  VirtualUnits& units_;
  VirtualNetwork& network_;
  Observers& observers_;
  PacketExits& exits_;
  ControllerFaultFigures& figures_;
  Rng rng_;

  Succession succession_;
  std::vector<Instant> deaths_;  // of which none has a successor yet
  Nanos mend_retry_ = kMendRetry;
  std::vector<OfUnit> of_units_;
  std::vector<Held> held_;
  KeptByUnits kept_;
  ReportRound round_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_FAULTS_H_
