// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_FAULTS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/packet/flow_key.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/rebuild/succession.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/run.h"
#include "runtime/core/kept_report.h"

namespace snf {

// Theory of operation. The failures of the controller in a run in virtual time,
// and how another takes its place (proto/protocol.md F9):
//
//   death ─detection─► successor ─query─► units ─reports─► Succession
//
// Succession has the phases, the reports, and the packets that wait; this class
// has the network and the units around it. Sources of reports are units and
// their loggers.
//
// Packets in the buffers of the controller die with it: packets that come until
// its death is noticed, and of the messages to each unit, from some message on,
// the rest. From then on packets wait, and units serve what they have. Words
// that only the dead controller had are lost. Words that a logger keeps until
// the controller has acknowledged them are said again to the successor, and so
// are open requests. Words that follow a unit's report wait until the successor
// is made.
//
// Messages between units name the epoch of the controller to which their sender
// has reported last. A unit that gets the present epoch before it has reported
// does so first (U14), and so does a unit that hears what its logger has taken,
// and the logger of a dead unit that gets the unit's messages. Otherwise two
// reports could contradict each other. Unit 0 has a copy and unit 1 waits for
// it: if unit 1 reported, then ran the clock, and unit 0 forgot its copy and
// reported, no report would have the copy.
//
// Units and loggers may have failed before, and may die meanwhile. If a unit's
// death is known, its logger is sealed and reports in the unit's place. A
// logger that was sealed earlier reports beside its unit. The successor waits
// for a dead unit until the death is noticed. A unit that dies after its report
// fails as usual, once the successor is made. If the successor dies as well,
// the next one asks anew.
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
  class Driver {
   public:
    // Handles an event that waited.
    virtual void Handle(const Event& event) = 0;
    // The unit's logger is to seal the unit, or to repeat its report.
    virtual void SealLogger(const Seal& seal) = 0;

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

  // --- What units keep for the next controller. ---

  void SendName(UnitId unit, const FlowName& name);
  void on_start(const ControllerCommand& command);
  void on_grant(const PieceBlock& pieces);
  void on_grants_logged(UnitId unit, uint64_t number) {
    KeptOf(unit).kept.on_grants_logged(number);
  }
  void on_grants_sealed(UnitId unit, uint64_t logged) {
    KeptOf(unit).kept.on_grants_sealed(logged);
  }
  void on_returned(const PieceBlock& pieces) {
    KeptOf(pieces.unit).kept.on_returned(pieces);
  }

 private:
  using Phase = Succession::Phase;
  struct OfLogger {
    bool is_awaited = false;    // its report
    bool has_reported = false;  // what it says is for the successor
  };
  // Of a unit, by number.
  struct OfUnit {
    KeptReport kept;
    uint32_t incarnation = 0;
    bool is_cut = false;        // the rest for it died with the controller
    bool is_asked = false;      // to report
    bool has_reported = false;  // what it says is for the successor
    bool is_heard = false;      // its report has come
    OfLogger logger;
    uint32_t drained = 0;  // since its report
    uint64_t drained_bytes = 0;
  };
  struct Held {
    Event event;
    Alias alias;
  };
  // What a unit reports, on its way.
  struct UnitReports {
    UnitReport unit;
    std::vector<FlowName> names;
    std::vector<FlowReport> flows;
    std::vector<PacketReport> packets;
    std::vector<GrantReport> grants;
  };
  class Collector;

  static constexpr Nanos kMendRetry = Microseconds(10);
  static constexpr Nanos kMaxMendRetry = Milliseconds(1);
  // A query takes up to so much longer than a hop, or, with chaos, as much as a
  // message between units.
  static constexpr int64_t kQueryJitterNs = 20'000;

  OfUnit& KeptOf(UnitId unit) { return of_units_[value(unit)]; }
  // Sources of reports.
  static size_t SourceOf(UnitId unit) { return 2 * size_t{value(unit)}; }
  static size_t LoggerSourceOf(UnitId unit) { return SourceOf(unit) + 1; }
  uint16_t epoch() const {
    return static_cast<uint16_t>(succession_.newest_epoch());
  }
  bool is_gathering() const { return succession_.phase() == Phase::kGathering; }
  static bool IsFromController(const Event& event);
  static bool Keeps(const VirtualUnit& shell, FlowId flow);
  bool TakeUnsent(const Event& event);
  bool TakeAtController(const Event& event);
  bool TakeTold(const Event& event);
  bool TakeFromLogger(const Event& event);
  void on_failure(const Event& event);
  bool IsStillToSay(const Held& held) const;
  void BeginSuccession();
  void Await(size_t source, Event query);
  void AskUnit(UnitId unit);
  void AskLogger(UnitId unit);
  bool MustReportFirst(const Event& event);
  bool MustLoggerReportFirst(const Event& event);
  void MakeReport(UnitId unit);
  void MakeLoggerReport(UnitId unit);
  UnitReport StandingOf(VirtualUnit& shell);
  void on_report(uint64_t number);
  void on_logger_report(const DoneAnswer& answer);
  void on_heard(size_t source);
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
  std::map<uint64_t, FlowName> names_;  // on their way
  uint64_t last_name_ = 0;
  std::vector<UnitReports> reports_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_FAULTS_H_
