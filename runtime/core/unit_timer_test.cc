// SPDX-License-Identifier: Apache-2.0
// The timers of a unit's NF belong to a flow's state, and run at the clock of a
// timer packet (U11).
#include <string>
#include <string_view>
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
using ::testing::SizeIs;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;

// Times at which the timer of each flow was due when it ran, as
// "flow@milliseconds".
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

constexpr UnitOptions kWithoutPushes = {.max_flows = 16,
                                        .queue_packets = 16,
                                        .packets_elsewhere = 0,
                                        .replicas = 0,
                                        .max_replicas = 8};

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

TEST(UnitTimers, AreAskedForOnceDueAndRunAtTheClockOfTheAnswer) {
  TestUnit unit(kA, kWithoutPushes);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(10));
  EXPECT_THAT(unit.on_timers(Ms(15) + Nanos{-1}), IsEmpty());
  EXPECT_LE(unit.unit.next_wakeup(), Ms(16));
  EXPECT_THAT(unit.on_timers(Ms(16)), ElementsAre("timer due 1 applied 1"));
  EXPECT_THAT(alarms.ran, IsEmpty());
  EXPECT_THAT(unit.RunTimer(1, 2), ElementsAre("advance 1/2"));
  EXPECT_THAT(alarms.ran, ElementsAre("1@15"));
  unit.on_timers(Ms(100));
  EXPECT_THAT(alarms.ran, ElementsAre("1@15"));
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitTimers, AreAskedForAgainUntilTheFlowGoesOn) {
  TestUnit unit(kA, kWithoutPushes);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(0));
  EXPECT_THAT(unit.on_timers(Ms(6)), ElementsAre("timer due 1 applied 1"));
  EXPECT_THAT(unit.on_timers(Ms(15)), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(17)), ElementsAre("timer due 1 applied 1"));
  EXPECT_EQ(unit.unit.counters().timers_asked_again, 1u);
  // A packet overtakes the answer, and sets the timer anew.
  unit.Send(Within(1, 2), "\x09");
  unit.Serve(Ms(20));
  EXPECT_THAT(unit.on_timers(Ms(28)), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(30)), ElementsAre("timer due 1 applied 2"));
}

TEST(UnitTimers, DoNotRunAtATimerPacketThatIsTooEarlyForThem) {
  TestUnit unit(kA, kWithoutPushes);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(0));
  unit.now = Ms(5) + Nanos{-1};
  EXPECT_THAT(unit.RunTimer(1, 2), ElementsAre("advance 1/2"));
  EXPECT_THAT(alarms.ran, IsEmpty());
  unit.now = Ms(5);
  unit.RunTimer(1, 3);
  EXPECT_THAT(alarms.ran, ElementsAre("1@5"));
  // Nor where none is set any more, nor at one that became a tombstone.
  unit.RunTimer(1, 4);
  unit.Send(Within(1, 5), "\x01");
  unit.Serve();
  unit.now = Ms(7);
  unit.Send(Tombstone(TimerPacket(1, 6, Ms(7))));
  EXPECT_THAT(unit.Serve(), ElementsAre("advance 1/6"));
  EXPECT_THAT(alarms.ran, ElementsAre("1@5"));
}

TEST(UnitTimers, AreCountedButNotAskedForAtTheEndOfARun) {
  TestUnit unit(kA, kWithoutPushes);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Send(New(2), "\x07");
  unit.Serve(Ms(10));
  EXPECT_THAT(unit.on_timers(Ms(15)), IsEmpty());
  unit.unit.StopTimers();
  EXPECT_EQ(unit.unit.counters().timers_left, 0u);
  EXPECT_THAT(unit.on_timers(Ms(16)), IsEmpty());
  EXPECT_EQ(unit.unit.counters().timers_left, 1u);
  EXPECT_THAT(unit.on_timers(Ms(100)), IsEmpty());
  EXPECT_EQ(unit.unit.counters().timers_left, 2u);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

// It may never be answered: a controller has no unit left to which the flow
// could go.
TEST(UnitTimers, AreNotAskedForAgainAtTheEndOfARun) {
  TestUnit unit(kA, kWithoutPushes);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(10));
  EXPECT_THAT(unit.on_timers(Ms(16)), ElementsAre("timer due 1 applied 1"));
  EXPECT_THAT(unit.on_timers(Ms(100)), ElementsAre("timer due 1 applied 1"));
  unit.unit.StopTimers();
  EXPECT_THAT(unit.on_timers(Ms(1'000)), IsEmpty());
  EXPECT_EQ(unit.unit.counters().timers_left, 1u);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitTimers, AreReplacedAndCancelledByLaterPackets) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Send(Within(1, 2), "\x09");
  unit.Send(New(2), "\x05");
  unit.Send(Within(2, 2), std::string_view("\0", 1));
  unit.Serve(Ms(0));
  EXPECT_THAT(unit.on_timers(Ms(8)), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(10)), ElementsAre("timer due 1 applied 2"));
}

TEST(UnitTimers, AreAskedForInTheOrderOfTheirTimes) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x1e");
  unit.Send(New(2), "\x0a");
  unit.Send(New(3), "\x14");
  unit.Send(New(4), "\x0a");
  unit.Serve(Ms(0));
  TestUnit::Lines asked;
  for (const int64_t ms : {11, 21, 31}) {
    for (const std::string& line : unit.on_timers(Ms(ms))) {
      if (line.starts_with("timer due")) asked.push_back(line.substr(10, 1));
    }
    // So many are due by then; those before are asked for again.
    if (ms == 11) {
      EXPECT_THAT(asked, ElementsAre("2", "4"));
    }
    if (ms == 21) {
      EXPECT_THAT(asked, ::testing::Contains("3"));
      EXPECT_THAT(asked, ::testing::Not(::testing::Contains("1")));
    }
  }
  EXPECT_THAT(asked, ::testing::Contains("1"));
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
  a.on_pull(1, 1, kB);
  EXPECT_EQ(a.unit.next_wakeup(), Instant::max());
  a.on_pull(1, 1, kB);  // again, from the copy that was handed over
  b.Send(First(1, 2, kA));
  b.Serve(Ms(11));
  ASSERT_THAT(a.states, SizeIs(2));
  for (const SentState& sent : a.states) {
    EXPECT_EQ(sent.state.timer, Ms(15));
    EXPECT_EQ(sent.state.link, LinkType::kRawIp);
    b.on_state(sent);
  }
  EXPECT_THAT(a.on_timers(Ms(20)), IsEmpty());
  b.Serve();
  EXPECT_THAT(b.on_timers(Ms(20)), ElementsAre("timer due 1 applied 2"));
  b.RunTimer(1, 3);
  EXPECT_THAT(at_a.ran, IsEmpty());
  EXPECT_THAT(at_b.ran, ElementsAre("1@15"));
}

TEST(UnitTimers, MoveWithAPushToo) {
  TestUnit a(kA);
  TestUnit b(kB);
  Alarms at_b(b);
  a.nf.packet = SetTimerByFirstByte;
  a.Replicate(1, {kB});
  a.Send(New(1), "\x05");
  a.Serve(Ms(0));
  EXPECT_THAT(a.on_timers(Ms(4)), ElementsAre("push 1 applied 1 to 1"));
  EXPECT_EQ(a.states.at(0).state.timer, Ms(5));
  b.on_state(a.states.at(0));
  // A replica asks for nothing.
  EXPECT_THAT(b.on_timers(Ms(6)), IsEmpty());
  b.Send(First(1, 2, kA));
  b.Serve();
  EXPECT_THAT(b.on_timers(Ms(7)), ElementsAre("timer due 1 applied 2"));
  b.RunTimer(1, 3);
  EXPECT_THAT(at_b.ran, ElementsAre("1@5"));
}

TEST(UnitTimers, RunAtATimerPacketThatBringsTheFlowAlong) {
  TestUnit b(kB);
  Alarms alarms(b);
  PacketMeta meta = First(1, 2, kA);
  meta.flags |= PacketMeta::kNull | PacketMeta::kTimer;
  meta.arrival = Ms(6);
  b.now = Ms(6);
  b.Send(meta);
  EXPECT_THAT(b.Serve(), ElementsAre("pull 1 need 1 from 0"));
  b.on_state(1, 1, Ms(5));
  EXPECT_THAT(b.Serve(), ElementsAre("advance 1/2", "took 1/2 to 0"));
  EXPECT_THAT(alarms.ran, ElementsAre("1@5"));
}

TEST(UnitTimers, AreForgottenWithARequestWhenTheFlowMovesOn) {
  TestUnit a(kA);
  a.nf.packet = SetTimerByFirstByte;
  a.Send(New(1), "\x05");
  a.Serve(Ms(0));
  EXPECT_THAT(a.on_timers(Ms(6)), ElementsAre("timer due 1 applied 1"));
  a.on_pull(1, 1, kB);
  a.on_takeover(1, 2, kB);
  EXPECT_EQ(a.unit.flows(), 0u);
  EXPECT_EQ(a.unit.next_wakeup(), Instant::max());
}

TEST(UnitTimers, CountFromTheTimeTheyWereDueWhenSetFromATimer) {
  TestUnit unit(kA, kWithoutPushes);
  unit.nf.packet = SetTimerByFirstByte;
  std::vector<Instant> ran;
  unit.nf.timer = [&](FlowState& flow) {
    flow.set_timer(Milliseconds(10));
    ran.push_back(flow.timer());
    if (ran.size() == 3) flow.cancel_timer();
  };
  unit.Send(New(1), "\x0a");
  unit.Serve(Ms(0));
  EXPECT_THAT(unit.on_timers(Ms(25)), ElementsAre("timer due 1 applied 1"));
  unit.RunTimer(1, 2);
  EXPECT_THAT(ran, ElementsAre(Ms(20)));
  EXPECT_THAT(unit.on_timers(Ms(25)), ElementsAre("timer due 1 applied 2"));
  unit.RunTimer(1, 3);
  EXPECT_THAT(unit.on_timers(Ms(31)), ElementsAre("timer due 1 applied 3"));
  unit.RunTimer(1, 4);
  EXPECT_THAT(ran, ElementsAre(Ms(20), Ms(30), Ms(40)));
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitTimers, LetTimePassWhenOneSetsItselfWithoutDelay) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  Instant next;
  unit.nf.timer = [&](FlowState& flow) {
    flow.set_timer(Nanos{0});
    next = flow.timer();
    flow.set_timer(Nanos{-5});
  };
  unit.Send(New(1), "\x01");
  unit.Serve(Ms(0));
  unit.now = Ms(2);
  unit.RunTimer(1, 2);
  EXPECT_EQ(next, Ms(1));
  unit.RunTimer(1, 3);
  EXPECT_EQ(next, Ms(1) + FlowState::kMinPeriod);
}

TEST(UnitTimers, RunInTheirTurnAmongTheFlowsPackets) {
  TestUnit unit(kA);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(0));
  unit.Send(Within(1, 2), "\x05");
  unit.Begin();
  EXPECT_THAT(unit.on_timers(Ms(6)), ElementsAre("timer due 1 applied 1"));
  unit.Finish(Ms(7));
  // The controller refuses that request; what is due now is asked for.
  EXPECT_THAT(unit.on_timers(Ms(20)),
              ::testing::Contains("timer due 1 applied 2"));
  unit.RunTimer(1, 3);
  EXPECT_THAT(alarms.ran, ElementsAre("1@12"));
}

TEST(UnitTimers, ChangeTheStateAndItsClock) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [&](FlowState& flow) { flow.put(unit.nf.count, 77); };
  unit.Send(New(1), "\x05");
  unit.Serve();
  unit.on_timers(Ms(6));
  unit.RunTimer(1, 2);
  EXPECT_THAT(unit.on_pull(1, 2, kB), ElementsAre("state 1 applied 2 to 1"));
  EXPECT_EQ(unit.states.at(0).record, StateOf(1, 77).record);
  EXPECT_EQ(unit.states.at(0).state.timer, Instant::max());
}

TEST(UnitTimers, ArePushedBeforeAndAfterTheyRan) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [&](FlowState& flow) { flow.put(unit.nf.count, 77); };
  unit.Replicate(1, {kB});
  unit.Send(New(1), "\x05");
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(4)), ElementsAre("push 1 applied 1 to 1"));
  unit.on_timers(Ms(6));
  unit.RunTimer(1, 2);
  EXPECT_THAT(unit.on_timers(Ms(8)), ElementsAre("push 1 applied 2 to 1"));
  EXPECT_EQ(unit.states.at(1).record, StateOf(1, 77).record);
}

TEST(UnitTimers, RunNowhereWhileTheStateIsOnItsWay) {
  // A chain of two moves, each answer lost once.
  TestUnit a(kA);
  TestUnit b(kB);
  TestUnit c(kC);
  Alarms at_c(c);
  a.nf.packet = SetTimerByFirstByte;
  a.Send(New(1), "\x05");
  a.Serve(Ms(0));
  b.Send(First(1, 2, kA));
  EXPECT_THAT(b.Serve(Ms(1)), ElementsAre("pull 1 need 1 from 0"));
  a.on_pull(1, 1, kB);  // lost
  c.Send(First(1, 3, kB));
  c.Serve(Ms(2));
  b.on_pull(1, 2, kC);
  EXPECT_THAT(a.on_timers(Ms(9)), IsEmpty());
  EXPECT_THAT(b.on_timers(Ms(9)), IsEmpty());
  EXPECT_THAT(b.on_timers(Ms(12)), ElementsAre("pull 1 need 1 from 0"));
  a.on_pull(1, 1, kB);
  b.on_state(a.states.back());
  EXPECT_THAT(b.Serve(Ms(13)), SizeIs(3));  // runs, and is given to c
  EXPECT_THAT(b.on_timers(Ms(14)), IsEmpty());
  EXPECT_THAT(a.on_timers(Ms(14)), IsEmpty());
  c.now = Ms(14);
  c.on_state(b.states.back());
  c.Serve();
  c.on_timers(Ms(14));
  c.RunTimer(1, 4);
  EXPECT_THAT(at_c.ran, ElementsAre("1@5"));
}

TEST(UnitTimers, OfAStateThatCameTooLateAreNotAskedFor) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Serve();
  unit.on_state(1, 2, Ms(5));
  unit.nf.packet = [](Packet&, FlowState& flow) {
    flow.cancel_timer();
    return Verdict::forward();
  };
  unit.Serve();
  unit.on_state(1, 2, Ms(5));
  EXPECT_THAT(unit.on_pull(1, 3, kC), ElementsAre("state 1 applied 3 to 2"));
  unit.on_state(1, 2, Ms(5));
  unit.on_takeover(1, 4, kC);
  unit.on_takeover_ack(1, 3, kA);
  unit.on_state(1, 2, Ms(5));
  EXPECT_EQ(unit.unit.flows(), 0u);
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
  // Nor while the next packet of the flow waits for a newer one.
  unit.Send(First(1, 5, kC));
  EXPECT_THAT(unit.Serve(), ElementsAre("pull 1 need 4 from 2"));
  unit.on_state(1, 2, Ms(5));
  EXPECT_THAT(unit.on_timers(Ms(6)), IsEmpty());
  unit.on_state(1, 4);
  EXPECT_THAT(unit.Serve(), SizeIs(2));
  EXPECT_EQ(unit.refused(StateRefusal::kUnsolicited), 2u);
  EXPECT_EQ(unit.refused(StateRefusal::kStale), 2u);
}

TEST(UnitTimers, OfAStateAreNoLaterThanAUnitCanBear) {
  // One that was due years ago.
  TestUnit unit(kB);
  Instant due;
  unit.nf.timer = [&](FlowState& flow) {
    flow.set_timer(Nanos{0});
    due = flow.timer();
  };
  unit.Send(First(1, 3, kA));
  unit.Serve(Ms(100'000));
  unit.on_state(1, 2, Instant::min());
  unit.Serve();
  unit.RunTimer(1, 4);
  EXPECT_EQ(due, Ms(100'000) + Nanos{-kMaxTimerLag.ns});
}

TEST(UnitTimers, AreNotAllAskedForInOneCallWhereThereAreTooMany) {
  constexpr uint32_t kFlows = kMaxTimersPerCall + 10;
  TestUnit unit(kA, {.max_flows = kFlows,
                     .queue_packets = kFlows,
                     .packets_elsewhere = 0,
                     .replicas = 0,
                     .max_replicas = 8});
  unit.nf.packet = SetTimerByFirstByte;
  for (uint64_t flow = 1; flow <= kFlows; ++flow) {
    unit.Send(New(flow), "\x05");
    unit.Serve(Ms(0));
  }
  size_t asked = 0;
  int calls = 0;
  for (; unit.unit.next_wakeup() <= Ms(6); ++calls) {
    const size_t now_asked = unit.on_timers_once(Ms(6)).size();
    EXPECT_LE(now_asked, static_cast<size_t>(kMaxTimersPerCall));
    asked += now_asked;
  }
  EXPECT_EQ(asked, kFlows);
  EXPECT_GE(calls, 2);
}

TEST(UnitTimers, EmitAheadOfTheirClock) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [](FlowState& flow) {
    const std::vector<std::byte> frame(20);
    while (flow.emit(frame)) {
    }
  };
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(0));
  unit.on_timers(Ms(6));
  const TestUnit::Lines lines = unit.RunTimer(1, 2);
  ASSERT_EQ(lines.size(), FlowState::kMaxEmits + size_t{1});
  EXPECT_EQ(lines.front(), "emit at 1/2");
  EXPECT_EQ(lines.back(), "advance 1/2");
  EXPECT_EQ(unit.pool.in_use(), 0u);
}

}  // namespace
}  // namespace snf
