// SPDX-License-Identifier: Apache-2.0
//
// Tests of the units that get a flow's state ahead of its next flowlet, of the
// time from which they count, and of the owner history.
#include <optional>
#include <vector>

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr Nanos kGap = Milliseconds(1);
constexpr Nanos kNanosecond{1};
constexpr UnitId kU0{0}, kU1{1}, kU2{2};

ControllerOptions Options(uint32_t units, uint32_t replicas) {
  ControllerOptions options;
  options.max_flows = 1'000;
  options.max_units = units;
  options.warm_units = units;
  options.replicas = replicas;
  options.replica_choice = ReplicaChoice::kDeterministic;
  options.flow_timeout = Seconds(5);
  options.unit_idle_timeout = Milliseconds(20);
  return options;
}

std::vector<UnitId> UnitsOf(const ReplicaSet& set) {
  return {set.span().begin(), set.span().end()};
}

// A controller with a directed policy, all of whose units are active: each got
// a packet of another flow. The test's flow is 1.
class ReplicaTest : public testing::Test {
 protected:
  void Start(const ControllerOptions& options) {
    driver_.emplace(options, policy_);
    for (uint32_t i = 0; i < options.max_units; ++i) {
      policy_.unit = TestDriver::Id(i);
      driver_->Packet(kStart, 100 + i);
    }
    driver_->ReadyAll(kStart);
    driver_->DrainAll(kStart);
  }
  // Sends a packet of flow 1. If it begins a flowlet, that goes to `unit`.
  Commands Packet(Instant at, UnitId unit, uint32_t length = 100) {
    policy_.unit = unit;
    const Commands commands = driver_->Packet(at, 1, length);
    driver_->ReadyAll(at);
    driver_->DrainAll(at);
    return commands;
  }
  // The replicas that the last decision counted.
  std::vector<UnitId> Counted() const { return UnitsOf(policy_.last.replicas); }

  DirectedPolicy policy_;
  std::optional<TestDriver> driver_;
};

TEST_F(ReplicaTest, AreNamedRightBeforeAFlowletsFirstPacketAndNoOther) {
  Start(Options(4, 2));
  const Commands first = Packet(kStart, kU1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].kind, Kind::kReplicas);
  EXPECT_EQ(first[0].unit, kU1);
  EXPECT_EQ(first[0].replicas.flow, first[1].meta.flow);
  EXPECT_EQ(UnitsOf(first[0].replicas), (std::vector<UnitId>{kU0, kU2}));
  EXPECT_EQ(first[1].kind, Kind::kEnqueue);
  EXPECT_EQ(Packet(kStart, kU1).size(), 1u);
  const Commands second = Packet(kStart + kGap, kU0);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].unit, kU0);
  EXPECT_EQ(UnitsOf(second[0].replicas), (std::vector<UnitId>{kU1, kU2}));
}

TEST_F(ReplicaTest, TellWhyAFlowletThatMovesHasNoStateAtItsUnit) {
  ControllerOptions options = Options(4, 2);
  Start(options);
  const auto causes = [this] {
    const ControllerCounters& c = driver_->counters();
    return std::vector<uint64_t>{c.flowlets_moved, c.moved_without_replica,
                                 c.moved_elsewhere, c.moved_too_soon};
  };
  Packet(kStart, kU1);         // replicas at 0 and 2
  Packet(kStart + kGap, kU0);  // a replica has landed
  EXPECT_EQ(causes(), (std::vector<uint64_t>{1, 0, 0, 0}));
  const Instant third = kStart + kGap + kGap;
  Packet(third, TestDriver::Id(3));  // they are at 1 and 2
  EXPECT_EQ(causes(), (std::vector<uint64_t>{2, 0, 1, 0}));
  // After a full flowlet, the next one comes at once.
  Packet(third, TestDriver::Id(3), 14'800);
  Packet(third, kU0, 200);
  EXPECT_EQ(causes(), (std::vector<uint64_t>{3, 0, 1, 1}));
}

TEST_F(ReplicaTest, AFlowletThatMovesWithoutAReplicaIsCounted) {
  Start(Options(3, 0));
  Packet(kStart, kU1);
  Packet(kStart + kGap, kU0);
  EXPECT_EQ(driver_->counters().flowlets_moved, 1u);
  EXPECT_EQ(driver_->counters().moved_without_replica, 1u);
}

TEST_F(ReplicaTest, AreNamedForTheFirstPacketThatFindsASlot) {
  ControllerOptions options = Options(3, 2);
  options.unit_queue_packets = options.start_buffer_packets = 1;
  Start(options);
  policy_.unit = kU1;
  driver_->Packet(kStart, 101);
  EXPECT_EQ(driver_->Packet(kStart, 1)[0].kind, Kind::kDrop);
  EXPECT_EQ(driver_->Packet(kStart + kGap, 1).size(), 1u);
  EXPECT_TRUE(Counted().empty());  // none was ever told to a unit
  driver_->DrainAll(kStart + kGap);
  EXPECT_EQ(Packet(kStart + kGap, kU1).size(), 2u);
}

TEST_F(ReplicaTest, AreNotNamedWhereNoneAreWanted) {
  for (const uint32_t replicas : {0u, 3u}) {
    ControllerOptions options = Options(3, replicas);
    if (replicas > 0) options.replica_choice = ReplicaChoice::kNone;
    Start(options);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Packet(kStart + Milliseconds(i), kU1).size(), 1u);
      EXPECT_TRUE(Counted().empty());
    }
  }
}

TEST_F(ReplicaTest, AreNotNamedWhereFlowsStay) {
  for (const char* policy : {"vanilla_flow", "hash"}) {
    TestDriver driver(Options(3, 2), *FindPlacementPolicy(policy));
    for (uint32_t i = 0; i < 9; ++i) {
      driver.Packet(kStart + Milliseconds(i), i % 3);
      driver.ReadyAll(kStart + Milliseconds(i));
      driver.DrainAll(kStart + Milliseconds(i));
    }
    EXPECT_EQ(driver.replica_sets, 0u) << policy;
    EXPECT_EQ(driver.controller().replicas(), 0u);
  }
  Start(Options(3, 2));
  EXPECT_EQ(driver_->controller().replicas(), 2u);
}

TEST_F(ReplicaTest, AreTakenBackOnceWhereNoOtherUnitIsLeft) {
  Start(Options(2, 2));
  EXPECT_EQ(Packet(kStart, kU1).size(), 2u);
  const auto go_on_until = [&](Instant end) {
    for (Instant at = kStart; at < end; at = at + Milliseconds(5)) {
      driver_->RunTimers(at);
      driver_->Packet(at, 101);
      driver_->DrainAll(at);
    }
  };
  const Instant alone = kStart + Milliseconds(40);
  go_on_until(alone);
  ASSERT_EQ(driver_->state(kU0), UnitState::kWarm);
  const Commands taken_back = Packet(alone, kU1);
  ASSERT_EQ(taken_back.size(), 2u);
  EXPECT_EQ(taken_back[0].kind, Kind::kReplicas);
  EXPECT_EQ(taken_back[0].replicas.count, 0u);
  EXPECT_EQ(Packet(alone + kGap, kU1).size(), 1u);
  EXPECT_TRUE(Counted().empty());
}

TEST_F(ReplicaTest, CountAfterAGapOfHalfTheTimeoutAndThePush) {
  ControllerOptions options = Options(3, 2);
  options.push_delay = Microseconds(400);  // 250 + 400 = 650 > 500
  Start(options);
  Packet(kStart, kU1);
  Instant at = kStart + Microseconds(650) + Nanos{-1};
  Packet(at, kU1);
  EXPECT_TRUE(Counted().empty());
  at = at + Microseconds(650);
  Packet(at, kU0);
  EXPECT_EQ(Counted(), (std::vector<UnitId>{kU0, kU2}));
  at = at + Microseconds(650);
  Packet(at, kU0);
  EXPECT_EQ(Counted(), (std::vector<UnitId>{kU1, kU2}));
}

TEST_F(ReplicaTest, CountAfterAnyGapWhereThePushIsQuick) {
  Start(Options(3, 2));  // 250 + 200 < 500
  Packet(kStart, kU1);
  Packet(kStart + Microseconds(500) + kNanosecond, kU1);
  EXPECT_EQ(Counted(), (std::vector<UnitId>{kU0, kU2}));
}

TEST_F(ReplicaTest, DoNotCountAfterACutByBytes) {
  Start(Options(3, 2));
  Packet(kStart, kU1, 15'000);
  Packet(kStart + Microseconds(500), kU1, 1);
  EXPECT_EQ(driver_->counters().flowlets_by_bytes, 1u);
  EXPECT_TRUE(Counted().empty());
}

TEST_F(ReplicaTest, AreRememberedHoweverMany) {
  for (uint32_t replicas = 1; replicas <= kMaxReplicas; ++replicas) {
    Start(Options(kMaxReplicas + 1, replicas));
    const Commands commands = Packet(kStart, kU0);
    // Replicas of another flow must not interfere.
    policy_.unit = UnitId{kMaxReplicas};
    driver_->Packet(kStart + kGap, 100);
    ASSERT_EQ(commands[0].replicas.count, replicas);
    Packet(kStart + kGap, kU0);
    EXPECT_EQ(Counted(), UnitsOf(commands[0].replicas));
  }
}

TEST_F(ReplicaTest, OfAnEndedFlowAreNoneOfTheNextInItsSlot) {
  Start(Options(3, 2));
  const FlowId before = Packet(kStart, kU1)[1].meta.flow;
  const Instant later = kStart + Seconds(6);
  driver_->RunTimers(later);
  policy_.unit = kU0;  // the only one in use: it has no others to name
  for (uint32_t flow = 2; flow < 6; ++flow) {
    const Commands commands = driver_->Packet(later, flow);
    EXPECT_TRUE(Only(Kind::kReplicas, commands).empty());
    if (slot_of(commands.back().meta.flow) == slot_of(before)) return;
  }
  ADD_FAILURE() << "the slot was not used again";
}

std::vector<UnitId> AllReplicas(uint64_t seed) {
  ControllerOptions options = Options(12, 3);
  options.replica_choice = ReplicaChoice::kWeighted;
  options.seed = seed;
  options.unit_capacity_bps = 20'000'000;
  TestDriver driver(options);
  std::vector<UnitId> all;
  Instant now = kStart;
  for (int i = 0; i < 200; ++i, now = now + kGap) {
    for (const auto& command :
         driver.Packet(now, static_cast<uint32_t>(i % 20), 14'000)) {
      if (command.kind != Kind::kReplicas) continue;
      const auto units = command.replicas.span();
      all.insert(all.end(), units.begin(), units.end());
    }
    driver.ReadyAll(now);
  }
  EXPECT_GT(all.size(), 100u);
  return all;
}

TEST(Replicas, AreTheSameForTheSameSeedOnly) {
  EXPECT_EQ(AllReplicas(1), AllReplicas(1));
  EXPECT_NE(AllReplicas(1), AllReplicas(2));
}

// --- What else a policy is told ----------------------------------------------

TEST_F(ReplicaTest, PolicyIsToldTheSameHashWhateverTheTablesSeed) {
  ControllerOptions options = Options(2, 0);
  Start(options);
  Packet(kStart, kU0);
  EXPECT_EQ(policy_.last.key_hash, Hash(Flow(1)));
  options.hash_seed = 77;
  Start(options);
  Packet(kStart, kU0);
  EXPECT_EQ(policy_.last.key_hash, Hash(Flow(1)));
}

TEST_F(ReplicaTest, PolicyIsToldAFlowsFirstFlowletOfEachPeriod) {
  ControllerOptions options = Options(2, 0);
  options.reassign_period = Milliseconds(100);
  Start(options);
  const auto is_new = [&](int64_t milliseconds) {
    Packet({kStart.ns + Milliseconds(milliseconds).ns}, kU0);
    return policy_.last.new_period;
  };
  EXPECT_TRUE(is_new(10));
  EXPECT_FALSE(is_new(20));
  EXPECT_FALSE(is_new(99));
  EXPECT_TRUE(is_new(100));
  EXPECT_FALSE(is_new(199));
  EXPECT_TRUE(is_new(1'150));
  EXPECT_FALSE(is_new(1'199));
  // A flow that was silent when the period of others began.
  policy_.unit = kU0;
  driver_->Packet(kStart + Milliseconds(1'205), 100);
  driver_->DrainAll(kStart + Milliseconds(1'205));
  EXPECT_TRUE(is_new(1'210));
}

TEST_F(ReplicaTest, PolicyIsToldPeriodsOnAGridAlsoBefore1970) {
  ControllerOptions options = Options(1, 0);
  options.reassign_period = Milliseconds(100);
  driver_.emplace(options, policy_);
  const auto is_new = [&](int64_t milliseconds) {
    Packet({Milliseconds(milliseconds).ns}, kU0);
    return policy_.last.new_period;
  };
  EXPECT_TRUE(is_new(-250));
  EXPECT_FALSE(is_new(-201));
  EXPECT_TRUE(is_new(-200));
  EXPECT_FALSE(is_new(-101));
  EXPECT_TRUE(is_new(-1));
  EXPECT_TRUE(is_new(0));
  EXPECT_FALSE(is_new(99));
}

TEST_F(ReplicaTest, PolicyThatWantsItDecidesForEveryPacket) {
  policy_.each_packet = true;
  Start(Options(3, 2));
  for (uint32_t i = 1; i <= 6; ++i) {
    const Commands commands = Packet(kStart, TestDriver::Id(i % 3), 0);
    EXPECT_EQ(commands.back().unit, TestDriver::Id(i % 3));
    EXPECT_EQ(commands.back().meta.flowlet, i);
    EXPECT_TRUE(Counted().empty());
  }
  EXPECT_EQ(driver_->counters().flowlets_by_bytes, 5u);
}

// --- The owner history -------------------------------------------------------

class ControllerOwnersTest : public ReplicaTest {
 protected:
  // Clocks 1 and 2 at unit 1, 3 at unit 0, 4 and 5 at unit 2, 6 at unit 1.
  void SetUp() override {
    Start(Options(3, 2));
    flow_ = Packet(kStart, kU1).back().meta.flow;
    Packet(kStart, kU1);
    Packet(kStart + kGap, kU0);
    Packet(kStart + Milliseconds(2), kU2);
    Packet(kStart + Milliseconds(4), kU2);
    Packet(kStart + Milliseconds(6), kU1);
  }
  // The last clock and the unit of each run, in one number.
  std::vector<uint64_t> Runs() const {
    std::vector<uint64_t> runs;
    const OwnerHistory& owners = driver_->controller().owners();
    for (uint32_t i = 0; i < owners.runs(slot_of(flow_)); ++i) {
      const OwnerHistory::Run run = owners.run(slot_of(flow_), i);
      runs.push_back(value(run.last) * 10 + value(run.unit));
    }
    return runs;
  }
  void Takeover(uint64_t clock, UnitId taker) {
    driver_->controller().on_takeover({flow_, Clock{clock}, taker});
  }
  uint64_t unknown() const {
    return driver_->counters().takeovers_refused_unknown;
  }
  uint64_t future() const {
    return driver_->counters().takeovers_refused_future;
  }

  FlowId flow_{};
};

TEST_F(ControllerOwnersTest, HoldsWhereAFlowsClocksRan) {
  EXPECT_EQ(Runs(), (std::vector<uint64_t>{21, 30, 52}));
  driver_->ExpectOwnersAgree();
}

TEST_F(ControllerOwnersTest, IsShortenedByWhatIsTaken) {
  Takeover(3, kU0);
  EXPECT_EQ(Runs(), (std::vector<uint64_t>{30, 52}));
  Takeover(3, kU0);
  Takeover(2, kU0);
  EXPECT_EQ(Runs(), (std::vector<uint64_t>{30, 52}));
  Takeover(6, kU1);
  EXPECT_TRUE(Runs().empty());
  EXPECT_EQ(unknown() + future(), 0u);
}

TEST_F(ControllerOwnersTest, IsNotTouchedByATakeOfAClockThatWasNotGivenYet) {
  Takeover(7, kU1);
  EXPECT_EQ(Runs().size(), 3u);
  EXPECT_EQ(future(), 1u);
  Takeover(6, kU1);
  EXPECT_EQ(future(), 1u);
  EXPECT_EQ(unknown(), 0u);
}

TEST_F(ControllerOwnersTest, RefusesATakeOfAFlowThatItDoesNotKnow) {
  Controller& controller = driver_->controller();
  const uint32_t slot = slot_of(flow_);
  controller.on_takeover({MakeFlowId(1, slot, 0), Clock{3}, kU0});
  controller.on_takeover({MakeFlowId(0, slot, 1), Clock{3}, kU0});
  controller.on_takeover({MakeFlowId(0, 900, 0), Clock{1}, kU0});
  controller.on_takeover({MakeFlowId(0, 0xffff'ffff, 0), Clock{1}, kU0});
  controller.on_takeover({kNoFlow, Clock{1}, kU0});
  EXPECT_EQ(unknown(), 5u);
  EXPECT_EQ(Runs().size(), 3u);
}

TEST_F(ControllerOwnersTest, EndsWithItsFlow) {
  driver_->RunTimers(kStart + Seconds(6));
  EXPECT_EQ(driver_->controller().owners().size(), 0u);
  Takeover(6, kU1);
  // The id that the slot's next flow will have is not known yet.
  driver_->controller().on_takeover(
      {MakeFlowId(0, slot_of(flow_), 1), Clock{0}, kU0});
  EXPECT_EQ(unknown(), 2u);
}

TEST_F(ControllerOwnersTest, IsAsLongAsItsLimitAllows) {
  ControllerOptions options = Options(2, 0);
  options.max_owner_runs = 3;
  Start(options);
  for (uint32_t i = 1; i <= 10; ++i) {
    flow_ = Packet(kStart + Milliseconds(i), TestDriver::Id(i % 2))
                .back()
                .meta.flow;
  }
  EXPECT_EQ(Runs(), (std::vector<uint64_t>{71, 80, 91}));
  EXPECT_EQ(driver_->controller().owners().forgotten(), 6u);
}

}  // namespace
}  // namespace snf
