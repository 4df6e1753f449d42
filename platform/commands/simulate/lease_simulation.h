// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_SIMULATION_H_
#define SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_SIMULATION_H_

#include <array>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "platform/commands/simulate/flow_traffic.h"
#include "platform/commands/simulate/lease_options.h"
#include "platform/commands/simulate/leasing_controller.h"
#include "resource_manager/core/manager_host.h"

namespace snf {

// Measurements of a simulation after the warm-up. Rates are means.
struct LeaseFigures {
  // Figures of a controller. Its leases above its load have one value for each
  // measured epoch, in ascending order.
  struct OfController {
    double offered_bps = 0;
    double leased_bps = 0;
    double short_bps = 0;
    // Leased above the load, for each epoch that was measured, in ascending
    // order.
    std::vector<double> over_bps = {};
  };
  std::vector<OfController> controllers;
  double leased_units = 0;  // units of which at least a part is leased
  double up_units = 0;      // units that start or run
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
// over its shares evenly, and load above its shares is counted as short. All
// messages take the same time and keep their order; units take time to start
// and to drain. Each kind of delay has a queue of events, in order of time, so
// that the cost of an event does not depend on the number of events.
//
// A unit checks that its shares add up to one unit at most.
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
    std::variant<ToManager, ManagerCommand, StartDone, Drained, EpochEnd, Tick>
        what;
  };
  struct Manager {
    ManagerHost host;
    std::vector<int64_t> honoured = {};  // by unit
  };

  Nanos DelayOf(Line line) const;
  uint32_t ManagerOf(uint32_t controller) const {
    return options_.shared ? 0 : controller;
  }
  ResourceManager& core(uint32_t manager) {
    return *managers_[manager].host.core();
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

  void On(uint32_t manager, const ToManager& message);
  void On(uint32_t manager, const Tick&);
  void On(uint32_t manager, const ManagerCommand& command);
  void On(uint32_t manager, const Drained& drained);
  void On(uint32_t manager, const StartDone& done);
  void On(uint32_t manager, const EpochEnd& end);

  // Commands of managers, at units and controllers.
  void AtUnit(uint32_t manager, const SetShare& set);
  void AtUnit(uint32_t manager, const StartUnit& start);
  void AtUnit(uint32_t manager, const StopUnit& stop);
  void AtUnit(uint32_t, const AskReport&) {}  // no manager fails
  void AtController(LeasingController& controller, const Grant& grant);
  void AtController(LeasingController& controller, const Revoke& revoke);
  void AtController(LeasingController& controller, const Gone& gone);
  void AtController(LeasingController&, const NewLife&) {}  // nor a controller

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

#endif  // SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_SIMULATION_H_
