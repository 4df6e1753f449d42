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

// A configuration says what may happen in a world, and how often.
struct Configuration {
  uint8_t units = 3;  // may be at most 3
  uint8_t flows = 1;  // may be at most 2
  uint8_t packets = 4;
  // So many idle flows have their state pushed before all is quiet.
  uint8_t pushes = 1;
  // So many messages between units are lost, and come twice.
  uint8_t losses = 0;
  uint8_t duplicates = 0;
  // So many timers fire though nothing was lost.
  uint8_t repeats = 0;
  // So many replicas expire before all is quiet.
  uint8_t expiries = 0;
  // So many units are to stop, and start again.
  uint8_t leaves = 0;
  uint8_t starts = 0;
  // So many flows end.
  uint8_t ends = 0;
  // Units fail, with loggers, when nothing is under way: at most this number.
  uint8_t deaths = 0;
  uint32_t hold_packets = 16;
  // Packets wait in the channel at will; else the unit gets them at once.
  bool has_channels = false;
  bool begins_late = false;
  bool has_timers = false;  // the NF sets timers
  bool has_loggers = false;
  bool has_host = false;  // units show each other states in place of pushes
  bool merges = true;     // states of units that look alike are one
  uint64_t max_states = 20'000'000;
};

// A world is all that is between two steps. It has no gaps, since worlds are
// compared as bytes.
struct World {
  static constexpr uint8_t kNobody = 7;
  static constexpr size_t kMaxQueued = 8;
  static constexpr size_t kMaxMessages = 20;
  struct Flow {
    uint8_t next = 1;           // is the clock of the next packet
    uint8_t owner = kNobody;    // is the unit of the packet before
    uint8_t done = 0;           // is the last clock that was applied
    uint8_t serving = kNobody;  // is the unit with a packet in service
    uint8_t is_over = 0;
    uint8_t has_timer = 0;
    // The owner has asked for a timer packet, and the flow did not go on since.
    uint8_t is_asked = 0;
    uint8_t released = 0;  // with loggers: is the last clock that they let out
    uint64_t digest = 0;   // is what the NF made of it so far
  };

  std::array<Flow, 2> flows{};
  std::array<uint32_t, 3> units{};
  std::array<std::array<uint16_t, kMaxQueued>, 3> channels{};
  // Are the entries of each unit that its logger has not let out.
  std::array<std::array<uint16_t, kMaxQueued>, 3> entries{};
  std::array<uint8_t, 3> queued{};
  uint8_t messages = 0;
  std::array<uint16_t, kMaxMessages> in_flight{};  // is sorted
  UnitStates::Shown shown{};
  uint8_t used = 0;  // units 0 … used - 1 had something to do
  uint8_t leaving = kNobody;
  uint8_t has_stopped = 0;
  uint8_t quiet_rounds = 0;  // counts those in a row
  // So many packets may still come; so with the others (Configuration).
  uint8_t packets = 0;
  uint8_t pushes = 0;
  uint8_t losses = 0;
  uint8_t duplicates = 0;
  uint8_t repeats = 0;
  uint8_t expiries = 0;
  uint8_t leaves = 0;
  uint8_t starts = 0;
  uint8_t ends = 0;
  uint8_t deaths = 0;
  uint8_t dead = kNobody;
  std::array<uint8_t, 3> logged{};  // counts entries
  // Are the clocks of the loggers' copies, by unit and flow.
  std::array<std::array<uint8_t, 2>, 3> copies{};
  std::array<uint8_t, 4> reserved{};
};
static_assert(std::has_unique_object_representations_v<World>);
static_assert(sizeof(World) % 8 == 0);
uint64_t HashOf(const World& world);

struct Action {
  enum class Kind : uint8_t {
    kRoute,       // sends the flow's next packet, within the flowlet
    kRouteFirst,  // sends it as the first of a flowlet
    kRouteNull,
    kRouteTimer,  // answers the request of a timer packet
    kEnd,         // ends the flow
    kLeave,       // tells the unit to stop
    kStart,       // starts the unit again
    kDie,         // lets the unit fail
    kDeliver,     // takes an item from the unit's channel
    kBegin,
    kFinish,
    kTimer,
    kRelease,  // the unit's logger takes its first entry, and lets it out
    kMessage,  // lets the message arrive
    kLose,
    kDuplicate,
    kQuiet,  // lets time pass everywhere, since nothing is under way
  };
  Kind kind;
  uint8_t unit = 0;
  uint8_t flow = 0;
  uint8_t reserved = 0;
  uint16_t message = 0;
};

// WorldRules says how a world goes on. It has the real units, and as much of a
// network and of a controller as they can tell apart from the real ones.
class WorldRules {
 public:
  // Totals count over all steps.
  struct Totals {
    uint64_t seamless = 0;  // counts flowlets that found their state
    uint64_t waited = 0;    // counts those that moved and did not
    uint64_t pulls = 0;
    uint64_t pushes = 0;
    uint64_t answers = 0;
    uint64_t takeovers = 0;
    uint64_t evicted = 0;
    uint64_t expired = 0;
    uint64_t repeated = 0;
    uint64_t stopped = 0;
    uint64_t tombstones = 0;
    uint64_t timers = 0;  // counts the NF's
    uint64_t shown = 0;   // counts states
    uint64_t seen = 0;    // counts seamless flowlets after a failure
    uint64_t rounds = 0;  // is the most that it took to settle
  };

  explicit WorldRules(const Configuration& configuration);

  World Start() const;
  void ListActions(const World& world, std::vector<Action>& actions);
  // Returns what is wrong with that step; empty for nothing.
  std::string Take(World& world, const Action& action);
  // Nothing is under way, and only the controller or a timer could change that.
  bool IsQuiet(const World& world);
  // Nothing is under way, and only the controller could change that.
  bool IsSettled(const World& world);
  // Returns what is wrong with a world that is quiet, or settled.
  std::string CheckQuiet(const World& world) const;
  std::string CheckSettled(const World& world) const;
  // Returns one line with the step and what it brings about.
  std::string Describe(World world, const Action& action);
  // Returns a hash of what can be seen of a world from outside of its units.
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
  void LetOut(World& world, uint8_t unit);
  void Deliver(World& world, uint16_t number);
  bool MayDie(const World& world, uint8_t unit);
  UnitStates::StateId See(const World& world, uint8_t unit);
  void CheckLoggers(const World& world, uint8_t flow);
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
  std::string wrong_;             // says what the present step did wrong
  std::string* story_ = nullptr;  // tells the present step, if not null
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_WORLD_H_
