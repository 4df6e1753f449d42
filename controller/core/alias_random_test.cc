// SPDX-License-Identifier: Apache-2.0
//
// Compares random schedules of aliases, notes, idle times and pieces with a
// model of maps that looks at everything each time.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "controller/core/test_driver.h"
#include "controller/core/test_pieces.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr Nanos kTick{1 << TimingWheel::kTickShift};
constexpr uint16_t kPorts = 24;
constexpr uint32_t kUnits = 5;

struct Totals {
  uint64_t by_alias = 0, no_alias = 0, granted = 0, replaced = 0, conflict = 0,
           group_full = 0, unknown = 0, future = 0, stale = 0, alias_kept = 0,
           over = 0, lived_on = 0, shorter = 0, longer = 0, stale_idle = 0,
           idled_out = 0, null_packets = 0, moved = 0, blocks = 0, waited = 0,
           refused = 0, rounds = 0, unanswered = 0, stopped_in_round = 0,
           faulty = 0, faulty_messages = 0, from_flows = 0;
};
Totals t;

struct ModelFlow {
  FlowKey key;
  uint64_t clock = 0;
  // The flow's last packet came between these times. Packets that found no slot
  // count too, but the test cannot see whether the flow was known then.
  Instant earliest, latest;
  UnitId owner = kNoUnit;
  std::optional<FlowKey> alias;
  uint64_t alias_clock = 0;
  uint64_t group = 0;
  std::optional<Nanos> idle;
  uint64_t idle_clock = 0;
};

ControllerOptions RandomOptions(Rng& rng) {
  ControllerOptions options;
  options.flowlet_timeout = Microseconds(rng.Uniform(50, 500));
  options.flowlet_bytes = 5'000;
  options.flow_timeout = Milliseconds(rng.Uniform(10, 40));
  options.max_flows = static_cast<uint32_t>(rng.Uniform(5, 30));
  options.max_units = kUnits;
  options.warm_units = static_cast<uint32_t>(rng.Below(3));
  options.unit_capacity_bps = 20'000'000 << rng.Below(4);
  options.unit_idle_timeout = Milliseconds(rng.Uniform(1, 8));
  options.keep_warm = Milliseconds(rng.Uniform(0, 12));
  options.evacuate_slots = static_cast<uint32_t>(rng.Uniform(1, 30));
  return options;
}

class Schedule {
 public:
  Schedule(uint64_t seed, const ControllerOptions& options)
      : rng_(seed),
        options_(options),
        driver_(options),
        pieces_(rng_.Fork(1), options.max_units, driver_) {
    driver_.expect_each = seed % 3;
  }

  void Run(size_t steps) {
    for (size_t step = 0; step < steps && !testing::Test::HasFailure();
         ++step) {
      event_at_ = now_;
      now_ = now_ + Nanos{rng_.Chance(300)
                              ? rng_.Uniform(0, Milliseconds(60).ns)
                              : rng_.Exponential(Microseconds(200).ns)};
      if (rng_.Chance(50'000)) RunTimers();
      event_at_ = now_;
      PlayUnits();
      SendBurst();
      SetAlias();
      if (rng_.Chance(10'000)) Say();
      pieces_.Play(now_);
      if (const auto said = SomeFlow(); said && said->model != nullptr) {
        pieces_.TakeIntoFlow(said->flow, said->model->owner);
      }
      if (step % 8 == 0) Check();
    }
    if (!testing::Test::HasFailure()) Finish();
  }

 private:
  using Flows = std::map<uint64_t, ModelFlow>;

  // --- Packets and time

  Flows::iterator FlowOf(const Arrival& arrival) {
    return std::ranges::find_if(flows_, [&](const auto& entry) {
      return arrival.by_alias ? entry.second.alias == arrival.key
                              : entry.second.key == arrival.key;
    });
  }

  void SendBurst() {
    std::vector<Arrival> burst(rng_.Below(rng_.Chance(1'000) ? 100 : 8));
    for (Arrival& arrival : burst) {
      arrival.time = now_ + Nanos{-rng_.Exponential(20'000)};
      arrival.original_length = static_cast<uint32_t>(rng_.Below(1'500));
      arrival.packet = PacketHandle{packets_++};
      arrival.by_alias = rng_.Chance(20'000);
      arrival.key =
          arrival.by_alias
              ? External(static_cast<uint16_t>(rng_.Below(kPorts)))
              : Flow(static_cast<uint32_t>(rng_.Below(options_.max_flows + 2)));
    }
    size_t next = 0;
    for (const ControllerCommand& command : driver_.Send(now_, burst, 40)) {
      if (command.kind != Kind::kEnqueue && command.kind != Kind::kDrop) {
        continue;
      }
      ASSERT_LT(next, burst.size());
      ASSERT_EQ(command.packet, burst[next].packet);
      on_packet(burst[next++], command);
    }
    ASSERT_EQ(next, burst.size());
  }

  void on_packet(const Arrival& arrival, const ControllerCommand& command) {
    const auto found = FlowOf(arrival);
    const bool dropped = command.kind == Kind::kDrop;
    if (found == flows_.end() && arrival.by_alias) {
      ASSERT_TRUE(dropped && command.reason == DropReason::kNoAlias);
      ++t.no_alias;
      return;
    }
    if (dropped) {
      ASSERT_NE(command.reason, DropReason::kNoAlias);
      if (found == flows_.end()) {
        Instant& latest = unseen_[AddressOf(arrival.key)];
        latest = std::max(latest, arrival.time);
      }
    } else if (found == flows_.end()) {
      ModelFlow& flow = flows_[value(command.meta.flow)];
      ASSERT_EQ(flow.clock, 0u);
      flow.key = arrival.key;
      flow.earliest = arrival.time;
      flow.latest = std::max(arrival.time, unseen_[AddressOf(arrival.key)]);
      unseen_.erase(AddressOf(arrival.key));
    } else {
      ASSERT_EQ(value(command.meta.flow), found->first);
      t.by_alias += arrival.by_alias ? 1 : 0;
    }
    if (found != flows_.end()) {
      found->second.earliest = std::max(found->second.earliest, arrival.time);
      found->second.latest = std::max(found->second.latest, arrival.time);
    }
    if (!dropped) on_enqueue(command);
  }
  static uint32_t AddressOf(const FlowKey& key) {
    uint32_t address = 0;
    std::memcpy(&address, &key.source.bytes[12], sizeof address);
    return address;
  }

  void on_enqueue(const ControllerCommand& command) {
    ModelFlow& flow = flows_.at(value(command.meta.flow));
    ASSERT_EQ(value(command.meta.clock), ++flow.clock);
    t.null_packets += command.packet == kNoPacket ? 1 : 0;
    if (flow.owner == command.unit) return;
    t.moved += flow.owner != kNoUnit ? 1 : 0;
    flow.owner = command.unit;
    pieces_.on_flow_moved(command.unit);
  }

  Nanos TimeoutOf(const ModelFlow& flow) const {
    return std::max(flow.idle.value_or(options_.flow_timeout),
                    options_.flowlet_timeout);
  }

  void RunTimers() {
    const Controller& controller = driver_.controller();
    while (controller.next_wakeup() <= now_) {
      event_at_ = std::max(event_at_, controller.next_wakeup());
      Observe(driver_.Timers(event_at_));
      if (testing::Test::HasFailure()) return;
    }
    for (const auto& [id, flow] : flows_) {
      EXPECT_LE(now_ - flow.latest,
                (Instant{TimeoutOf(flow).ns} + Nanos{3 * kTick.ns}) - Instant{})
          << "a flow that should have ended";
    }
    pieces_.ExpectAnswers(now_);
  }

  // Observes commands that answer no message of the test.
  void Observe(const Commands& commands) {
    pieces_.Observe(event_at_, commands);
    for (const ControllerCommand& command : commands) {
      switch (command.kind) {
        case Kind::kEnqueue:
          on_enqueue(command);
          break;
        case Kind::kEndFlow: {
          const ModelFlow& flow = flows_.at(value(command.end.flow));
          EXPECT_GE(event_at_ - flow.earliest, TimeoutOf(flow));
          ++t.idled_out;
          on_end(command);
          break;
        }
        default:
          break;
      }
    }
  }

  void on_end(const ControllerCommand& command) {
    const auto found = flows_.find(value(command.end.flow));
    const ModelFlow& flow = found->second;
    ASSERT_EQ(command.unit, flow.owner);
    ASSERT_EQ(value(command.end.last), flow.clock);
    pieces_.on_flow_end(command.end.flow, command.unit);
    last_id_ = found->first;
    flows_.erase(found);
  }

  // --- What units say of flows

  // A flow and a clock, mostly ones that exist.
  struct Said {
    FlowId flow{};
    Clock clock{};
    ModelFlow* model = nullptr;
    bool future = false;
  };
  std::optional<Said> SomeFlow() {
    if (flows_.empty()) return std::nullopt;
    if (rng_.Chance(2'000)) return Said{.flow = FlowId{last_id_}};
    auto flow = flows_.begin();
    std::advance(flow, rng_.Below(flows_.size()));
    Said said{.flow = FlowId{flow->first}, .model = &flow->second};
    const uint64_t newest = flow->second.clock;
    said.clock = Clock{newest - (rng_.Chance(16'384) ? rng_.Below(newest) : 0)};
    said.future = rng_.Chance(1'000);
    if (said.future) said.clock = Clock{newest + 1 + rng_.Below(2)};
    return said;
  }

  AliasResult Expected(const Said& said, const Alias& alias) {
    if (said.model == nullptr || said.future) return AliasResult::kUnknown;
    if (said.model->alias.has_value() &&
        value(said.clock) < said.model->alias_clock) {
      return AliasResult::kUnknown;
    }
    size_t in_group = 0;
    for (const auto& [id, flow] : flows_) {
      if (&flow == said.model || !flow.alias.has_value()) continue;
      if (flow.alias == alias.key) return AliasResult::kConflict;
      in_group += flow.group == alias.group ? 1 : 0;
    }
    return alias.group_limit != 0 && in_group >= alias.group_limit
               ? AliasResult::kGroupFull
               : AliasResult::kGranted;
  }

  void SetAlias() {
    const auto said = SomeFlow();
    if (!said.has_value()) return;
    const Alias alias = {
        .key = External(static_cast<uint16_t>(rng_.Below(kPorts))),
        .flow = said->flow,
        .clock = said->clock,
        .group = rng_.Below(4) << 40,
        .group_limit = static_cast<uint32_t>(rng_.Below(5)),
        .unit = said->model != nullptr ? said->model->owner : UnitId{}};
    if (driver_.state(alias.unit) == UnitState::kStopped) return;
    const AliasResult expected = Expected(*said, alias);
    const Commands commands = driver_.On(
        [&](Controller& c, ControllerOut& out) { c.on_alias(alias, out); });
    ASSERT_EQ(commands.size(), 1u);
    ASSERT_EQ(commands[0].kind, Kind::kAliasAck);
    ASSERT_EQ(commands[0].unit, alias.unit);
    ASSERT_EQ(commands[0].alias_ack.result, expected);
    t.conflict += expected == AliasResult::kConflict ? 1 : 0;
    t.group_full += expected == AliasResult::kGroupFull ? 1 : 0;
    if (expected == AliasResult::kUnknown) {
      ++(said->future             ? t.future
         : said->model == nullptr ? t.unknown
                                  : t.stale);
    }
    if (expected != AliasResult::kGranted) return;
    ++t.granted;
    t.replaced += said->model->alias.has_value() ? 1 : 0;
    said->model->alias = alias.key;
    said->model->group = alias.group;
    said->model->alias_clock = value(alias.clock);
  }

  void Say() {
    const auto said = SomeFlow();
    if (!said.has_value()) return;
    const FlowNote note = {
        .flow = said->flow,
        .clock = said->clock,
        .idle_timeout = {rng_.Chance(20'000)
                             ? -1
                             : rng_.Uniform(0, Milliseconds(80).ns)},
        .over = rng_.Chance(20'000)};
    const Commands commands =
        driver_.On([&](Controller& c, ControllerOut& out) {
          c.on_flow_note(now_, note, out);
        });
    ModelFlow* const flow = said->model;
    if (flow == nullptr || said->future) {
      ++(said->future ? t.future : t.unknown);
      ASSERT_TRUE(commands.empty());
      return;
    }
    if (note.over && flow->alias.has_value()) {
      if (flow->alias_clock <= value(note.clock)) {
        flow->alias.reset();
      } else {
        ++t.alias_kept;
      }
    }
    if (note.over && value(note.clock) == flow->clock) {
      ASSERT_EQ(commands.size(), 1u);
      ASSERT_EQ(commands[0].kind, Kind::kEndFlow);
      ASSERT_EQ(commands[0].end.flow, note.flow);
      ++t.over;
      on_end(commands[0]);
      return;
    }
    t.lived_on += note.over ? 1 : 0;
    ASSERT_TRUE(commands.empty());
    if (note.idle_timeout.ns < 0) return;
    if (flow->idle.has_value() && flow->idle_clock > value(note.clock)) {
      ++t.stale_idle;
      return;
    }
    ++(note.idle_timeout < TimeoutOf(*flow) ? t.shorter : t.longer);
    flow->idle = note.idle_timeout;
    flow->idle_clock = value(note.clock);
  }

  // --- Units

  void PlayUnits() {
    for (uint32_t i = 0; i < kUnits; ++i) {
      const UnitId unit = TestDriver::Id(i);
      switch (driver_.state(unit)) {
        case UnitState::kStarting:
          if (rng_.Chance(12'000)) driver_.Ready(now_, unit);
          break;
        case UnitState::kActive:
          if (rng_.Chance(20'000)) driver_.Drain(now_, unit);
          break;
        case UnitState::kStopping:
          if (driver_.owned(unit) == 0 && rng_.Chance(3'000)) {
            pieces_.Stop(now_, unit);
          }
          break;
        default:
          break;
      }
    }
  }

  // --- Checks

  void Check() {
    driver_.ExpectStatesAgree();
    size_t aliases = 0;
    std::set<uint64_t> groups;
    for (const auto& [id, flow] : flows_) {
      if (!flow.alias.has_value()) continue;
      ++aliases;
      groups.insert(flow.group);
    }
    EXPECT_EQ(driver_.controller().aliases().size(), aliases);
    EXPECT_EQ(driver_.controller().aliases().groups(), groups.size());
    pieces_.Check();
  }

  // Lets time pass without packets: all flows end, and all pieces come back.
  void Finish() {
    for (int round = 0; round < 60; ++round) {
      event_at_ = now_;
      driver_.ReadyAll(now_);
      driver_.DrainAll(now_);
      now_ = now_ + Milliseconds(5);
      RunTimers();
      if (testing::Test::HasFailure()) return;
      event_at_ = now_;
    }
    EXPECT_TRUE(flows_.empty());
    pieces_.ReturnAll(now_);
    Check();
    EXPECT_EQ(driver_.counters().pieces.pieces_out, 0u);
    EXPECT_FALSE(pieces_.HasOpenRequests());
    t.rounds += driver_.counters().pieces.reclaim_rounds;
    t.blocks += pieces_.blocks;
    t.waited += pieces_.waited;
    t.refused += pieces_.refused;
    t.unanswered += pieces_.unanswered;
    t.stopped_in_round += pieces_.stopped_in_round;
    t.faulty += pieces_.faulty;
    t.faulty_messages += pieces_.faulty_messages;
    t.from_flows += pieces_.from_flows;
  }

  Rng rng_;
  ControllerOptions options_;
  TestDriver driver_;
  TestPieces pieces_;
  Instant now_ = kStart;
  Instant event_at_ = kStart;  // `now` of the present event
  uint32_t packets_ = 0;
  Flows flows_;
  std::map<uint64_t, Instant> unseen_;  // last packets of flows not enqueued
  uint64_t last_id_ = value(kNoFlow);   // of a flow that ended
};

TEST(AliasSchedules, AgreeWithTheModel) {
  constexpr uint64_t kSeeds = 500;
  t = {};
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Schedule(seed, RandomOptions(rng)).Run(400);
    if (HasFailure()) return;
  }
  struct Floor {
    const char* what;
    uint64_t happened, floor;
  };
  std::cout << "seeds 1-" << kSeeds << ":";
  for (const auto& [what, happened, floor] : std::initializer_list<Floor>{
           {"packets by alias", t.by_alias, 50'000},
           {"without one", t.no_alias, 50'000},
           {"aliases granted", t.granted, 30'000},
           {"replaced", t.replaced, 20'000},
           {"conflicts", t.conflict, 40'000},
           {"groups full", t.group_full, 20'000},
           {"unknown flows", t.unknown, 3'000},
           {"future clocks", t.future, 1'500},
           {"aliases older than the flow's", t.stale, 1'000},
           {"newer aliases kept", t.alias_kept, 400},
           {"flows over", t.over, 3'000},
           {"lived on", t.lived_on, 1'000},
           {"shorter idle times", t.shorter, 2'500},
           {"longer", t.longer, 4'000},
           {"late", t.stale_idle, 400},
           {"idled out", t.idled_out, 8'000},
           {"null packets", t.null_packets, 1'200},
           {"moves", t.moved, 100'000},
           {"blocks", t.blocks, 13'000},
           {"requests that waited", t.waited, 12'000},
           {"refused", t.refused, 19'000},
           {"rounds", t.rounds, 3'500},
           {"unanswered", t.unanswered, 800},
           {"stops in a round", t.stopped_in_round, 200},
           {"faulty pieces", t.faulty, 800},
           {"faulty messages", t.faulty_messages, 500},
           {"pieces from flows", t.from_flows, 120'000}}) {
    std::cout << ' ' << happened << ' ' << what << ';';
    EXPECT_GT(happened, floor) << what;
  }
  std::cout << '\n';
}

}  // namespace
}  // namespace snf
