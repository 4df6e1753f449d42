// SPDX-License-Identifier: Apache-2.0
// How a unit asks for state, answers, and says that it took it.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;

// A unit that has just run clock 3 of flow 1 on the state of `kA`.
TestUnit Taker(const UnitOptions& options = kSmallUnit) {
  TestUnit unit(kB, options);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3", "took 1/3 to 0"));
  return unit;
}

// Milliseconds at which `unit` says `line`, and nothing else, in `seconds`.
std::vector<int64_t> TimesOf(TestUnit& unit, const std::string& line,
                             int64_t seconds) {
  std::vector<int64_t> times;
  while (unit.unit.next_wakeup() <= Ms(1'000 * seconds)) {
    const Instant wakeup = unit.unit.next_wakeup();
    for (const std::string& said : unit.on_timers(wakeup)) {
      EXPECT_EQ(said, line);
      times.push_back((wakeup - Instant{}).ns / 1'000'000);
    }
  }
  return times;
}

// What a word that is said at 0 is repeated at, in `seconds`: after 10 ms, then
// after twice as long, and so on; from 1 s on no longer.
std::vector<int64_t> TimesOfRepetition(int64_t seconds) {
  std::vector<int64_t> times;
  int64_t delay = 10;
  for (int64_t at = delay; at <= 1'000 * seconds; at += delay) {
    times.push_back(at);
    delay = std::min<int64_t>(2 * delay, 1'000);
  }
  return times;
}

// Milliseconds of `times` less those of `expected`, at most: ticks add up.
int64_t LatestBy(const std::vector<int64_t>& times,
                 const std::vector<int64_t>& expected) {
  int64_t most = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_GE(times[i], expected.at(i));
    most = std::max(most, times[i] - expected[i]);
  }
  return most;
}

TEST(UnitTakeover, IsToldForTheFirstPacketOfAFlowletFromElsewhereOnly) {
  TestUnit unit = Taker();
  unit.Send(Within(1, 4));
  unit.Send(First(1, 5, kB));
  unit.Send(New(2));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/4", "release 1/5", "release 2/1"));
}

TEST(UnitTakeover, IsRepeatedMoreAndMoreSeldom) {
  TestUnit unit = Taker({.max_flows = 16,
                         .queue_packets = 16,
                         .packets_elsewhere = 0,
                         .replicas = 0,
                         .max_replicas = 8});
  const std::vector<int64_t> expected = TimesOfRepetition(100);
  const std::vector<int64_t> times = TimesOf(unit, "took 1/3 to 0", 100);
  ASSERT_THAT(times, SizeIs(expected.size()));
  EXPECT_LE(LatestBy(times, expected), 100);
  EXPECT_EQ(unit.unit.counters().takeovers_repeated, expected.size());
  unit.on_end_flow(1, 3);
  EXPECT_EQ(unit.unit.flows(), 1u);  // until it is acknowledged
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_EQ(unit.unit.flows(), 0u);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitTakeover, IsRepeatedUntilItIsAcknowledged) {
  TestUnit unit = Taker();
  EXPECT_THAT(unit.on_timers(Ms(11)), ElementsAre("took 1/3 to 0"));
  unit.on_takeover_ack(1, 2, kA);  // of another
  unit.on_takeover_ack(1, 3, kC);  // by another
  unit.on_takeover_ack(2, 3, kA);
  EXPECT_THAT(unit.on_timers(Ms(32)), ElementsAre("took 1/3 to 0"));
  // The controller hears of it once that copy is gone.
  EXPECT_THAT(unit.on_takeover_ack(1, 3, kA), ElementsAre("report took 1/3"));
  EXPECT_THAT(unit.on_takeover_ack(1, 3, kA), IsEmpty());
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
  EXPECT_EQ(unit.unit.counters().takeovers_repeated, 2u);
}

TEST(UnitTakeover, OfALaterClockTakesThePlaceOfAnEarlierOneToTheSameUnit) {
  TestUnit unit = Taker();
  unit.on_pull(1, 3, kA);
  unit.Send(First(1, 5, kA));
  unit.Serve();
  unit.on_state(1, 4);
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/5", "took 1/5 to 0", "report took 1/3"));
  EXPECT_THAT(unit.on_timers(Ms(11)), ElementsAre("took 1/5 to 0"));
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_THAT(unit.on_timers(Ms(32)), ElementsAre("took 1/5 to 0"));
  unit.on_takeover_ack(1, 5, kA);
  EXPECT_THAT(unit.on_timers(Ms(500)), IsEmpty());
}

TEST(UnitTakeover, IsRepeatedToEachUnitThatHasNotAcknowledged) {
  TestUnit unit = Taker();
  unit.on_pull(1, 3, kC);
  unit.Send(First(1, 5, kC));
  unit.Serve();
  unit.on_state(1, 4);
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(11)),
              UnorderedElementsAre("took 1/3 to 0", "took 1/5 to 2"));
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_THAT(unit.on_timers(Ms(32)), ElementsAre("took 1/5 to 2"));
}

TEST(UnitTakeover, OutlivesTheCopyThatItIsAbout) {
  TestUnit unit = Taker();
  unit.on_pull(1, 3, kC);
  EXPECT_THAT(unit.on_takeover(1, 4, kC), ElementsAre("ack 1/4 to 2"));
  EXPECT_THAT(unit.on_timers(Ms(11)), ElementsAre("took 1/3 to 0"));
  EXPECT_EQ(unit.unit.flows(), 1u);
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitTakeover, MakesTheOtherUnitForgetWhatIsOlderOnly) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  unit.on_pull(1, 1, kB);
  unit.Send(First(1, 3, kB));
  unit.Serve();
  unit.on_state(1, 2);
  unit.Serve();
  // Late, and repeated.
  EXPECT_THAT(unit.on_takeover(1, 2, kB), ElementsAre("ack 1/2 to 1"));
  EXPECT_THAT(unit.on_takeover(1, 3, kB), ElementsAre("ack 1/3 to 1"));
  EXPECT_EQ(unit.CountOf(1), 3u);
  EXPECT_THAT(unit.on_pull(1, 3, kC), ElementsAre("state 1 applied 3 to 2"));
  EXPECT_THAT(unit.on_takeover(1, 4, kC), ElementsAre("ack 1/4 to 2"));
  unit.on_takeover_ack(1, 3, kB);
  EXPECT_EQ(unit.unit.flows(), 0u);
  EXPECT_EQ(unit.refused(), 0u);
}

// The controller tells it in the place of a unit that has failed.
TEST(UnitTakeover, OfNobodyIsAcknowledgedToNobody) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  unit.on_pull(1, 1, kB);
  EXPECT_THAT(unit.on_takeover(1, 2, value(kNoUnit)),
              ElementsAre("ack 1/2 to 65535"));
  EXPECT_EQ(unit.unit.flows(), 0u);
  EXPECT_EQ(unit.refused(), 0u);
}

TEST(UnitTakeover, MakesTheOtherUnitForgetAnOlderReplica) {
  TestUnit unit(kA);
  unit.on_push(1, 2);
  unit.on_takeover(1, 2, kC);
  EXPECT_EQ(unit.unit.replicas(), 1u);
  unit.on_takeover(1, 9, kC);
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitTakeover, MakesTheOtherUnitForgetWhatItPushedAndNobodyPulled) {
  TestUnit unit(kA);
  unit.Replicate(1, {kB});
  unit.Send(New(1));
  unit.Serve();
  unit.on_timers(Ms(1));
  EXPECT_THAT(unit.on_takeover(1, 2, kB), ElementsAre("ack 1/2 to 1"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitTakeover, IsAcknowledgedByAUnitThatKnowsNothingOfTheFlow) {
  TestUnit unit(kA);
  EXPECT_THAT(unit.on_takeover(1, 3, kB), ElementsAre("ack 1/3 to 1"));
  EXPECT_THAT(unit.on_takeover(1, 3, kB), ElementsAre("ack 1/3 to 1"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitTakeover, LeavesPacketsThatWaitForNewerState) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(First(1, 4, kC));
  unit.on_pull(1, 1, kB);
  unit.Serve();
  EXPECT_THAT(unit.on_takeover(1, 2, kB), ElementsAre("ack 1/2 to 1"));
  EXPECT_EQ(unit.unit.held_packets(), 1u);
  unit.on_state(1, 3);
  EXPECT_EQ(unit.Serve().at(0), "release 1/4");
}

TEST(UnitPull, IsRepeatedMoreAndMoreSeldom) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  const std::vector<int64_t> expected = TimesOfRepetition(1'000);
  const std::vector<int64_t> times =
      TimesOf(unit, "pull 1 need 2 from 0", 1'000);
  EXPECT_NEAR(static_cast<double>(times.size()),
              static_cast<double>(expected.size()), 5);
  EXPECT_EQ(unit.unit.counters().pulls_repeated, times.size());
  // An answer is welcome after however long.
  unit.on_state(1, 2);
  EXPECT_EQ(unit.Serve().at(0), "release 1/3");
}

TEST(UnitPull, IsRepeatedUntilTheStateHasCome) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(11)), ElementsAre("pull 1 need 2 from 0"));
  unit.on_state(1, 2);
  unit.Serve();
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_THAT(unit.on_timers(Ms(500)), IsEmpty());
  EXPECT_EQ(unit.unit.counters().pulls_repeated, 1u);
}

TEST(UnitPull, IsNotRepeatedWhenTheDriverLosesNothing) {
  UnitOptions options = kSmallUnit;
  options.retry_after = Nanos::max();
  TestUnit unit = Taker(options);
  unit.Send(First(2, 3, kA));
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(1'000'000)), IsEmpty());
}

TEST(UnitPull, IsAnsweredAgainUntilTheStateIsTaken) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
    EXPECT_EQ(unit.states.back().record, StateOf(1, 1).record);
  }
  unit.on_takeover(1, 2, kB);
  EXPECT_THAT(unit.on_pull(1, 1, kB), IsEmpty());
}

TEST(UnitPull, OfAClockGonePastIsRefused) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Serve();
  EXPECT_THAT(unit.on_pull(1, 1, kB), IsEmpty());
  EXPECT_EQ(unit.refused(StateRefusal::kPullStale), 1u);
  // One that waits when the unit that asked tells that it has gone past.
  EXPECT_THAT(unit.on_pull(1, 4, kB), IsEmpty());
  unit.on_takeover(1, 2, kB);
  EXPECT_EQ(unit.refused(StateRefusal::kPullStale), 1u);
  unit.on_takeover(2, 5, kB);
  EXPECT_THAT(unit.on_pull(2, 4, kB), IsEmpty());
  unit.on_takeover(2, 5, kB);
  EXPECT_EQ(unit.refused(StateRefusal::kPullStale), 2u);
  EXPECT_EQ(unit.unit.flows(), 1u);
}

TEST(UnitPull, WaitsForAUnitThatItselfWaits) {
  TestUnit unit(kB);
  unit.Send(Null(First(1, 3, kA)));
  EXPECT_THAT(unit.on_pull(1, 3, kC), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 2 from 0"));
  EXPECT_THAT(unit.on_pull(1, 3, kC), IsEmpty());
  EXPECT_THAT(unit.on_state(1, 2), IsEmpty());
  EXPECT_THAT(unit.on_pull(1, 3, kC), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("advance 1/3", "took 1/3 to 0",
                                        "state 1 applied 3 to 2"));
}

TEST(UnitPull, IsForgottenWhenItIsNotRepeated) {
  TestUnit unit(kA);
  unit.on_pull(1, 1, kB);
  unit.on_pull(2, 1, kB);
  unit.on_timers(Ms(15'000));
  unit.on_pull(2, 1, kB);
  unit.on_timers(Ms(20'001));
  EXPECT_EQ(unit.unit.flows(), 1u);
  unit.Send(New(2));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 2/1", "state 2 applied 1 to 1"));
  EXPECT_EQ(unit.unit.counters().pulls_forgotten, 1u);
}

TEST(UnitPull, ByOneUnitIsForEachClockThatItNamed) {
  TestUnit unit(kA);
  unit.on_pull(1, 2, kB);
  unit.on_pull(1, 99, kB);  // not B's, but said to be
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1"));
  unit.on_pull(1, 1, kC);
  unit.Send(Within(1, 2));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/2", "state 1 applied 2 to 1"));
}

TEST(UnitPull, IsRefusedWhereTooManyOfOneFlowWait) {
  UnitOptions options = kSmallUnit;
  options.packets_elsewhere = 200;
  TestUnit unit(kA, options);
  for (uint64_t need = 1; need <= kMaxPullsPerFlow + 2; ++need) {
    unit.on_pull(1, need, kB);
  }
  EXPECT_EQ(unit.refused(StateRefusal::kPullsFull), 2u);
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/1", "state 1 applied 1 to 1"));
}

TEST(UnitPull, IsNotAnsweredFromAReplica) {
  TestUnit unit(kA);
  unit.Send(First(1, 3, kB));
  unit.Serve();
  unit.on_state(1, 2);
  unit.Serve();
  unit.on_takeover(1, 4, kC);  // of a state that has not left
  EXPECT_EQ(unit.refused(StateRefusal::kFutureClock), 1u);
  unit.on_pull(1, 3, kC);
  unit.on_takeover(1, 4, kC);
  unit.on_push(1, 9);
  EXPECT_THAT(unit.on_pull(1, 9, kC), IsEmpty());
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  EXPECT_THAT(unit.on_takeover_ack(1, 3, kB),
              ElementsAre("report took 1/3", "stopped"));
}

TEST(UnitReplicaSet, OutlivesTheFirstPacketOfAnEarlierFlowlet) {
  TestUnit unit(kA);
  PacketMeta first = New(1);
  first.flowlet = 1;
  PacketMeta third = First(1, 3, kB);
  third.flowlet = 3;
  unit.Send(first);
  unit.Send(New(7));
  unit.unit.on_replicas({.flow = FlowId{1},
                         .units = {UnitId{kB}, UnitId{kC}},
                         .count = 2,
                         .flowlet = 3});
  unit.Send(third);
  EXPECT_THAT(unit.Begin(), ElementsAre("service 1/1"));
  unit.Finish();
  unit.Begin();  // the packet of flow 7
  unit.on_pull(1, 1, kB);
  unit.on_takeover(1, 2, kB);
  unit.Finish();
  unit.Serve();
  unit.on_state(1, 2);
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(1)),
              IsSupersetOf({"push 1 applied 3 to 1", "push 1 applied 3 to 2"}));
}

}  // namespace
}  // namespace snf
