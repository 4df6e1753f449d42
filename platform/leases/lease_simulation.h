// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LEASES_LEASE_SIMULATION_H_
#define SNF_PLATFORM_LEASES_LEASE_SIMULATION_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "platform/leases/flow_traffic.h"
#include "platform/leases/lease_options.h"
#include "platform/leases/leasing_controller.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {

// What a simulation measured after the warm-up. Rates are means.
struct LeaseFigures {
  // Of a controller; what it had leased above its load has a value for each
  // epoch within the time that was measured, in ascending order.
  struct OfController {
    double offered_bps = 0;
    double leased_bps = 0;
    double short_bps = 0;
    std::vector<double> over_bps = {};
  };
  std::vector<OfController> controllers;
  double leased_units = 0;  // those of which somebody has a part
  double up_units = 0;      // those that start or run
  uint32_t most_up_units = 0;

  // From the start.
  uint64_t events = 0;
  uint64_t flow_changes = 0;
  uint64_t flows_refused = 0;
  uint64_t asks = 0;
  uint64_t grants = 0;
  uint64_t given_back = 0;
  uint64_t revoked = 0;
  uint64_t gone = 0;
  uint64_t unit_starts = 0;
  uint64_t refused = 0;        // messages, by managers
  uint64_t overcommitted = 0;  // shares that a unit could not honour
};

// Theory of operation. Controllers with loads made of flows (flow_traffic.h)
// lease shares of units from the real resource manager, by the real
// LeaseKeeper; units are models. Loads are fluid: a controller spreads its load
// over its shares evenly, and what is above them is counted as short. All
// messages take the same time and keep their order; units take theirs to start
// and to drain. Events that come after delays of one kind wait in a queue of
// their own, so that no event costs more when there are more of them.
//
// A unit checks that it never promises more than itself.
//
// Owner-thread only. Deterministic.
class LeaseSimulation {
 public:
  // `traffic` is for the controllers of the options.
  LeaseSimulation(const LeaseOptions& options, FlowTraffic traffic);
  LeaseSimulation(const LeaseSimulation&) = delete;
  LeaseSimulation& operator=(const LeaseSimulation&) = delete;

  // Simulates warm-up and duration. Call once.
  LeaseFigures Run();

  // In 1/1024 of a unit, now: by the controllers and by the managers.
  int64_t held_by_controllers() const;
  int64_t held_by_managers() const;

 private:
  // Delays of one kind; a queue holds its events by time.
  enum Line : uint8_t { kMessages, kStarts, kDrains, kEpochs, kTicks, kLines };

  struct UnitReady {
    UnitLife unit;
  };
  struct UnitStopped {
    UnitLife unit;
  };
  struct StartDone {
    UnitLife unit;
  };
  struct Drained {
    SetShare set;
  };
  struct EpochEnd {
    uint32_t controller;
  };
  struct Tick {};
  struct Event {
    Instant time;
    uint32_t manager = 0;
    std::variant<Ask, Renew, GiveBack, VacateLease, ShareSet, UnitReady,
                 UnitStopped, SetShare, Grant, Revoke, Gone, StartUnit,
                 StopUnit, AskReport, NewManager, StartDone, Drained, EpochEnd,
                 Tick>
        what;
  };
  struct Manager {
    std::unique_ptr<ResourceManager> core;
    std::vector<int64_t> honoured = {};  // by unit
  };

  Nanos DelayOf(Line line) const;
  uint32_t ManagerOf(uint32_t controller) const {
    return options_.shared ? 0 : controller;
  }
  ResourceManager& core(uint32_t manager) { return *managers_[manager].core; }
  LeasingController& ControllerOf(ControllerLife life) {
    return controllers_[value(life.controller)];
  }
  template <typename What>
  void Push(Line line, uint32_t manager, const What& what) {
    lines_[line].push_back({now_ + DelayOf(line), manager, what});
  }
  std::deque<Event>& NextLine();
  LeaseFigures Finish();
  // Send what cores and controllers have put out.
  void SendCommands(uint32_t manager);
  void SendRequests(uint32_t manager);
  void CountUnits();
  void Honour(uint32_t manager, const SetShare& set, int64_t share);
  void StartMeasuring();
  void EndEpoch(uint32_t controller);

  // to managers
  void On(uint32_t manager, const Ask& ask);
  void On(uint32_t manager, const Renew& renew);
  void On(uint32_t manager, const GiveBack& back);
  void On(uint32_t, const VacateLease&) {}  // stays at the controller
  void On(uint32_t manager, const ShareSet& set);
  void On(uint32_t manager, const UnitReady& ready);
  void On(uint32_t manager, const UnitStopped& stopped);
  void On(uint32_t manager, const Tick&);
  // to units
  void On(uint32_t manager, const SetShare& set);
  void On(uint32_t manager, const Drained& drained);
  void On(uint32_t manager, const StartUnit& start);
  void On(uint32_t manager, const StartDone& done);
  void On(uint32_t manager, const StopUnit& stop);
  void On(uint32_t, const AskReport&) {}  // only after a restart
  void On(uint32_t, const NewManager&) {}
  // to controllers
  void On(uint32_t manager, const Grant& grant);
  void On(uint32_t manager, const Revoke& revoke);
  void On(uint32_t manager, const Gone& gone);
  void On(uint32_t manager, const EpochEnd& end);

  LeaseOptions options_;
  FlowTraffic traffic_;
  Instant now_{};
  bool measuring_ = false;
  std::array<std::deque<Event>, kLines> lines_;
  std::vector<Manager> managers_;
  std::vector<LeasingController> controllers_;
  std::vector<LeasingController::Figures> at_epoch_;  // by controller
  absl::flat_hash_map<uint64_t, int64_t> shares_;     // by LeaseId, at units
  ManagerOut commands_;
  LeaseCommands requests_;
  LeaseFigures figures_;
  Instant units_since_{};
  uint32_t leased_units_ = 0;
  uint32_t up_units_ = 0;
  double leased_unit_s_ = 0;
  double up_unit_s_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_LEASES_LEASE_SIMULATION_H_
