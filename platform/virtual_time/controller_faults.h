// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_CONTROLLER_FAULTS_H_
#define SNF_PLATFORM_VIRTUAL_TIME_CONTROLLER_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/packet/flow_key.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/controller.h"
#include "controller/rebuild/rebuild.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "platform/virtual_time/packet_exits.h"
#include "platform/virtual_time/virtual_event.h"
#include "platform/virtual_time/virtual_network.h"
#include "platform/virtual_time/virtual_units.h"
#include "runtime/report/kept_report.h"

namespace snf {

// Theory of operation. The failures of the controller in a run in virtual time,
// and how another takes its place (proto/protocol.md F9):
//
//   death ─detection─► successor ─query─► units ─reports─► Rebuild ─► it goes
//   on
//
// With the controller die the packets in its buffers: those that come until its
// death is noticed, and of what it was sending to each unit, from some message
// on, the rest. From then on packets wait, and units serve what they have. What
// a unit has said to the old controller alone is lost; what its logger keeps
// until the controller has acknowledged it, is said again to the new one, and
// so are requests that are open. What a unit says after its report waits until
// the new controller is made.
//
// Messages between units name the epoch of the controller to which their sender
// has reported last; who gets the present one before it has reported does so
// first (U14). So do a unit that hears what its logger has taken, and the
// logger of a dead unit that gets what was for that. So no report tells of what
// came of another's later than that one's report: a unit that has run a clock
// and told the one before of it, which forgets its copy, is not reported as one
// that waits, beside nobody who has that copy; nor does a logger report a flow
// whose end it gets then, beside a unit that has done with it.
//
// Units and loggers may have failed before, and may die meanwhile. The logger
// of a unit whose death is known is sealed, if it is not yet, and reports in
// the unit's place; so does each logger that was sealed some time, beside its
// unit. The successor waits for units that are dead until their deaths are
// noticed. One that dies after it has reported is a failure like any other,
// which the controller learns of once it is made. A successor that dies as well
// has a successor, which asks anew.
//
// Owner-thread only.
class ControllerFaults {
 public:
  using Event = VirtualEvent;

  // Whoever runs the controller.
  class Host {
   public:
    // Puts a controller of this epoch, which knows nothing, in the old one's
    // place.
    virtual void Succeed(uint32_t epoch) = 0;
    // That one knows now what units reported.
    virtual void on_rebuilt() = 0;
    virtual void ExecuteOf(const ControllerOut& out) = 0;
    virtual void Arrive(const FlowKey& key, bool by_alias,
                        PacketHandle packet) = 0;
    virtual void Handle(const Event& event) = 0;
    // Takes the alias of the kAliasAtController at hand; and handles an event
    // that was put off, with such an alias.
    virtual Alias TakeAlias() = 0;
    virtual void HandleHeld(const Event& event, const Alias& alias) = 0;
    // The event was never sent.
    virtual void Unsent(const Event& event) = 0;
    // It is known that the unit has failed, and there is no controller to tell.
    virtual void NoteFailure(UnitId unit) = 0;
    // The unit's logger is to seal it, or to say once more what it has.
    virtual void SealLogger(const Seal& seal) = 0;
    // A flow goes on with the clock behind this one.
    // Or only its end is to come.
    virtual void on_found(FlowId flow, Clock newest, bool is_ending) = 0;
    // Its alias of that clock is no more.
    virtual void on_alias_withdrawn(FlowId flow, Clock clock) = 0;

   protected:
    ~Host() = default;
  };

  // All of them must outlive the object.
  ControllerFaults(const RunOptions& options, Host& host,
                   Controller& controller, VirtualUnits& units,
                   VirtualNetwork& network, Observers& observers,
                   PacketExits& exits, ControllerFaultFigures& figures);

  bool is_up() const { return phase_ == Phase::kUp; }
  // The controller dies, or one that is about to succeed it; if there is any.
  void Kill();
  // The controller that knows the most of what units are in use: while another
  // is made, the one before.
  const Controller& known() const {
    return former_.has_value() ? *former_ : controller_;
  }

  // --- What is under way. ---

  // For each event. Returns true if nobody else is to take it now.
  bool Take(const Event& event);
  // A packet reaches the controller. Returns true if it is lost, or waits.
  bool Hold(const FlowKey& key, bool by_alias, PacketHandle packet);
  // A slot of the unit's channel is free. Returns true if the controller does
  // not hear of it now.
  bool HoldDrain(UnitId unit, uint32_t cost);

  // --- What units keep for the next controller. ---

  void SendName(UnitId unit, const FlowName& name);
  void on_start(const ControllerCommand& command);
  void on_grant(const Event& event);
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
  enum class Phase : uint8_t {
    kUp,
    kDead,       // nobody knows it yet
    kGathering,  // the successor has not heard of all units
    kMending,    // it is made, and packets wait still
  };
  struct OfLogger {
    bool is_awaited = false;    // its report
    bool has_reported = false;  // what it says is for the successor
  };
  // Of a unit, by number.
  struct OfUnit {
    KeptReport kept;
    uint32_t incarnation = 0;
    bool is_cut = false;        // the rest for it is in the buffers of the dead
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
  struct Waiting {
    FlowKey key;
    bool by_alias;
    PacketHandle packet;
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

  static constexpr size_t kMaxWaiting = 65'536;
  static constexpr Nanos kMendRetry = Microseconds(10);
  static constexpr Nanos kMaxMendRetry = Milliseconds(1);
  // A query takes up to so much longer than a hop, or, with chaos, as much as a
  // message between units.
  static constexpr int64_t kQueryJitterNs = 20'000;

  OfUnit& KeptOf(UnitId unit) { return of_units_[value(unit)]; }
  static bool IsFromController(const Event& event);
  static bool Keeps(const VirtualUnit& shell, FlowId flow);
  bool TakeUnsent(const Event& event);
  bool TakeAtController(const Event& event);
  bool TakeTold(const Event& event);
  bool TakeFromLogger(const Event& event);
  void on_failure(const Event& event);
  bool IsStillToSay(const Held& held) const;
  void BeginSuccession();
  void Await(Event query);
  void AskUnit(UnitId unit);
  void AskLogger(UnitId unit);
  bool MustReportFirst(const Event& event);
  bool MustLoggerReportFirst(const Event& event);
  void MakeReport(UnitId unit);
  void MakeLoggerReport(UnitId unit);
  UnitReport StandingOf(VirtualUnit& shell);
  void on_report(uint64_t number);
  void on_logger_report(const DoneAnswer& answer);
  void on_heard();
  void BeginMending();
  void TellRebuilt();
  void HandOver(const Held& held);
  void Mend();

  const RunOptions& options_;
  Host& host_;
  Controller& controller_;
  VirtualUnits& units_;
  VirtualNetwork& network_;
  Observers& observers_;
  PacketExits& exits_;
  ControllerFaultFigures& figures_;
  Rng rng_;

  Phase phase_ = Phase::kUp;
  uint32_t epoch_ = 0;
  std::vector<Instant> deaths_;  // of which none has a successor yet
  Nanos mend_retry_ = kMendRetry;
  std::optional<Controller> former_;
  std::optional<Rebuild> rebuild_;
  uint32_t awaited_ = 0;  // reports
  std::vector<OfUnit> of_units_;
  std::vector<Held> held_;
  std::deque<Waiting> waiting_;
  std::map<uint64_t, FlowName> names_;  // on their way
  uint64_t last_name_ = 0;
  std::vector<UnitReports> reports_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_CONTROLLER_FAULTS_H_
