// SPDX-License-Identifier: Apache-2.0
// How a unit forgets flows and stops, and the timers of its NF.
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

Instant Ms(int64_t ms) { return Instant{} + Milliseconds(ms); }

TEST(UnitEndFlow, ForgetsAtOnceAFlowWhoseLastPacketHasRun) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_EQ(unit.unit.flows(), 1u);
  EXPECT_THAT(unit.OnEndFlow(1, 1), IsEmpty());
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, WaitsForPacketsThatAreQueued) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.OnEndFlow(1, 2);
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
  unit.OnEndFlow(1, 1);
  EXPECT_EQ(unit.unit.flows(), 1u);
  EXPECT_THAT(unit.Finish(), ElementsAre("release 1/1"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, WaitsForAHeldPacketAndItsState) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.OnEndFlow(1, 3);
  EXPECT_EQ(unit.unit.flows(), 1u);
  unit.OnState(1, 2);
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3"));
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, MayComeBeforeAnyPacketOfItsFlow) {
  TestUnit unit(kA);
  EXPECT_THAT(unit.OnEndFlow(1, 1), IsEmpty());
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
  unit.OnEndFlow(1, 1);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitEndFlow, LeavesRoomForAsManyNewFlows) {
  TestUnit unit(kA,
                {.max_flows = 2, .queue_packets = 2, .packets_elsewhere = 0});
  for (uint64_t flow = 1; flow <= 100; ++flow) {
    unit.Send(New(flow));
    EXPECT_THAT(unit.Serve(), SizeIs(1));
    unit.OnEndFlow(flow, 1);
  }
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitEndFlow, LeavesRoomForNewFlowsWhileOldOnesWaitToBePulled) {
  // B is slow: flow after flow goes there with its last packet, is over, and
  // leaves its place in the controller's table to a new one at A.
  TestUnit a(kA, {.max_flows = 1, .queue_packets = 1, .packets_elsewhere = 8});
  for (uint64_t flow = 1; flow <= 9; ++flow) {
    a.Send(New(flow));
    EXPECT_THAT(a.Serve(), SizeIs(1));
  }
  EXPECT_EQ(a.unit.flows(), 9u);
  for (uint64_t flow = 1; flow <= 8; ++flow) {
    EXPECT_THAT(a.OnPull(flow, 1, kB), SizeIs(1));
  }
  EXPECT_EQ(a.unit.flows(), 1u);
}

TEST(UnitStop, IsAtOnceWhenNothingIsKept) {
  TestUnit unit(kA);
  EXPECT_THAT(unit.OnStop(), ElementsAre("stopped"));
  EXPECT_THAT(unit.Serve(), IsEmpty());
}

TEST(UnitStop, WaitsForPacketsThenForFlowsToEnd) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Send(New(2));
  EXPECT_THAT(unit.OnStop(), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "release 2/1"));
  EXPECT_THAT(unit.OnEndFlow(1, 1), IsEmpty());
  EXPECT_THAT(unit.OnEndFlow(2, 1), ElementsAre("stopped"));
}

TEST(UnitStop, WaitsForTheLastPacketOfAFlowThatIsOver) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.OnEndFlow(1, 1);
  EXPECT_THAT(unit.OnStop(), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "stopped"));
}

TEST(UnitStop, WaitsForFlowsToBePulled) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_THAT(unit.OnStop(), IsEmpty());
  EXPECT_THAT(unit.OnPull(1, 1, kB),
              ElementsAre("state 1 applied 1 to 1", "stopped"));
}

TEST(UnitStop, WaitsForPullsToBeAnswered) {
  TestUnit unit(kA);
  unit.OnPull(1, 1, kB);
  EXPECT_THAT(unit.OnStop(), IsEmpty());
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/1", "state 1 applied 1 to 1", "stopped"));
}

// Times at which the timer of each flow ran, as "flow@nanoseconds".
struct Alarms {
  explicit Alarms(TestUnit& unit) {
    unit.nf.timer = [this](FlowState& flow) {
      EXPECT_EQ(flow.timer(), Instant::max());
      flow.set_timer(Nanos{0});
      ran.push_back(std::to_string(value(flow.id())) + "@" +
                    std::to_string(flow.timer().ns / 1'000'000));
      flow.cancel_timer();
    };
  }
  std::vector<std::string> ran;
};

// An NF that sets a timer of as many milliseconds as the first byte says, and
// cancels it for 0.
Verdict SetTimerByFirstByte(Packet& packet, FlowState& flow) {
  const auto ms = static_cast<int64_t>(packet.bytes()[0]);
  if (ms == 0) {
    flow.cancel_timer();
  } else {
    flow.set_timer(Milliseconds(ms));
  }
  return Verdict::forward();
}

TEST(UnitTimers, RunOnceAndNotBeforeTheyAreDue) {
  TestUnit unit(kA);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(10));
  EXPECT_THAT(unit.OnTimers(Ms(15) + Nanos{-1}), IsEmpty());
  EXPECT_THAT(alarms.ran, IsEmpty());
  EXPECT_LE(unit.unit.next_wakeup(), Ms(16));
  unit.OnTimers(Ms(16));
  unit.OnTimers(Ms(100));
  EXPECT_THAT(alarms.ran, ElementsAre("1@15"));
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitTimers, AreReplacedAndCancelledByLaterPackets) {
  TestUnit unit(kA);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Send(Within(1, 2), "\x09");
  unit.Send(New(2), "\x05");
  unit.Send(Within(2, 2), std::string_view("\0", 1));
  unit.Serve(Ms(0));
  unit.OnTimers(Ms(8));
  EXPECT_THAT(alarms.ran, IsEmpty());
  unit.OnTimers(Ms(10));
  EXPECT_THAT(alarms.ran, ElementsAre("1@9"));
}

TEST(UnitTimers, RunInTheOrderOfTheirTimes) {
  TestUnit unit(kA);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x1e");
  unit.Send(New(2), "\x0a");
  unit.Send(New(3), "\x14");
  unit.Send(New(4), "\x0a");
  unit.Serve(Ms(0));
  unit.OnTimers(Ms(50));
  EXPECT_THAT(alarms.ran, ElementsAre("2@10", "4@10", "3@20", "1@30"));
}

TEST(UnitTimers, MoveWithTheFlow) {
  TestUnit a(kA);
  TestUnit b(kB);
  Alarms at_a(a);
  Alarms at_b(b);
  a.nf.packet = SetTimerByFirstByte;
  a.link = LinkType::kRawIp;
  a.Send(New(1), "\x05");
  a.Serve(Ms(10));
  a.OnPull(1, 1, kB);
  EXPECT_EQ(a.unit.next_wakeup(), Instant::max());
  b.Send(First(1, 2, kA));
  b.Serve(Ms(11));
  ASSERT_THAT(a.states, SizeIs(1));
  EXPECT_EQ(a.states[0].timer, Ms(15));
  EXPECT_EQ(a.states[0].link, LinkType::kRawIp);
  b.OnState(1, 1, a.states[0].timer);
  a.OnTimers(Ms(20));
  b.OnTimers(Ms(20));
  EXPECT_THAT(at_a.ran, IsEmpty());
  EXPECT_THAT(at_b.ran, ElementsAre("1@15"));
}

TEST(UnitTimers, CountFromTheTimeTheyWereDueWhenSetFromATimer) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  std::vector<Instant> ran;
  unit.nf.timer = [&](FlowState& flow) {
    flow.set_timer(Milliseconds(10));
    ran.push_back(flow.timer());
    if (ran.size() == 3) flow.cancel_timer();
  };
  unit.Send(New(1), "\x0a");
  unit.Serve(Ms(0));
  unit.OnTimers(Ms(25));
  EXPECT_THAT(ran, ElementsAre(Ms(20), Ms(30)));
  unit.OnTimers(Ms(31));
  EXPECT_THAT(ran, ElementsAre(Ms(20), Ms(30), Ms(40)));
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitTimers, LetTimePassWhenOneSetsItselfWithoutDelay) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  int ran = 0;
  unit.nf.timer = [&](FlowState& flow) {
    flow.set_timer(Nanos{-5});
    ++ran;
  };
  unit.Send(New(1), "\x01");
  unit.Serve(Ms(0));
  unit.OnTimers(Ms(2));
  EXPECT_GT(ran, 0);
  EXPECT_LE(ran, 1'001);  // once a microsecond at the most
  EXPECT_GT(unit.unit.next_wakeup(), Ms(2));
}

TEST(UnitTimers, RunBesideThePacketInService) {
  TestUnit unit(kA);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(0));
  unit.Send(Within(1, 2), "\x05");
  unit.Begin();
  unit.OnTimers(Ms(6));
  unit.Finish(Ms(7));
  unit.OnTimers(Ms(20));
  EXPECT_THAT(alarms.ran, ElementsAre("1@5", "1@12"));
}

TEST(UnitTimers, StopWhereOutMightOverflowAndGoOn) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [](FlowState& flow) {
    const std::vector<std::byte> frame(20);
    while (flow.emit(frame)) {
    }
  };
  for (uint64_t flow = 1; flow <= 5; ++flow) unit.Send(New(flow), "\x05");
  unit.Serve(Ms(0));
  size_t emitted = 0;
  int calls = 0;
  for (; unit.unit.next_wakeup() <= Ms(10); ++calls) {
    emitted += unit.OnTimers(Ms(10)).size();
  }
  EXPECT_EQ(emitted, 5u * FlowState::kMaxEmits);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(unit.pool.in_use(), 0u);
}

}  // namespace
}  // namespace snf
