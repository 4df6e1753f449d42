// SPDX-License-Identifier: Apache-2.0
// How a unit forgets flows that are over, stops and starts again.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;

TEST(UnitEndFlow, ForgetsAtOnceAFlowWhoseLastPacketHasRun) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_EQ(unit.unit.flows(), 1u);
  EXPECT_THAT(unit.on_end_flow(1, 1), IsEmpty());
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, WaitsForPacketsThatAreQueued) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.on_end_flow(1, 2);
  EXPECT_EQ(unit.unit.flows(), 1u);
  EXPECT_THAT(unit.Begin(), ElementsAre("service 1/1"));
  unit.Finish();
  EXPECT_EQ(unit.unit.flows(), 1u);
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/2"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, WaitsForThePacketInService) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Begin();
  unit.on_end_flow(1, 1);
  EXPECT_EQ(unit.unit.flows(), 1u);
  EXPECT_THAT(unit.Finish(), ElementsAre("release 1/1"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, WaitsForAHeldPacketAndItsState) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.on_end_flow(1, 3);
  EXPECT_EQ(unit.unit.flows(), 1u);
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3", "took 1/3 to 0"));
  EXPECT_EQ(unit.unit.flows(), 1u);  // until the take is acknowledged
  uint32_t at = 0;
  EXPECT_EQ(unit.unit.NextDone(at)->applied, Clock{3});
  EXPECT_FALSE(unit.unit.NextDone(at).has_value());
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_EQ(unit.unit.flows(), 0u);
  EXPECT_FALSE(unit.unit.NextDone(at = 0).has_value());
}

TEST(UnitEndFlow, TellsTheTakeUntilItIsAcknowledged) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.on_state(1, 2);
  unit.Serve();
  EXPECT_THAT(unit.on_end_flow(1, 3), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(11)), ElementsAre("took 1/3 to 0"));
  unit.on_takeover_ack(1, 3, kA);
  EXPECT_EQ(unit.unit.flows(), 0u);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitEndFlow, LeavesReplicasElsewhereToExpire) {
  TestUnit a(kA);
  TestUnit b(kB);
  a.Replicate(1, {kB});
  a.Send(New(1));
  a.Serve();
  a.on_timers(Ms(1));
  b.on_state(a.states.at(0));
  a.on_end_flow(1, 1);
  EXPECT_EQ(a.unit.flows(), 0u);
  EXPECT_EQ(b.unit.replicas(), 1u);
  EXPECT_THAT(b.on_timers(Ms(1) + kSmallUnit.replica_lifetime), IsEmpty());
  EXPECT_EQ(b.unit.flows(), 0u);
  EXPECT_EQ(b.unit.counters().replicas_expired, 1u);
}

TEST(UnitEndFlow, ForgetsACopyThatWasGiven) {
  // The pull came from nobody who had the next packet.
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
  EXPECT_THAT(unit.on_end_flow(1, 1), IsEmpty());
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, GivesNoStateOfAFlowThatIsOver) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Begin();
  EXPECT_THAT(unit.on_pull(1, 1, kB), IsEmpty());
  EXPECT_THAT(unit.on_end_flow(1, 1), IsEmpty());
  EXPECT_THAT(unit.Finish(), ElementsAre("release 1/1"));
}

TEST(UnitEndFlow, MayComeBeforeAnyPacketOfItsFlow) {
  TestUnit unit(kA);
  EXPECT_THAT(unit.on_end_flow(1, 1), IsEmpty());
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, TakesTheTimerAlong) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState& flow) {
    flow.set_timer(Milliseconds(5));
    return Verdict::forward();
  };
  unit.Send(New(1));
  unit.Serve();
  EXPECT_NE(unit.unit.next_wakeup(), Instant::max());
  unit.on_end_flow(1, 1);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitEndFlow, LeavesRoomForAsManyNewFlows) {
  TestUnit unit(kA, {.max_flows = 2,
                     .queue_packets = 2,
                     .packets_elsewhere = 0,
                     .max_replicas = 1});
  for (uint64_t flow = 1; flow <= 100; ++flow) {
    unit.Send(New(flow));
    EXPECT_THAT(unit.Serve(), SizeIs(1));
    unit.on_end_flow(flow, 1);
  }
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, LeavesRoomForNewFlowsWhileOldOnesWaitToBePulled) {
  // B is slow: flow after flow goes there with its last packet, is over, and
  // leaves its place in the controller's table to a new one at A.
  TestUnit a(kA, {.max_flows = 1,
                  .queue_packets = 1,
                  .packets_elsewhere = 8,
                  .max_replicas = 1});
  for (uint64_t flow = 1; flow <= 9; ++flow) {
    a.Send(New(flow));
    EXPECT_THAT(a.Serve(), SizeIs(1));
  }
  EXPECT_EQ(a.unit.flows(), 9u);
  for (uint64_t flow = 1; flow <= 8; ++flow) {
    EXPECT_THAT(a.on_pull(flow, 1, kB), SizeIs(1));
    EXPECT_THAT(a.on_takeover(flow, 2, kB), SizeIs(1));
  }
  EXPECT_EQ(a.unit.flows(), 1u);
}

TEST(UnitStop, IsAtOnceWhenNothingIsKept) {
  TestUnit unit(kA);
  EXPECT_THAT(unit.on_stop(), ElementsAre("stopped"));
  EXPECT_THAT(unit.Serve(), IsEmpty());
}

TEST(UnitStop, WaitsForPacketsThenForFlowsToEnd) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(New(2));
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "release 2/1"));
  EXPECT_THAT(unit.on_end_flow(1, 1), IsEmpty());
  EXPECT_THAT(unit.on_end_flow(2, 1), ElementsAre("stopped"));
}

TEST(UnitStop, WaitsForTheLastPacketOfAFlowThatIsOver) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.on_end_flow(1, 1);
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "stopped"));
}

TEST(UnitStop, WaitsForFlowsToBeTaken) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(New(2));
  unit.Serve();
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
  EXPECT_THAT(unit.on_pull(2, 1, kB), ElementsAre("state 2 applied 1 to 1"));
  EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
  EXPECT_THAT(unit.on_takeover(2, 2, kB), ElementsAre("ack 2/2 to 1"));
  EXPECT_THAT(unit.on_takeover(1, 2, kB),
              ElementsAre("ack 1/2 to 1", "stopped"));
  EXPECT_THAT(unit.on_takeover(1, 2, kB), ElementsAre("ack 1/2 to 1"));
}

TEST(UnitStop, WaitsForItsTakesToBeAcknowledged) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.on_state(1, 2);
  unit.Serve();
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  unit.on_pull(1, 3, kC);
  EXPECT_THAT(unit.on_takeover(1, 4, kC), ElementsAre("ack 1/4 to 2"));
  EXPECT_THAT(unit.on_takeover_ack(1, 3, kA),
              ElementsAre("report took 1/3", "stopped"));
}

TEST(UnitStop, DoesNotWaitForPullsThatNobodyWillAnswer) {
  TestUnit unit(kA);
  unit.on_pull(1, 1, kB);
  EXPECT_THAT(unit.on_stop(), ElementsAre("stopped"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitStop, HandsEachFlowOverWithANullPacket) {
  TestUnit a(kA);
  TestUnit b(kB);
  for (uint64_t flow = 1; flow <= 3; ++flow) a.Send(New(flow));
  a.Serve();
  EXPECT_THAT(a.on_stop(), IsEmpty());
  for (uint64_t flow = 1; flow <= 3; ++flow) {
    const std::string name = std::to_string(flow);
    b.Send(Null(First(flow, 2, kA)));
    EXPECT_THAT(b.Serve(), ElementsAre("pull " + name + " need 1 from 0"));
    a.on_pull(flow, 1, kB);
    b.on_state(a.states.back());
    EXPECT_THAT(b.Serve(), ElementsAre("advance " + name + "/2",
                                       "took " + name + "/2 to 0"));
    EXPECT_EQ(b.CountOf(flow), 1u);
    EXPECT_EQ(a.on_takeover(flow, 2, kB).back(),
              flow < 3 ? "ack " + name + "/2 to 1" : "stopped");
  }
}

TEST(UnitStop, RefusesPushesAndForgetsReplicas) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  unit.on_push(2, 5);
  EXPECT_EQ(unit.unit.replicas(), 1u);
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  unit.on_push(3, 5);
  unit.on_push(2, 6);
  EXPECT_EQ(unit.refused(StateRefusal::kStopping), 2u);
  EXPECT_EQ(unit.unit.replicas(), 1u);
  EXPECT_THAT(unit.on_end_flow(1, 1), ElementsAre("stopped"));
  EXPECT_EQ(unit.unit.replicas(), 0u);
  EXPECT_EQ(unit.unit.flows(), 0u);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
  unit.on_push(3, 5);  // stopped, but still warm
  EXPECT_EQ(unit.refused(StateRefusal::kStopping), 3u);
}

TEST(UnitStop, TakesTheStateThatItsPacketsStillNeed) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.on_stop();
  unit.on_state(1, 2);
  EXPECT_THAT(unit.Serve(), Contains("release 1/3"));
}

TEST(UnitStop, DoesNotPushWhatItKeeps) {
  TestUnit unit(kA);
  unit.Replicate(1, {kB});
  unit.Send(New(1));
  unit.Serve();
  unit.on_stop();
  EXPECT_THAT(unit.on_timers(Ms(1)), IsEmpty());
}

TEST(UnitStop, IsFollowedByStart) {
  TestUnit unit(kA);
  EXPECT_THAT(unit.on_stop(), ElementsAre("stopped"));
  unit.unit.on_start();
  unit.on_push(2, 5);
  EXPECT_EQ(unit.unit.replicas(), 1u);
  unit.Replicate(1, {kB});
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1"));
  EXPECT_THAT(unit.on_timers(Ms(1)), ElementsAre("push 1 applied 1 to 1"));
  unit.on_end_flow(1, 1);
  EXPECT_THAT(unit.on_stop(), ElementsAre("stopped"));
}

TEST(UnitStop, MayBeTakenBackBeforeItIsDone) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  unit.on_stop();
  unit.unit.on_start();
  EXPECT_THAT(unit.on_end_flow(1, 1), IsEmpty());
  EXPECT_THAT(unit.on_stop(), ElementsAre("stopped"));
}

}  // namespace
}  // namespace snf
