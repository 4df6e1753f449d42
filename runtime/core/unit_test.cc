// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"

namespace snf {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;

TEST(Unit, FollowsTheWorkedExample) {
  TestUnit a(kA);
  TestUnit b(kB);
  a.Replicate(1, {kB, kC});
  a.Send(New(1));
  a.Send(Within(1, 2));
  EXPECT_THAT(a.Serve(), ElementsAre("release 1/1", "release 1/2"));
  EXPECT_THAT(a.on_timers(Ms(1)),
              ElementsAre("push 1 applied 2 to 1", "push 1 applied 2 to 2"));
  TestUnit lost = b;
  TestUnit early = a;
  EXPECT_THAT(b.on_state(a.states.at(0)), IsEmpty());
  b.Send(First(1, 3, kA));
  EXPECT_THAT(b.Serve(), ElementsAre("release 1/3", "took 1/3 to 0"));
  EXPECT_THAT(a.on_takeover(1, 3, kB), ElementsAre("ack 1/3 to 1"));
  EXPECT_EQ(a.unit.flows(), 0u);

  // Had the push been lost.
  lost.Send(First(1, 3, kA));
  EXPECT_THAT(lost.Serve(), ElementsAre("pull 1 need 2 from 0"));
  EXPECT_THAT(early.on_pull(1, 2, kB), ElementsAre("state 1 applied 2 to 1"));
  EXPECT_THAT(lost.on_state(early.states.back()), IsEmpty());
  EXPECT_THAT(lost.Serve(), ElementsAre("release 1/3", "took 1/3 to 0"));

  // Had clock 3 gone to A, and 4 to B.
  TestUnit late(kB);
  late.on_state(a.states.at(0));
  late.Send(First(1, 4, kA));
  EXPECT_THAT(late.Serve(), ElementsAre("pull 1 need 3 from 0"));
  late.on_state(1, 3);
  EXPECT_THAT(late.Serve(), ElementsAre("release 1/4", "took 1/4 to 0"));
}

TEST(Unit, RunsClockOneOnlyWithSourceNone) {
  TestUnit unit(kB);
  unit.Send(First(1, 1, kA));
  EXPECT_THAT(unit.Serve(), IsEmpty());
  EXPECT_EQ(unit.unit.held_packets(), 1u);
  unit.Send(New(2));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 2/1"));
}

TEST(Unit, HoldsAPacketWhoseClockIsNotTheNext) {
  TestUnit unit(kB);
  unit.Send(Within(1, 2));
  unit.Send(New(1));
  unit.Send(Within(1, 4));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "release 1/2"));
  EXPECT_EQ(unit.unit.held_packets(), 1u);
  unit.Send(Within(1, 3));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3", "release 1/4"));
  EXPECT_EQ(unit.unit.held_packets(), 0u);
}

TEST(Unit, RunsHeldPacketsInClockOrderWhateverOrderTheyCameIn) {
  std::vector<uint64_t> clocks = {2, 3, 4, 5};
  do {
    TestUnit unit(kB);
    for (uint64_t clock : clocks) unit.Send(Within(1, clock));
    EXPECT_THAT(unit.Serve(), IsEmpty());
    EXPECT_EQ(unit.unit.held_packets(), 4u);
    unit.Send(New(1));
    EXPECT_THAT(unit.Serve(),
                ElementsAre("release 1/1", "release 1/2", "release 1/3",
                            "release 1/4", "release 1/5"));
  } while (std::ranges::next_permutation(clocks).found);
}

TEST(Unit, ServesResumedPacketsBeforeQueuedOnes) {
  TestUnit unit(kB);
  unit.Send(First(1, 5, kA));
  unit.Send(New(2));
  unit.Send(New(3));
  EXPECT_THAT(unit.Begin(), ElementsAre("pull 1 need 4 from 0", "service 2/1"));
  unit.on_state(1, 4);
  EXPECT_THAT(unit.Finish(), ElementsAre("release 2/1"));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/5", "took 1/5 to 0", "release 3/1"));
}

TEST(Unit, AnswersAPullAtOnceWhenItHasAppliedTheClock) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
  EXPECT_EQ(unit.states.at(0).record, StateOf(1, 1).record);
}

TEST(Unit, AnswersAPullAfterThePacketsBeforeIt) {
  TestUnit unit(kA);
  EXPECT_THAT(unit.on_pull(1, 2, kB), IsEmpty());  // sooner than its packets
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "release 1/2",
                                        "state 1 applied 2 to 1"));
}

TEST(Unit, AnswersAPullForThePacketInService) {
  TestUnit unit(kA);
  unit.Send(New(1));
  EXPECT_THAT(unit.Begin(), ElementsAre("service 1/1"));
  EXPECT_THAT(unit.on_pull(1, 1, kB), IsEmpty());
  EXPECT_THAT(unit.Finish(),
              ElementsAre("release 1/1", "state 1 applied 1 to 1"));
}

TEST(Unit, PassesStateAlongAChainThatComesBack) {
  TestUnit a(kA);
  TestUnit b(kB);
  TestUnit c(kC);
  a.Send(New(1));
  b.Send(First(1, 2, kA));
  c.Send(First(1, 3, kB));
  a.Send(First(1, 4, kC));
  // The pulls come before anything has run.
  EXPECT_THAT(c.Serve(), ElementsAre("pull 1 need 2 from 1"));
  EXPECT_THAT(b.on_pull(1, 2, kC), IsEmpty());
  EXPECT_THAT(b.Serve(), ElementsAre("pull 1 need 1 from 0"));
  EXPECT_THAT(c.on_pull(1, 3, kA), IsEmpty());
  EXPECT_THAT(a.on_pull(1, 1, kB), IsEmpty());
  EXPECT_THAT(a.Serve(), ElementsAre("release 1/1", "state 1 applied 1 to 1",
                                     "pull 1 need 3 from 2"));
  b.on_state(a.states.back());
  EXPECT_THAT(b.Serve(), ElementsAre("release 1/2", "took 1/2 to 0",
                                     "state 1 applied 2 to 2"));
  c.on_state(b.states.back());
  EXPECT_THAT(c.Serve(), ElementsAre("release 1/3", "took 1/3 to 1",
                                     "state 1 applied 3 to 0"));
  a.on_state(c.states.back());
  EXPECT_THAT(a.Serve(), ElementsAre("release 1/4", "took 1/4 to 2"));
  EXPECT_EQ(a.CountOf(1), 4u);
  // The takes go back along it, late.
  EXPECT_THAT(a.on_takeover(1, 2, kB), ElementsAre("ack 1/2 to 1"));
  b.on_takeover_ack(1, 2, kA);
  EXPECT_THAT(b.on_takeover(1, 3, kC), ElementsAre("ack 1/3 to 2"));
  c.on_takeover_ack(1, 3, kB);
  EXPECT_THAT(c.on_takeover(1, 4, kA), ElementsAre("ack 1/4 to 0"));
  a.on_takeover_ack(1, 4, kC);
  EXPECT_EQ(a.unit.flows(), 1u);
  EXPECT_EQ(b.unit.flows() + c.unit.flows(), 0u);
}

TEST(Unit, KeepsPullsOfLaterClocksWhenItAnswersAnEarlierOne) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(First(1, 3, kB));
  EXPECT_THAT(unit.on_pull(1, 1, kB), IsEmpty());
  EXPECT_THAT(unit.on_pull(1, 3, kC), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "state 1 applied 1 to 1",
                                        "pull 1 need 2 from 1"));
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3", "took 1/3 to 1",
                                        "state 1 applied 3 to 2"));
}

TEST(Unit, AnswersAPullWhileAllItsSlotsAreTakenByPacketsOthersWaitFor) {
  TestUnit unit(kA, {.max_flows = 4,
                     .queue_packets = 1,
                     .packets_elsewhere = 0,
                     .max_replicas = 1});
  unit.Send(New(1));
  unit.Serve();
  unit.Send(New(2));
  EXPECT_THAT(unit.on_pull(2, 1, kB), IsEmpty());
  EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 2/1", "state 2 applied 1 to 1"));
}

TEST(Unit, PullsOnceForEachFlowAndNeed) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Send(Within(1, 4));
  unit.Send(First(2, 3, kA));
  unit.Send(First(1, 6, kC));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("pull 1 need 2 from 0", "pull 2 need 2 from 0"));
  unit.on_pull(1, 4, kC);
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/3", "took 1/3 to 0", "release 1/4",
                          "pull 1 need 5 from 2", "state 1 applied 4 to 2"));
}

TEST(Unit, NeverPullsFromItself) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kB));
  EXPECT_THAT(unit.Serve(), IsEmpty());
  EXPECT_EQ(unit.unit.held_packets(), 1u);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(Unit, DropsADuplicateClock) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Send(Within(1, 3));
  EXPECT_THAT(
      unit.Serve(),
      ElementsAre("release 1/1", "release 1/2", "drop 1/1 for duplicate_clock",
                  "drop 1/2 for duplicate_clock", "release 1/3"));
  EXPECT_EQ(unit.pool.in_use(), 0u);
}

TEST(Unit, DropsADuplicateOfAHeldPacketAndGoesOnBehindIt) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Send(First(1, 3, kA));
  unit.Send(Within(1, 4));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 2 from 0",
                                        "drop 1/3 for duplicate_clock"));
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/3", "took 1/3 to 0", "release 1/4"));
  EXPECT_EQ(unit.unit.held_packets(), 0u);
}

TEST(Unit, DropsADuplicateOfClockOneWhenTheStateWasGiven) {
  TestUnit unit(kA);
  unit.Send(First(1, 3, kB));
  unit.Send(New(1));
  unit.on_pull(1, 1, kB);
  EXPECT_THAT(unit.Serve(), Contains("state 1 applied 1 to 1"));
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("drop 1/1 for duplicate_clock"));
}

TEST(Unit, StopsBeforeOutOverflowsAndGoesOn) {
  TestUnit unit(kB, {.max_flows = 200,
                     .queue_packets = 200,
                     .packets_elsewhere = 0,
                     .max_replicas = 1});
  for (uint64_t flow = 1; flow <= 200; ++flow) unit.Send(First(flow, 2, kA));
  int more = 0;
  std::vector<std::string> pulls;
  std::vector<std::string> lines = unit.Begin();
  for (; lines.back() == "more"; lines = unit.Resume()) {
    ++more;
    lines.pop_back();
    pulls.insert(pulls.end(), lines.begin(), lines.end());
  }
  pulls.insert(pulls.end(), lines.begin(), lines.end());
  EXPECT_GE(more, 2);
  EXPECT_THAT(pulls, SizeIs(200));
  EXPECT_THAT(pulls, Each(StartsWith("pull ")));
  EXPECT_EQ(unit.unit.held_packets(), 200u);
}

TEST(Unit, AbortsOnAPacketWithoutSlot) {
  TestUnit unit(kA, {.max_flows = 4,
                     .queue_packets = 2,
                     .packets_elsewhere = 0,
                     .max_replicas = 1});
  unit.Send(New(1));
  unit.Send(New(2));
  EXPECT_DEATH(unit.Send(New(3)), "check failed");
  unit.Serve();
  unit.Send(New(3));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 3/1"));
}

TEST(Unit, IsAValueThatGoesOnAlike) {
  TestUnit unit(kB);
  unit.Send(New(1));
  unit.Send(First(2, 7, kA));
  unit.Send(Within(1, 2));
  unit.Begin();
  TestUnit copy = unit;
  const auto go_on = [](TestUnit& u) {
    std::vector<std::string> all = u.Finish();
    for (const auto& lines :
         {u.Serve(), u.on_state(2, 6, Ms(9)), u.on_pull(2, 7, kC), u.Serve(),
          u.on_takeover_ack(2, 7, kA), u.on_end_flow(1, 2), u.on_stop(),
          u.on_takeover(2, 8, kC)}) {
      all.insert(all.end(), lines.begin(), lines.end());
    }
    return all;
  };
  const std::vector<std::string> expected = {
      "release 1/1",     "pull 2 need 6 from 0", "release 1/2",
      "release 2/7",     "took 2/7 to 0",        "state 2 applied 7 to 2",
      "report took 2/7", "ack 2/8 to 2",         "stopped"};
  EXPECT_EQ(go_on(copy), expected);
  EXPECT_TRUE(unit.unit.busy());
  EXPECT_EQ(go_on(unit), expected);
}

}  // namespace
}  // namespace snf
