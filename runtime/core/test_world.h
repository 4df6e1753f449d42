// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TEST_WORLD_H_
#define SNF_RUNTIME_CORE_TEST_WORLD_H_

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/core/test_unit_states.h"

namespace snf {

// What may happen, and how often.
struct Configuration {
  uint8_t units = 3;  // at most 3
  uint8_t flows = 1;  // at most 2
  uint8_t packets = 4;
  uint8_t pushes = 1;  // idle flows whose state is pushed before all is quiet
  uint8_t losses = 0;  // of messages between units
  uint8_t duplicates = 0;  // "
  uint8_t repeats = 0;     // timers that fire though nothing was lost
  uint8_t expiries = 0;    // of replicas, before all is quiet
  uint8_t leaves = 0;      // units that are to stop
  uint8_t starts = 0;      // of units that have stopped
  uint8_t ends = 0;        // of flows
  uint32_t hold_packets = 16;
  // Packets wait in the channel at will; else the unit gets them at once.
  bool has_channels = false;
  bool begins_late = false;
  bool has_timers = false;  // of the NF
  bool merges = true;       // states of units that look alike
  uint64_t max_states = 20'000'000;
};

// All that is, between two steps. Without gaps: compared as bytes.
struct World {
  static constexpr uint8_t kNobody = 7;
  static constexpr size_t kMaxQueued = 8;
  static constexpr size_t kMaxMessages = 20;
  struct Flow {
    uint8_t next = 1;           // clock
    uint8_t owner = kNobody;    // of next - 1
    uint8_t done = 0;           // the last clock that was applied
    uint8_t serving = kNobody;  // which unit has a packet in service
    uint8_t is_over = 0;
    uint8_t has_timer = 0;
    std::array<uint8_t, 2> reserved{};
    uint64_t digest = 0;  // what the NF made of it so far
  };

  std::array<Flow, 2> flows{};
  std::array<uint32_t, 3> units{};
  std::array<std::array<uint16_t, kMaxQueued>, 3> channels{};
  std::array<uint8_t, 3> queued{};
  uint8_t messages = 0;
  std::array<uint16_t, kMaxMessages> in_flight{};  // sorted
  uint8_t used = 0;  // units 0 … used - 1 had something to do
  uint8_t leaving = kNobody;
  uint8_t has_stopped = 0;
  uint8_t quiet_rounds = 0;  // in a row
  uint8_t packets = 0;       // that may still come; so with the others
  uint8_t pushes = 0;
  uint8_t losses = 0;
  uint8_t duplicates = 0;
  uint8_t repeats = 0;
  uint8_t expiries = 0;
  uint8_t leaves = 0;
  uint8_t starts = 0;
  uint8_t ends = 0;
  std::array<uint8_t, 3> reserved{};
};
static_assert(std::has_unique_object_representations_v<World>);
static_assert(sizeof(World) % 8 == 0);
uint64_t HashOf(const World& world);

struct Action {
  enum class Kind : uint8_t {
    kRoute,       // the flow's next packet to the unit, within the flowlet
    kRouteFirst,  // as the first of a flowlet
    kRouteNull,
    kEnd,      // the flow
    kLeave,    // the unit
    kStart,    // "
    kDeliver,  // from the unit's channel
    kBegin,
    kFinish,
    kTimer,
    kMessage,  // arrives
    kLose,
    kDuplicate,
    kQuiet,  // nothing is under way: time passes everywhere
  };
  Kind kind;
  uint8_t unit = 0;
  uint8_t flow = 0;
  uint8_t reserved = 0;
  uint16_t message = 0;
};

// The rules by which a world goes on: the real units, and as much of a network
// and of a controller as they can tell apart from the real ones.
class WorldRules {
 public:
  struct Totals {           // over all steps
    uint64_t seamless = 0;  // flowlets that found their state
    uint64_t waited = 0;    // that moved and did not
    uint64_t pulls = 0;
    uint64_t pushes = 0;
    uint64_t answers = 0;
    uint64_t takeovers = 0;
    uint64_t evicted = 0;
    uint64_t expired = 0;
    uint64_t repeated = 0;
    uint64_t stopped = 0;
    uint64_t tombstones = 0;
    uint64_t timers = 0;  // of the NF
    uint64_t rounds = 0;  // the most that it took to settle
  };

  explicit WorldRules(const Configuration& configuration);

  World Start() const;
  void ListActions(const World& world, std::vector<Action>& actions);
  // Empty, or what is wrong with that step.
  std::string Take(World& world, const Action& action);
  // Nothing is under way, and only the controller or a timer could change that.
  bool IsQuiet(const World& world);
  // Nor could a timer.
  bool IsSettled(const World& world);
  // What is wrong with a world that is quiet, or settled.
  std::string CheckQuiet(const World& world) const;
  std::string CheckSettled(const World& world) const;
  // One line: the step and what it brings about.
  std::string Describe(World world, const Action& action);
  // What can be seen of a world from outside of its units.
  uint64_t Look(World world) const;

  const Totals& totals() const { return totals_; }
  size_t unit_states() const { return states_.size(); }

 private:
  using Input = UnitStates::Input;

  void ListRoutes(const World& world, uint8_t flow,
                  std::vector<Action>& actions) const;
  void ListUnits(const World& world, std::vector<Action>& actions);
  std::string CheckRan(const World& world) const;
  bool MayFireTimer(const World& world, uint8_t unit);
  bool IsRoutable(const World& world, uint8_t unit) const;
  Item RoutedItem(World& world, const Action& action) const;
  void Give(World& world, uint8_t unit, const Item& item);
  void Feed(World& world, uint8_t unit, Input input, uint16_t what = 0);
  void Apply(World& world, uint8_t unit, const Effect& effect);
  void Serve(World& world, uint8_t unit, const Effect& effect);
  void Run(World::Flow& f, const Effect& effect);
  void CountSent(const Message& message);
  void Tell(uint8_t unit, const Effect& effect);
  void Fail(std::string what);
  static void Send(World& world, uint16_t message);
  static void Remove(World& world, uint16_t message);

  Configuration configuration_;
  UnitStates states_;
  Totals totals_;
  std::string wrong_;             // with the present step
  std::string* story_ = nullptr;  // of the present step, where it is told
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_WORLD_H_
