// SPDX-License-Identifier: Apache-2.0
// Which copies of state a unit sends ahead, takes, keeps and gives up.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;

UnitOptions SmallUnit(uint32_t hold_packets, uint32_t replicas,
                      uint32_t max_replicas) {
  UnitOptions options = kSmallUnit;
  options.hold_packets = hold_packets;
  options.replicas = replicas;
  options.max_replicas = max_replicas;
  return options;
}

TEST(UnitPush, IsMadeOnceWhenAFlowWasIdleForHalfTheTimeout) {
  TestUnit unit(kA);
  unit.Replicate(1, {kB, kC});
  unit.Send(New(1));
  unit.Serve(Us(100));
  EXPECT_THAT(unit.on_timers(Us(349)), IsEmpty());
  EXPECT_THAT(unit.on_timers(Us(350) + TimerTick()),
              ElementsAre("push 1 applied 1 to 1", "push 1 applied 1 to 2"));
  EXPECT_EQ(unit.states.at(0).record, StateOf(1, 1).record);
  EXPECT_TRUE(unit.states.at(0).state.pushed);
  EXPECT_THAT(unit.on_timers(Ms(500)), IsEmpty());
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
  unit.Send(Within(1, 2));
  unit.Serve(Ms(501));
  EXPECT_THAT(unit.on_timers(Ms(502)),
              ElementsAre("push 1 applied 2 to 1", "push 1 applied 2 to 2"));
}

TEST(UnitPush, IsNotMadeWhileTheFlowGoesOn) {
  TestUnit unit(kA);
  unit.Replicate(1, {kB});
  for (uint64_t clock = 1; clock <= 20; ++clock) {
    unit.Send(clock == 1 ? New(1) : Within(1, clock));
    unit.Serve(Us(200 * static_cast<int64_t>(clock)));
    EXPECT_THAT(unit.on_timers(unit.now + Microseconds(199)), IsEmpty());
  }
  EXPECT_THAT(unit.on_timers(unit.now + Microseconds(100)),
              ElementsAre("push 1 applied 20 to 1"));
}

TEST(UnitPush, IsNotMadeWhileAPacketIsInService) {
  TestUnit unit(kA);
  unit.Replicate(1, {kB});
  unit.Send(New(1));
  unit.Serve();
  unit.Send(Within(1, 2));
  unit.Begin();
  EXPECT_THAT(unit.on_timers(Ms(5)), IsEmpty());
  unit.Finish();
  EXPECT_THAT(unit.on_timers(Ms(5) + Microseconds(249)), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(6)), ElementsAre("push 1 applied 2 to 1"));
}

TEST(UnitPush, IsNotMadeToTheUnitItselfNorToMoreThanK) {
  TestUnit unit(kA, SmallUnit(16, 3, 8));
  unit.Replicate(1, {kA, kB, kC, 3, 4});
  unit.Send(New(1));
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(1)),
              ElementsAre("push 1 applied 1 to 1", "push 1 applied 1 to 2"));
}

TEST(UnitPush, IsNotMadeAtAllWhenKIsZero) {
  TestUnit unit(kA, SmallUnit(16, 0, 8));
  unit.Replicate(1, {kB});
  EXPECT_EQ(unit.unit.flows(), 0u);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
  EXPECT_THAT(unit.on_timers(Ms(1)), IsEmpty());
}

TEST(UnitPush, GoesToAllOfTheGreatestK) {
  TestUnit unit(kA, SmallUnit(16, kMaxReplicas, 8));
  ReplicaSet set = {.flow = FlowId{1}, .count = kMaxReplicas};
  for (uint16_t i = 0; i < kMaxReplicas; ++i) set.units.at(i) = UnitId(i + 1);
  unit.unit.on_replicas(set);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(1)), SizeIs(kMaxReplicas));
}

TEST(UnitPush, GoesToTheUnitsNamedLast) {
  TestUnit unit(kA);
  unit.Replicate(1, {kB, kC});
  unit.Send(New(1));
  unit.Serve();
  unit.Replicate(1, {kC});
  unit.Send(First(1, 2, kA));
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(1)), ElementsAre("push 1 applied 2 to 2"));
  unit.Replicate(1, {});
  unit.Send(First(1, 3, kA));
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(2)), IsEmpty());
}

TEST(UnitPush, IsMadeOfStateThatCameFromElsewhere) {
  TestUnit unit(kB);
  unit.on_push(1, 2);
  unit.Replicate(1, {kA, kC});
  unit.Send(Null(First(1, 3, kA)));
  unit.Serve();
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_THAT(unit.on_timers(Ms(1)),
              ElementsAre("push 1 applied 3 to 0", "push 1 applied 3 to 2"));
  EXPECT_EQ(unit.states.at(0).record, StateOf(1, 2).record);
}

TEST(UnitPush, IsNotMadeOfACopyThatWasGiven) {
  TestUnit unit(kA);
  unit.Replicate(1, {kB});
  unit.Send(New(1));
  unit.Serve();
  unit.on_pull(1, 1, kC);
  EXPECT_THAT(unit.on_timers(Ms(1)), IsEmpty());
}

// The controller names the units ahead of a packet that is queued; meanwhile
// what was kept of the flow goes.
TEST(UnitPush, GoesToTheUnitsNamedThoughTheCopyBeforeWasTaken) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  unit.on_pull(1, 1, kC);
  unit.Replicate(1, {kB}, /*flowlet=*/1);
  PacketMeta first = First(1, 4, kC);
  first.flowlet = 1;
  unit.Send(first);
  unit.on_takeover(1, 2, kC);
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 3 from 2"));
  unit.on_state(1, 3);
  unit.Serve();
  unit.on_takeover_ack(1, 4, kC);
  EXPECT_THAT(unit.on_timers(Ms(1)), ElementsAre("push 1 applied 4 to 1"));
}

TEST(UnitReplica, ThatIsKeptForEverIsSoBefore1970) {
  UnitOptions options = kSmallUnit;
  options.replica_lifetime = Nanos::max();
  TestUnit unit(kA, options);
  unit.now = Instant{-5};
  unit.on_push(1, 2);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitPush, GoesToTheUnitsNamedThoughTheReplicaWasEvicted) {
  TestUnit unit(kA, SmallUnit(16, 3, 1));
  unit.on_push(1, 3);
  unit.Replicate(1, {kB});
  unit.Send(First(1, 4, kC));
  unit.on_push(2, 7);
  EXPECT_EQ(unit.unit.counters().replicas_evicted, 1u);
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 3 from 2"));
  unit.on_state(1, 3);
  unit.Serve();
  unit.on_takeover_ack(1, 4, kC);
  EXPECT_THAT(unit.on_timers(Ms(1)), ElementsAre("push 1 applied 4 to 1"));
}

TEST(UnitReplica, LetsAFlowletStartAtOnce) {
  TestUnit unit(kB);
  EXPECT_THAT(unit.on_push(1, 2), IsEmpty());
  EXPECT_EQ(unit.unit.replicas(), 1u);
  unit.Send(First(1, 3, kA));
  EXPECT_THAT(unit.Begin(), ElementsAre("service 1/3"));
  EXPECT_EQ(unit.unit.in_service_wait(), Unit::kNeverHeld);
  EXPECT_THAT(unit.Finish(), ElementsAre("release 1/3", "took 1/3 to 0"));
  EXPECT_EQ(unit.CountOf(1), 3u);
  EXPECT_EQ(unit.unit.replicas(), 0u);
  EXPECT_EQ(unit.unit.flows(), 1u);
}

TEST(UnitReplica, IsOfNoUseWhenThePacketNeedsAnotherClock) {
  for (const uint64_t clock : {3, 5}) {
    TestUnit unit(kB);
    unit.on_push(1, clock);
    unit.Send(First(1, 7, kA));
    EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 6 from 0"));
    unit.on_state(1, 6);
    EXPECT_EQ(unit.Serve().at(0), "release 1/7");
    EXPECT_EQ(unit.CountOf(1), 7u);
  }
}

TEST(UnitReplica, ComingWhileItsPacketPullsIsTaken) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Send(New(2));
  EXPECT_THAT(unit.Begin(), ElementsAre("pull 1 need 2 from 0", "service 2/1"));
  unit.now = Us(70);
  unit.on_push(1, 2);
  unit.Finish();
  EXPECT_THAT(unit.Begin(), ElementsAre("service 1/3"));
  EXPECT_EQ(unit.unit.in_service_wait(), Microseconds(70));
  unit.on_state(1, 2);  // the answer, which comes too late
  EXPECT_EQ(unit.refused(StateRefusal::kStale), 1u);
  EXPECT_EQ(unit.Finish().at(0), "release 1/3");
  EXPECT_EQ(unit.CountOf(1), 3u);
}

TEST(UnitReplica, IsReplacedByANewerOneOnly) {
  TestUnit unit(kB);
  for (const uint64_t applied : {4, 4, 3, 6, 5, 6, 1}) unit.on_push(1, applied);
  EXPECT_EQ(unit.refused(StateRefusal::kStale), 5u);
  EXPECT_EQ(unit.unit.counters().replicas_taken, 2u);
  EXPECT_EQ(unit.CountOf(1), 6u);
  unit.Send(First(1, 7, kA));
  EXPECT_EQ(unit.Serve().at(0), "release 1/7");
  unit.on_push(1, 6);
  unit.on_push(1, 7);
  EXPECT_EQ(unit.refused(StateRefusal::kStale), 7u);
  EXPECT_EQ(unit.CountOf(1), 7u);
}

TEST(UnitReplica, HasZerosWhereItsMessageLacksBytes) {
  TestUnit unit(kA);
  const auto blob = ScriptedNf::Schema().offset(1);
  SentState longer = PushOf(1, 5);
  longer.record.resize(ScriptedNf::Schema().record_bytes());
  longer.record[0] |= std::byte{2};
  longer.record[blob] = std::byte{1};
  longer.record[blob + 8] = std::byte{0xff};
  longer.state.bytes = static_cast<uint32_t>(longer.record.size());
  unit.on_state(longer);
  const auto record = [&] {
    const auto bytes = unit.unit.state_bytes(FlowId{1});
    return std::vector(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(record(), longer.record);
  SentState shorter = PushOf(1, 6);
  unit.on_state(shorter);
  EXPECT_EQ(unit.refused(), 0u);
  shorter.record.resize(longer.record.size());
  EXPECT_EQ(record(), shorter.record);
}

TEST(UnitReplica, ThatComesLateDoesNotBringBackAFlowThatWentOn) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Serve();
  unit.on_pull(1, 2, kB);
  unit.on_push(1, 1);
  EXPECT_EQ(unit.refused(StateRefusal::kStale), 1u);
  unit.on_takeover(1, 3, kB);
  unit.on_push(1, 1);  // a cache, of no use
  EXPECT_EQ(unit.unit.replicas(), 1u);
  unit.Send(First(1, 5, kB));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 4 from 1"));
}

TEST(UnitReplica, DoesNotReplaceACurrentOrGivenCopy) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  unit.on_push(1, 9);
  unit.Send(Within(1, 2));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/2"));
  EXPECT_THAT(unit.on_pull(1, 2, kB), ElementsAre("state 1 applied 2 to 1"));
  unit.on_push(1, 9);
  EXPECT_EQ(unit.refused(StateRefusal::kNotTaken), 2u);
  // The answer was lost.
  EXPECT_THAT(unit.on_pull(1, 2, kB), ElementsAre("state 1 applied 2 to 1"));
  unit.on_takeover(1, 3, kB);
  unit.on_push(1, 9);
  EXPECT_EQ(unit.unit.replicas(), 1u);
}

TEST(UnitReplica, ReplacesAnOldOwnCopyOfAFlowThatComesBack) {
  // The Takeover is lost, so the copy is here when the flow comes back.
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  unit.on_pull(1, 1, kB);
  unit.Send(First(1, 4, kB));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 3 from 1"));
  unit.on_push(1, 3);
  EXPECT_EQ(unit.Serve().at(0), "release 1/4");
  EXPECT_EQ(unit.CountOf(1), 4u);
}

TEST(UnitReplica, IsEvictedOldestFirst) {
  TestUnit unit(kB, SmallUnit(16, 3, 3));
  for (uint64_t flow = 1; flow <= 3; ++flow) unit.on_push(flow, 5);
  unit.on_push(1, 6);  // is the newest now
  unit.on_push(4, 5);
  EXPECT_EQ(unit.unit.replicas(), 3u);
  EXPECT_EQ(unit.unit.counters().replicas_evicted, 1u);
  std::vector<std::string> at_once;
  for (uint64_t flow = 1; flow <= 4; ++flow) {
    unit.Send(First(flow, flow == 1 ? 7 : 6, kA));
    at_once.push_back(unit.Serve().at(0));
  }
  EXPECT_THAT(at_once, ElementsAre("release 1/7", "pull 2 need 5 from 0",
                                   "release 3/6", "release 4/6"));
}

TEST(UnitReplica, MakesNoRoomAtTheCostOfOwnFlows) {
  TestUnit unit(kA, SmallUnit(16, 3, 2));
  unit.Send(New(1));
  unit.Send(New(2));
  unit.Serve();
  unit.on_pull(2, 1, kB);
  for (uint64_t flow = 3; flow <= 100; ++flow) unit.on_push(flow, 5);
  EXPECT_EQ(unit.unit.replicas(), 2u);
  EXPECT_EQ(unit.unit.flows(), 4u);
  EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
  EXPECT_THAT(unit.on_pull(2, 1, kB), ElementsAre("state 2 applied 1 to 1"));
}

TEST(UnitReplica, ExpiresWhenNobodyUsedIt) {
  TestUnit unit(kB);
  const Nanos lifetime = kSmallUnit.replica_lifetime;
  unit.on_push(1, 5);
  unit.on_push(2, 5);
  unit.on_push(3, 5);
  unit.Send(First(2, 6, kA));  // is used
  unit.Serve();
  unit.on_takeover_ack(2, 6, kA);
  unit.on_timers(Ms(10));
  unit.on_push(3, 6);  // is refreshed
  unit.on_timers(Ms(0) + lifetime + Nanos{-1});
  EXPECT_EQ(unit.unit.replicas(), 2u);
  unit.on_timers(Ms(1) + lifetime);
  EXPECT_EQ(unit.unit.replicas(), 1u);
  EXPECT_EQ(unit.unit.flows(), 2u);
  unit.on_timers(Ms(11) + lifetime);
  EXPECT_EQ(unit.unit.flows(), 1u);
  EXPECT_EQ(unit.unit.counters().replicas_expired, 2u);
  EXPECT_EQ(unit.CountOf(2), 6u);
}

TEST(UnitReplica, IsKeptForEverWhenItsLifetimeIs) {
  UnitOptions options = kSmallUnit;
  options.replica_lifetime = Nanos::max();
  TestUnit unit(kB, options);
  unit.on_push(1, 5);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitReplica, OfAFlowThatPacketsWaitForMayGo) {
  TestUnit unit(kB, SmallUnit(16, 3, 1));
  unit.on_push(1, 3);
  unit.Send(First(1, 5, kA));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 4 from 0"));
  unit.on_push(2, 9);
  EXPECT_EQ(unit.unit.counters().replicas_evicted, 1u);
  EXPECT_EQ(unit.unit.held_packets(), 1u);
  unit.on_state(1, 4);
  EXPECT_EQ(unit.Serve().at(0), "release 1/5");
}

TEST(UnitState, IsTakenOnlyWhileAPacketWaitsForIt) {
  TestUnit unit(kB);
  unit.on_state(1, 2);  // nobody asked
  EXPECT_EQ(unit.unit.flows(), 0u);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.on_state(1, 1);
  unit.on_state(1, 2);
  unit.on_state(1, 2);
  EXPECT_EQ(unit.Serve().at(0), "release 1/3");
  unit.on_state(1, 2);
  unit.Send(Within(1, 4));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/4"));
  EXPECT_EQ(unit.CountOf(1), 4u);
  EXPECT_EQ(unit.refused(StateRefusal::kUnsolicited), 2u);
  EXPECT_EQ(unit.refused(StateRefusal::kStale), 2u);
}

TEST(UnitHold, TurnsWhatItCannotHoldIntoTombstones) {
  TestUnit unit(kB, SmallUnit(2, 3, 8));
  unit.Send(First(1, 3, kA));
  unit.Send(Tombstone(Within(1, 4)));
  unit.Send(Within(1, 5));
  unit.Send(Within(1, 6));
  unit.Send(First(2, 3, kA));
  unit.Send(New(3));  // waits for nothing
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 2 from 0",
                                        "drop payload 1/6 for hold_overflow",
                                        "drop payload 2/3 for hold_overflow",
                                        "pull 2 need 2 from 0", "release 3/1"));
  EXPECT_EQ(unit.unit.held_packets(), 5u);
  EXPECT_EQ(unit.pool.in_use(), 2u);
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/3", "took 1/3 to 0", "advance 1/4",
                          "release 1/5", "advance 1/6"));
  EXPECT_EQ(unit.CountOf(1), 4u);
  // There is room again.
  unit.Send(First(4, 3, kA));
  unit.Send(Within(4, 4));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 4 need 2 from 0"));
  unit.on_state(2, 2);
  EXPECT_THAT(unit.Serve(), ElementsAre("advance 2/3", "took 2/3 to 0"));
}

TEST(UnitHold, DropsADuplicateOfAPacketWithoutPayloadAsAnAdvance) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(Null(Within(1, 2)));
  unit.Send(Null(Within(1, 2)));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/1", "advance 1/2", "advance 1/2"));
  EXPECT_EQ(unit.CountOf(1), 1u);
}

TEST(UnitHold, LetsANullPacketFetchTheState) {
  TestUnit unit(kB);
  unit.Send(Null(First(1, 3, kA)));
  unit.Send(Within(1, 4));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 2 from 0"));
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(),
              ElementsAre("advance 1/3", "took 1/3 to 0", "release 1/4"));
  EXPECT_EQ(unit.CountOf(1), 3u);
}

TEST(UnitHold, PullsForAnEarlierPacketThatComesLater) {
  TestUnit unit(kB);
  unit.Send(First(1, 9, kC));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 8 from 2"));
  unit.Send(First(1, 3, kA));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 2 from 0"));
  EXPECT_THAT(unit.on_timers(Ms(11)), ElementsAre("pull 1 need 2 from 0"));
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3", "took 1/3 to 0",
                                        "pull 1 need 8 from 2"));
}

}  // namespace
}  // namespace snf
