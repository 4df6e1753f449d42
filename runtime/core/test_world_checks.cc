// SPDX-License-Identifier: Apache-2.0
// What a step must and must not bring about, and how it is told.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "runtime/core/test_world.h"

namespace snf {
namespace {

std::string UnitName(uint8_t unit) { return {static_cast<char>('A' + unit)}; }
std::string Name(uint8_t flow, uint8_t clock) {
  return static_cast<char>('f' + flow) + std::to_string(clock);
}
std::string Name(const Message& message) {
  static constexpr std::array<const char*, 7> kKinds = {
      "Push", "State",    "named State", "state",
      "Pull", "Takeover", "TakeoverAck"};
  std::string text = kKinds[static_cast<size_t>(message.kind)];
  text += "(" + Name(message.flow, message.clock);
  if (message.kind >= Message::Kind::kPull) {
    text += " by " + UnitName(message.peer);
  }
  return text + ")";
}

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
  hash = (hash ^ hash >> 32) * 0xbf58'476d'1ce4'e5b9;
  return hash ^ hash >> 29;
}

}  // namespace

void WorldRules::Apply(World& world, uint8_t unit, const Effect& effect) {
  using Kind = Effect::Kind;
  World::Flow& f = world.flows[effect.flow];
  if (story_ != nullptr) Tell(unit, effect);
  switch (effect.kind) {
    case Kind::kSend: {
      const Message& message = states_.message(effect.message);
      CountSent(message);
      Send(world, effect.message);
      if (message.kind != Message::Kind::kTakeoverAck) break;
      // The logger behind the unit forgets as well (U7).
      uint8_t& copy = world.copies[unit][message.flow];
      if (copy < message.clock) copy = 0;
      CheckLoggers(world, message.flow);
      break;
    }
    case Kind::kShow: {
      const Message& message = states_.message(effect.message);
      ++totals_.shown;
      world.shown[unit][message.flow] = effect.message + uint16_t{1};
      break;
    }
    case Kind::kLogged:
      world.entries[unit][world.logged[unit]++] = effect.message;
      break;
    case Kind::kServe:
      Serve(world, unit, effect);
      break;
    case Kind::kRan:
    case Kind::kRanTimer:
      Run(f, effect);
      break;
    case Kind::kAskTimer:
      // Requests that the flow has gone past are refused.
      if (f.is_over == 0 && unit == f.owner && effect.clock + 1 == f.next) {
        f.is_asked = 1;
      }
      break;
    case Kind::kDone:
      if (effect.clock != f.done + 1) {
        Fail("I3: " + Name(effect.flow, effect.clock) + " leaves after " +
             Name(effect.flow, f.done));
      }
      f.done = effect.clock;
      f.serving = World::kNobody;
      break;
    case Kind::kDuplicate:
      Fail("I7: " + Name(effect.flow, effect.clock) +
           " is dropped as a duplicate");
      break;
    case Kind::kDropPayload:
      ++totals_.tombstones;
      break;
    case Kind::kStopped:
      ++totals_.stopped;
      if (unit != world.leaving) Fail(UnitName(unit) + " stops unasked");
      if (world.logged[unit] > 0)
        Fail("U13: " + UnitName(unit) + " stops early");
      world.has_stopped = 1;
      break;
    case Kind::kEvicted:
      ++totals_.evicted;
      break;
    case Kind::kExpired:
      ++totals_.expired;
      break;
    case Kind::kRepeated:
      ++totals_.repeated;
      break;
    case Kind::kForgotten:
      break;
  }
}

// Were a unit lost, what is released would be in a logger.
void WorldRules::CheckLoggers(const World& world, uint8_t flow) {
  const World::Flow& f = world.flows[flow];
  if (!configuration_.has_loggers || f.is_over != 0) return;
  uint8_t newest = 0;
  for (const auto& copies : world.copies) {
    newest = std::max(newest, copies[flow]);
  }
  if (newest < f.released) {
    Fail("I5: no logger has " + Name(flow, f.released) + ", which is released");
  }
}

void WorldRules::Serve(World& world, uint8_t unit, const Effect& effect) {
  World::Flow& f = world.flows[effect.flow];
  const std::string name = Name(effect.flow, effect.clock);
  if (f.serving != World::kNobody) {
    Fail("I1: " + UnitName(unit) + " runs " + name + " while " +
         UnitName(f.serving) + " runs a clock of that flow");
  } else if (effect.clock <= f.done) {
    Fail("I1: " + UnitName(unit) + " runs " + name + " again");
  } else if (effect.clock != f.done + 1) {
    Fail("I2: " + UnitName(unit) + " runs " + name + " after " +
         Name(effect.flow, f.done));
  }
  f.serving = unit;
  if (effect.is_moved) ++(effect.waited ? totals_.waited : totals_.seamless);
  if (effect.is_moved && !effect.waited && world.dead != World::kNobody) {
    ++totals_.seen;
  }
}

void WorldRules::Run(World::Flow& f, const Effect& effect) {
  const bool is_timer = effect.kind == Effect::Kind::kRanTimer;
  const std::string name = is_timer ? "a timer of " + Name(effect.flow, f.done)
                                    : Name(effect.flow, effect.clock);
  if (effect.value != f.digest) {
    Fail("I2: " + name + " runs on a state that is not the last");
  }
  if (is_timer && f.has_timer == 0) Fail("I1: " + name + " runs again");
  f.digest = Extended(effect.value, effect.flow,
                      is_timer ? kTimerClock : effect.clock);
  if (is_timer) f.has_timer = 0;
  if (effect.sets_timer) f.has_timer = 1;
  totals_.timers += is_timer ? 1 : 0;
}

void WorldRules::CountSent(const Message& message) {
  using Kind = Message::Kind;
  totals_.pulls += message.kind == Kind::kPull ? 1 : 0;
  totals_.takeovers += message.kind == Kind::kTakeover ? 1 : 0;
  totals_.pushes += message.kind == Kind::kPush ? 1 : 0;
  totals_.answers +=
      message.kind == Kind::kState || message.kind == Kind::kNamed ? 1 : 0;
}

void WorldRules::Send(World& world, uint16_t message) {
  SNF_CHECK(world.messages < World::kMaxMessages);
  const auto end = world.in_flight.begin() + world.messages++;
  const auto place = std::upper_bound(world.in_flight.begin(), end, message);
  std::shift_right(place, end + 1, 1);
  *place = message;
}

void WorldRules::Remove(World& world, uint16_t message) {
  const auto end = world.in_flight.begin() + world.messages;
  const auto place = std::lower_bound(world.in_flight.begin(), end, message);
  SNF_CHECK(place != end && *place == message);
  std::shift_left(place, end, 1);
  world.in_flight[--world.messages] = 0;
}

void WorldRules::Fail(std::string what) {
  if (wrong_.empty()) wrong_ = std::move(what);
}

std::string WorldRules::CheckRan(const World& world) const {
  for (uint8_t flow = 0; flow < configuration_.flows; ++flow) {
    const World::Flow& f = world.flows[flow];
    if (f.done + 1 != f.next) {
      return "I7: " + Name(flow, f.done + uint8_t{1}) + " never runs";
    }
    if (configuration_.has_loggers && f.released < f.done) {
      return "I7: " + Name(flow, f.released + uint8_t{1}) + " never leaves";
    }
  }
  for (uint8_t unit = 0; unit < configuration_.units; ++unit) {
    if (unit != world.dead && states_.facts(world.units[unit]).held > 0) {
      return "I7: " + UnitName(unit) + " holds packets for ever";
    }
  }
  return {};
}

std::string WorldRules::CheckQuiet(const World& world) const {
  // Packets wait for a timer only where something was lost, or forgotten.
  const bool may_wait = world.losses < configuration_.losses ||
                        world.repeats < configuration_.repeats;
  return may_wait ? "" : CheckRan(world);
}

std::string WorldRules::CheckSettled(const World& world) const {
  if (std::string wrong = CheckRan(world); !wrong.empty()) return wrong;
  std::array<uint8_t, 3> owned{};
  for (uint8_t flow = 0; flow < configuration_.flows; ++flow) {
    const World::Flow& f = world.flows[flow];
    if (f.next == 1 || f.is_over != 0) continue;
    ++owned[f.owner];
    if (f.has_timer != 0) return "I7: the timer of a flow is lost";
  }
  for (uint8_t unit = 0; unit < configuration_.units; ++unit) {
    if (unit == world.dead) continue;  // its logger has its flows
    const UnitStates::Facts& facts = states_.facts(world.units[unit]);
    const int kept = facts.flows - facts.replicas;
    if (kept < owned[unit]) {
      return "I5: the state of a flow of " + UnitName(unit) + " is lost";
    }
    if (kept > owned[unit]) {
      return "U7: " + UnitName(unit) + " keeps a flow of others for ever";
    }
    if (unit == world.leaving && owned[unit] == 0 && world.has_stopped == 0) {
      return "U8: " + UnitName(unit) + " never stops";
    }
  }
  return {};
}

uint64_t WorldRules::Look(World world) const {
  for (uint32_t& unit : world.units) {
    const UnitStates::Facts& facts = states_.facts(unit);
    unit = uint32_t{facts.flows} | uint32_t{facts.replicas} << 8 |
           uint32_t{facts.held} << 16 | uint32_t{facts.busy} << 24;
  }
  uint64_t sum = 0;  // of what is under way, whatever its numbers
  for (uint8_t i = 0; i < world.messages; ++i) {
    const Message& m = states_.message(world.in_flight[i]);
    sum += Mix(static_cast<uint64_t>(m.kind) | uint64_t{m.to} << 8 |
                   uint64_t{m.flow} << 16 | uint64_t{m.clock} << 24 |
                   uint64_t{m.peer} << 32,
               m.record[1]);
  }
  world.in_flight = {};
  for (auto& flows : world.shown) {
    for (uint16_t& number : flows) {
      if (number == 0) continue;
      const Message& m = states_.message(number - 1);
      sum += Mix(m.peer | uint64_t{m.flow} << 8 | uint64_t{m.clock} << 16,
                 m.record[1] ^ 1);
      number = 0;
    }
  }
  return Mix(HashOf(world), sum);
}

uint64_t HashOf(const World& world) {
  std::array<uint64_t, sizeof world / 8> words;
  std::memcpy(words.data(), &world, sizeof world);
  uint64_t hash = 0;
  for (const uint64_t word : words) hash = Mix(hash, word);
  return hash;
}

void WorldRules::Tell(uint8_t unit, const Effect& effect) {
  using Kind = Effect::Kind;
  const std::string name = Name(effect.flow, effect.clock);
  std::string text;
  if (effect.kind == Kind::kSend) {
    const Message& message = states_.message(effect.message);
    text = " sends " + Name(message) + " to " + UnitName(message.to);
  } else if (effect.kind == Kind::kShow) {
    text = " shows " + Name(states_.message(effect.message));
  } else if (effect.kind == Kind::kServe) {
    text = " runs " + name;
  } else if (effect.kind == Kind::kDone) {
    text = " is done with " + name;
  } else if (effect.kind == Kind::kDuplicate) {
    text = " drops " + name;
  } else if (effect.kind == Kind::kAskTimer) {
    text = " asks for a timer packet after " + name;
  } else if (effect.kind == Kind::kStopped) {
    text = " has stopped";
  } else if (effect.kind == Kind::kEvicted) {
    text = " evicts a replica";
  } else if (effect.kind == Kind::kExpired) {
    text = " forgets a replica";
  } else if (effect.kind == Kind::kForgotten) {
    text = " forgets a Pull";
  } else {
    return;
  }
  *story_ += "; " + UnitName(unit) + text;
}

std::string WorldRules::Describe(World world, const Action& action) {
  using Kind = Action::Kind;
  const std::string unit = UnitName(action.unit);
  const World::Flow& f = world.flows[action.flow];
  const std::string clock = Name(action.flow, f.next);
  std::string story;
  switch (action.kind) {
    case Kind::kRoute:
      story = clock + " to " + unit;
      break;
    case Kind::kRouteFirst:
      story = clock + ", first, to " + unit;
      if (f.next > 1) story += ", from " + UnitName(f.owner);
      break;
    case Kind::kRouteNull:
      story = clock + ", null, to " + unit + ", from " + UnitName(f.owner);
      break;
    case Kind::kRouteTimer:
      story = clock + ", timer, to " + unit + ", from " + UnitName(f.owner);
      break;
    case Kind::kEnd:
      story = "flow " + clock.substr(0, 1) + " is over";
      break;
    case Kind::kLeave:
      story = unit + " is to stop";
      break;
    case Kind::kStart:
      story = unit + " starts again";
      break;
    case Kind::kDie:
      story = unit + " fails";
      break;
    case Kind::kDeliver:
      story = unit + "'s channel";
      break;
    case Kind::kBegin:
      story = unit + " begins";
      break;
    case Kind::kFinish:
      story = unit + " finishes";
      break;
    case Kind::kTimer:
      story = "time passes at " + unit;
      break;
    case Kind::kRelease:
      story = unit + "'s logger lets out its first entry";
      break;
    case Kind::kQuiet:
      story = "time passes";
      break;
    default: {
      const Message& m = states_.message(action.message);
      story = Name(m) + (action.kind == Kind::kLose        ? " is lost"
                         : action.kind == Kind::kDuplicate ? " is doubled"
                                                           : " arrives");
      story += " at " + UnitName(m.to);
      break;
    }
  }
  story_ = &story;
  const Totals totals = totals_;
  const std::string wrong = Take(world, action);
  totals_ = totals;
  story_ = nullptr;
  return wrong.empty() ? story : story + "\n     " + wrong;
}

}  // namespace snf
