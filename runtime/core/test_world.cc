// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/test_world.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace snf {
namespace {

// Many more than any unit needs to hear of what was lost.
constexpr uint8_t kMaxQuietRounds = 6;

UnitOptions OptionsOf(const Configuration& configuration) {
  // Timers of one unit run out in this order: pushes, replicas, what is to be
  // repeated, Pulls that are forgotten.
  return {.max_flows = 2,
          .queue_packets = World::kMaxQueued,
          .packets_elsewhere = 6,
          .hold_packets = configuration.hold_packets,
          .replicas = 2,
          .push_after = Milliseconds(1),
          .max_replicas = 1,
          .replica_lifetime = Milliseconds(2),
          .retry_after = Seconds(5),
          .has_logger = configuration.has_loggers};
}

}  // namespace

WorldRules::WorldRules(const Configuration& configuration)
    : configuration_(configuration),
      states_(OptionsOf(configuration), configuration.units,
              configuration.begins_late, configuration.has_timers,
              configuration.has_host, configuration.merges) {}

World WorldRules::Start() const {
  World world;
  for (uint8_t unit = 0; unit < configuration_.units; ++unit) {
    world.units[unit] = states_.start(unit);
  }
  world.packets = configuration_.packets;
  world.pushes = configuration_.pushes;
  world.losses = configuration_.losses;
  world.duplicates = configuration_.duplicates;
  world.repeats = configuration_.repeats;
  world.expiries = configuration_.expiries;
  world.leaves = configuration_.leaves;
  world.starts = configuration_.starts;
  world.ends = configuration_.ends;
  world.deaths = configuration_.deaths;
  return world;
}

bool WorldRules::IsRoutable(const World& world, uint8_t unit) const {
  // Units are alike, so they may be numbered in the order of their first use.
  return unit < configuration_.units && unit <= world.used &&
         unit != world.leaving && unit != world.dead;
}

void WorldRules::ListRoutes(const World& world, uint8_t flow,
                            std::vector<Action>& actions) const {
  using Kind = Action::Kind;
  const World::Flow& f = world.flows[flow];
  if (f.is_over != 0) return;
  const bool has_begun = f.next > 1;
  // So are flows.
  const bool may_begin = flow == 0 || world.flows[0].next > 1;
  for (uint8_t unit = 0; IsRoutable(world, unit) || unit < world.used; ++unit) {
    if (!IsRoutable(world, unit) || world.queued[unit] == World::kMaxQueued) {
      continue;
    }
    if (world.packets > 0 && (has_begun || may_begin)) {
      actions.push_back(
          {.kind = Kind::kRouteFirst, .unit = unit, .flow = flow});
      if (unit == f.owner) {
        actions.push_back({.kind = Kind::kRoute, .unit = unit, .flow = flow});
      }
    }
    if (f.is_asked != 0) {
      actions.push_back(
          {.kind = Kind::kRouteTimer, .unit = unit, .flow = flow});
    }
    if (has_begun && (f.owner == world.leaving || f.owner == world.dead)) {
      actions.push_back({.kind = Kind::kRouteNull, .unit = unit, .flow = flow});
    }
  }
  if (has_begun && world.ends > 0 && f.owner != world.dead &&
      world.queued[f.owner] < World::kMaxQueued) {
    actions.push_back({.kind = Kind::kEnd, .unit = f.owner, .flow = flow});
  }
}

void WorldRules::ListUnits(const World& world, std::vector<Action>& actions) {
  using Kind = Action::Kind;
  for (uint8_t unit = 0; unit < configuration_.units; ++unit) {
    if (unit == world.dead) continue;
    if (MayDie(world, unit)) {
      actions.push_back({.kind = Kind::kDie, .unit = unit});
    }
    if (world.leaves > 0 && world.leaving == World::kNobody &&
        IsRoutable(world, unit) && world.queued[unit] < World::kMaxQueued) {
      actions.push_back({.kind = Kind::kLeave, .unit = unit});
    }
    if (world.starts > 0 && world.leaving == unit && world.has_stopped != 0) {
      actions.push_back({.kind = Kind::kStart, .unit = unit});
    }
    if (world.queued[unit] > 0) {
      actions.push_back({.kind = Kind::kDeliver, .unit = unit});
    }
    const UnitStates::StateId state = world.units[unit];
    if (states_.facts(state).busy) {
      actions.push_back({.kind = Kind::kFinish, .unit = unit});
    } else if (configuration_.begins_late &&
               states_.Take(See(world, unit), Input::kBegin).next != state) {
      actions.push_back({.kind = Kind::kBegin, .unit = unit});
    }
    if (world.logged[unit] > 0) {
      actions.push_back({.kind = Kind::kRelease, .unit = unit});
    }
    if (MayFireTimer(world, unit)) {
      actions.push_back({.kind = Kind::kTimer, .unit = unit});
    }
  }
}

void WorldRules::ListActions(const World& world, std::vector<Action>& actions) {
  using Kind = Action::Kind;
  actions.clear();
  for (uint8_t flow = 0; flow < configuration_.flows; ++flow) {
    ListRoutes(world, flow, actions);
  }
  ListUnits(world, actions);
  for (uint8_t i = 0; i < world.messages; ++i) {
    const uint16_t message = world.in_flight[i];
    if (i > 0 && message == world.in_flight[i - size_t{1}]) continue;
    actions.push_back({.kind = Kind::kMessage, .message = message});
    if (world.losses > 0) {
      actions.push_back({.kind = Kind::kLose, .message = message});
    }
    if (world.duplicates > 0) {
      actions.push_back({.kind = Kind::kDuplicate, .message = message});
    }
  }
  if (IsQuiet(world) && !IsSettled(world)) {
    actions.push_back({.kind = Kind::kQuiet});
  }
}

bool WorldRules::MayFireTimer(const World& world, uint8_t unit) {
  const UnitStates::StateId state = world.units[unit];
  const UnitStates::Step step = states_.Take(state, Input::kTimer);
  if (step.next == state && step.effects == 0) return false;
  bool pushes = false;
  bool repeats = false;
  bool expires = false;
  bool asks = false;
  for (const Effect& effect : states_.effects(step)) {
    asks |= effect.kind == Effect::Kind::kAskTimer;
    pushes |= effect.kind == Effect::Kind::kShow ||
              (effect.kind == Effect::Kind::kSend &&
               states_.message(effect.message).kind == Message::Kind::kPush);
    repeats |= effect.kind == Effect::Kind::kRepeated ||
               effect.kind == Effect::Kind::kForgotten;
    expires |= effect.kind == Effect::Kind::kExpired;
  }
  if (repeats) return world.repeats > 0;
  if (expires) return world.expiries > 0;
  // There are no more requests of timer packets than packets that set timers.
  if (asks) return true;
  // Otherwise a timer matters only for those behind it.
  return (pushes && world.pushes > 0) || world.repeats + world.expiries > 0;
}

// The explorer of platform/system_test lets units fail at any step. Here no
// Takeover may be lost before, since nothing stands for a controller's Forget.
bool WorldRules::MayDie(const World& world, uint8_t unit) {
  return world.deaths > 0 && world.dead == World::kNobody &&
         unit < world.used && unit != world.leaving &&
         world.losses == configuration_.losses && IsQuiet(world) &&
         CheckRan(world).empty();
}

bool WorldRules::IsQuiet(const World& world) {
  if (world.messages > 0) return false;
  for (const World::Flow& flow : world.flows) {
    if (flow.is_asked != 0) return false;
  }
  for (uint8_t unit = 0; unit < configuration_.units; ++unit) {
    if (unit == world.dead) continue;
    const UnitStates::StateId state = world.units[unit];
    if (world.queued[unit] > 0 || world.logged[unit] > 0 ||
        states_.facts(state).busy) {
      return false;
    }
    if (configuration_.begins_late &&
        states_.Take(See(world, unit), Input::kBegin).next != state) {
      return false;
    }
  }
  return true;
}

bool WorldRules::IsSettled(const World& world) {
  if (!IsQuiet(world)) return false;
  for (uint8_t unit = 0; unit < configuration_.units; ++unit) {
    if (unit == world.dead) continue;
    const UnitStates::StateId state = world.units[unit];
    const UnitStates::Step step = states_.Take(state, Input::kTimer);
    if (step.next != state || step.effects > 0) return false;
  }
  return true;
}

std::string WorldRules::Take(World& world, const Action& action) {
  using Kind = Action::Kind;
  wrong_.clear();
  if (action.kind <= Kind::kDie || action.kind == Kind::kLose ||
      action.kind == Kind::kDuplicate) {
    world.quiet_rounds = 0;
  }
  switch (action.kind) {
    case Kind::kRoute:
    case Kind::kRouteFirst:
    case Kind::kRouteNull:
    case Kind::kRouteTimer:
    case Kind::kEnd:
    case Kind::kLeave:
      Give(world, action.unit, RoutedItem(world, action));
      break;
    case Kind::kStart:
      --world.starts;
      world.leaving = World::kNobody;
      world.has_stopped = 0;
      Feed(world, action.unit, Input::kItem,
           Item{.kind = Item::Kind::kStart}.Code());
      break;
    case Kind::kDie:
      --world.deaths;
      world.dead = action.unit;
      break;
    case Kind::kDeliver: {
      auto& channel = world.channels[action.unit];
      const uint16_t item = channel[0];
      std::shift_left(channel.begin(), channel.end(), 1);
      channel[--world.queued[action.unit]] = 0;
      Feed(world, action.unit, Input::kItem, item);
      break;
    }
    case Kind::kBegin:
      Feed(world, action.unit, Input::kBegin);
      break;
    case Kind::kFinish:
      Feed(world, action.unit, Input::kFinish);
      break;
    case Kind::kTimer:
      Feed(world, action.unit, Input::kTimer);
      break;
    case Kind::kRelease:
      LetOut(world, action.unit);
      break;
    case Kind::kMessage:
      Remove(world, action.message);
      Deliver(world, action.message);
      break;
    case Kind::kLose:
      --world.losses;
      Remove(world, action.message);
      break;
    case Kind::kDuplicate:
      --world.duplicates;
      Send(world, action.message);
      break;
    case Kind::kQuiet:
      for (uint8_t unit = 0; unit < configuration_.units; ++unit) {
        if (unit != world.dead) Feed(world, unit, Input::kTimer);
      }
      totals_.rounds =
          std::max<uint64_t>(totals_.rounds, world.quiet_rounds + 1u);
      if (++world.quiet_rounds > kMaxQuietRounds) Fail("I7: nothing settles");
      break;
  }
  return wrong_;
}

Item WorldRules::RoutedItem(World& world, const Action& action) const {
  using Kind = Action::Kind;
  World::Flow& f = world.flows[action.flow];
  Item item{.flow = action.flow};
  if (action.unit == world.used) ++world.used;
  if (action.kind == Kind::kLeave) {
    --world.leaves;
    world.leaving = action.unit;
    item.kind = Item::Kind::kStop;
    return item;
  }
  if (action.kind == Kind::kEnd) {
    --world.ends;
    f.is_over = 1;
    f.is_asked = 0;
    item.kind = Item::Kind::kEnd;
    item.clock = f.next - uint8_t{1};
    return item;
  }
  item.clock = f.next++;
  item.is_timer = action.kind == Kind::kRouteTimer;
  item.is_first =
      action.kind != Kind::kRoute && !(item.is_timer && action.unit == f.owner);
  item.is_null = item.is_timer || action.kind == Kind::kRouteNull;
  f.is_asked = 0;
  if (item.is_first && item.clock > 1) {
    item.source = f.owner;
    if (f.owner == world.dead) item.source += Item::kLoggerOf;
  }
  if (!item.is_null) {
    --world.packets;
    if (item.is_first) {
      item.set = static_cast<uint8_t>(((1 << configuration_.units) - 1) ^
                                      (1 << action.unit));
    }
  }
  f.owner = action.unit;
  return item;
}

void WorldRules::Give(World& world, uint8_t unit, const Item& item) {
  if (configuration_.has_channels) {
    world.channels[unit][world.queued[unit]++] = item.Code();
  } else {
    Feed(world, unit, Input::kItem, item.Code());
  }
}

void WorldRules::LetOut(World& world, uint8_t unit) {
  auto& entries = world.entries[unit];
  const uint16_t entry = entries[0];
  std::shift_left(entries.begin(), entries.end(), 1);
  entries[--world.logged[unit]] = 0;
  const Item item = Item::Of(entry);
  World::Flow& f = world.flows[item.flow];
  world.copies[unit][item.flow] = item.clock;
  if (item.clock != f.released + 1) {
    Fail("I3: clock " + std::to_string(item.clock) + " is released after " +
         std::to_string(f.released));
  }
  f.released = item.clock;
  Feed(world, unit, Input::kReleased, entry);
}

// The logger of a dead unit is sealed: it answers in the unit's place, from the
// clocks that it has taken.
void WorldRules::Deliver(World& world, uint16_t number) {
  const Message& message = states_.message(number);
  if (message.to != world.dead) {
    Feed(world, message.to, Input::kMessage, number);
    return;
  }
  const World::Flow& f = world.flows[message.flow];
  uint8_t& copy = world.copies[world.dead][message.flow];
  Message answer{
      .to = message.peer, .flow = message.flow, .clock = message.clock};
  // A Pull of an earlier clock comes late.
  if (message.kind == Message::Kind::kPull && copy == message.clock &&
      copy == f.done) {
    answer.kind = Message::Kind::kState;
    answer.record = {1, f.digest};
    Send(world, states_.NumberOf(answer));
  } else if (message.kind == Message::Kind::kTakeover) {
    answer.kind = Message::Kind::kTakeoverAck;
    answer.peer = world.dead;
    if (copy < message.clock) copy = 0;
    CheckLoggers(world, message.flow);
    Send(world, states_.NumberOf(answer));
  }
}

// Returns the state of the unit that sees what others show now.
UnitStates::StateId WorldRules::See(const World& world, uint8_t unit) {
  UnitStates::Shown shown = world.shown;
  shown[unit] = {};
  const UnitStates::StateId state = world.units[unit];
  if (shown == UnitStates::Shown{}) return state;
  return states_.Take(state, Input::kSee, states_.NumberOf(shown)).next;
}

void WorldRules::Feed(World& world, uint8_t unit, Input input, uint16_t what) {
  const UnitStates::Step step = states_.Take(See(world, unit), input, what);
  world.units[unit] = step.next;
  bool pushes = false;
  bool repeats = false;
  bool expires = false;
  for (const Effect& effect : states_.effects(step)) {
    const bool is_push =
        (effect.kind == Effect::Kind::kShow && input == Input::kTimer) ||
        (effect.kind == Effect::Kind::kSend &&
         states_.message(effect.message).kind == Message::Kind::kPush);
    pushes |= is_push;
    repeats |= effect.kind == Effect::Kind::kRepeated ||
               effect.kind == Effect::Kind::kForgotten;
    expires |= effect.kind == Effect::Kind::kExpired;
    // Pushes beyond those allowed are lost.
    if (!is_push || world.pushes > 0) Apply(world, unit, effect);
  }
  if (input != Input::kTimer) return;
  if (pushes && world.pushes > 0) --world.pushes;
  if (repeats && world.repeats > 0) --world.repeats;
  if (expires && world.expiries > 0) --world.expiries;
}

}  // namespace snf
