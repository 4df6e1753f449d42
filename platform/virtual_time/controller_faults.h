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
// first (U14). So
// no report tells of what came of another's later than that one's report: a
// unit that has run a clock and told the one before of it, which forgets its
// copy, is not reported as one that waits, beside nobody who has that copy.
//
// A controller dies only in a run of which no unit has failed so far, and no
// unit dies until the next controller has taken over.
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

   protected:
    ~Host() = default;
  };

  // All of them must outlive the object.
  ControllerFaults(const RunOptions& options, Host& host,
                   Controller& controller, VirtualUnits& units,
                   VirtualNetwork& network, Observers& observers,
                   PacketExits& exits, ControllerFaultFigures& figures);

  bool is_up() const { return phase_ == Phase::kUp; }
  // The controller dies, unless a unit has failed or there is none.
  void Kill(bool unit_has_failed);

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
  // Of a unit, by number.
  struct OfUnit {
    KeptReport kept;
    uint32_t incarnation = 0;
    bool is_cut = false;        // the rest for it is in the buffers of the dead
    bool is_asked = false;      // to report
    bool has_reported = false;  // what it says is for the successor
    bool is_heard = false;      // its report has come
    uint32_t drained = 0;       // since its report
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
  // A query takes up to so much longer than a hop, or, with chaos, as much as a
  // message between units.
  static constexpr int64_t kQueryJitterNs = 20'000;

  OfUnit& KeptOf(UnitId unit) { return of_units_[value(unit)]; }
  static bool IsFromController(const Event& event);
  static bool Keeps(const VirtualUnit& shell, FlowId flow);
  bool TakeUnsent(const Event& event);
  bool TakeAtController(const Event& event);
  bool TakeTold(const Event& event);
  void BeginSuccession();
  void AskUnit(UnitId unit);
  void AddWords(UnitId unit);
  bool MustReportFirst(const Event& event);
  void MakeReport(UnitId unit);
  UnitReport StandingOf(VirtualUnit& shell);
  void on_report(uint64_t number);
  void BeginMending();
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
  Instant died_;
  std::optional<Controller> former_;
  std::optional<Rebuild> rebuild_;
  uint32_t awaited_ = 0;  // units
  std::vector<OfUnit> of_units_;
  std::vector<Held> held_;
  std::deque<Waiting> waiting_;
  std::map<uint64_t, FlowName> names_;  // on their way
  uint64_t last_name_ = 0;
  std::vector<UnitReports> reports_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_CONTROLLER_FAULTS_H_
