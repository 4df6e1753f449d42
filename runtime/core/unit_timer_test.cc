// SPDX-License-Identifier: Apache-2.0
// The timers of a unit's NF: they belong to one copy of the state.
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

TEST(UnitTimers, RunOnceAndNotBeforeTheyAreDue) {
  TestUnit unit(kA, kWithoutPushes);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Serve(Ms(10));
  EXPECT_THAT(unit.on_timers(Ms(15) + Nanos{-1}), IsEmpty());
  EXPECT_THAT(alarms.ran, IsEmpty());
  EXPECT_LE(unit.unit.next_wakeup(), Ms(16));
  unit.on_timers(Ms(16));
  unit.on_timers(Ms(100));
  EXPECT_THAT(alarms.ran, ElementsAre("1@15"));
  EXPECT_EQ(unit.unit.next_wakeup(), Instant::max());
}

TEST(UnitTimers, AreCountedButDoNotRunAtTheEndOfARun) {
  TestUnit unit(kA, kWithoutPushes);
  Alarms alarms(unit);
  unit.nf.packet = SetTimerByFirstByte;
  unit.Send(New(1), "\x05");
  unit.Send(New(2), "\x07");
  unit.Send(New(3), "\x09");
  unit.Serve(Ms(10));
  unit.on_timers(Ms(16));
  unit.unit.StopTimers();
  EXPECT_EQ(unit.unit.counters().timers_left, 0u);
  unit.on_timers(Ms(18));
  EXPECT_EQ(unit.unit.counters().timers_left, 1u);
  unit.on_timers(Ms(100));
  EXPECT_EQ(unit.unit.counters().timers_left, 2u);
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
  unit.on_timers(Ms(8));
  EXPECT_THAT(alarms.ran, IsEmpty());
  unit.on_timers(Ms(10));
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
  unit.on_timers(Ms(50));
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
  a.on_pull(1, 1, kB);
  EXPECT_EQ(a.unit.next_wakeup(), Instant::max());
  a.on_pull(1, 1, kB);  // again, from the copy that was given
  b.Send(First(1, 2, kA));
  b.Serve(Ms(11));
  ASSERT_THAT(a.states, SizeIs(2));
  for (const SentState& sent : a.states) {
    EXPECT_EQ(sent.state.timer, Ms(15));
    EXPECT_EQ(sent.state.link, LinkType::kRawIp);
    b.on_state(sent);
  }
  a.on_timers(Ms(20));
  b.on_timers(Ms(20));
  EXPECT_THAT(at_a.ran, IsEmpty());
  EXPECT_THAT(at_b.ran, ElementsAre("1@15"));
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
  unit.on_timers(Ms(25));
  EXPECT_THAT(ran, ElementsAre(Ms(20), Ms(30)));
  unit.on_timers(Ms(31));
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
  unit.on_timers(Ms(2));
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
  unit.on_timers(Ms(6));
  unit.Finish(Ms(7));
  unit.on_timers(Ms(20));
  EXPECT_THAT(alarms.ran, ElementsAre("1@5", "1@12"));
}

TEST(UnitTimers, ChangeTheStateThatIsPulledAfterThem) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [&](FlowState& flow) { flow.put(unit.nf.count, 77); };
  unit.Send(New(1), "\x05");
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(6)), IsEmpty());
  EXPECT_THAT(unit.on_pull(1, 1, kB), ElementsAre("state 1 applied 1 to 1"));
  EXPECT_EQ(unit.states.at(0).record, StateOf(1, 77).record);
  EXPECT_EQ(unit.states.at(0).state.timer, Instant::max());
}

TEST(UnitTimers, KeepTheStateFromBeingPushedUntilTheyHaveRun) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [&](FlowState& flow) { flow.put(unit.nf.count, 77); };
  unit.Replicate(1, {kB});
  unit.Send(New(1), "\x05");
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(4)), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(5) + Microseconds(33)), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(6)), ElementsAre("push 1 applied 1 to 1"));
  EXPECT_EQ(unit.states.at(0).record, StateOf(1, 77).record);
}

TEST(UnitTimers, KeepTheStateFromBeingPushedForEverIfTheySetThemselves) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [](FlowState& flow) { flow.set_timer(Milliseconds(5)); };
  unit.Replicate(1, {kB});
  unit.Send(New(1), "\x05");
  unit.Serve();
  for (int64_t ms = 1; ms < 50; ++ms) {
    EXPECT_THAT(unit.on_timers(Ms(ms)), IsEmpty());
  }
}

TEST(UnitTimers, RunNowhereWhileTheStateIsOnItsWay) {
  // A chain of two moves, each answer lost once.
  TestUnit a(kA);
  TestUnit b(kB);
  TestUnit c(kC);
  Alarms at_a(a);
  Alarms at_b(b);
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
  a.on_timers(Ms(9));
  b.on_timers(Ms(9));
  EXPECT_THAT(b.on_timers(Ms(12)), ElementsAre("pull 1 need 1 from 0"));
  a.on_pull(1, 1, kB);
  b.on_state(a.states.back());
  EXPECT_THAT(b.Serve(Ms(13)), SizeIs(4));  // runs, and is given to c
  b.on_timers(Ms(14));
  a.on_timers(Ms(14));
  c.now = Ms(14);
  c.on_state(b.states.back());
  c.on_timers(Ms(14));
  EXPECT_THAT(at_a.ran, IsEmpty());
  EXPECT_THAT(at_b.ran, IsEmpty());
  EXPECT_THAT(at_c.ran, ElementsAre("1@5"));
}

TEST(UnitTimers, OfAStateThatCameTooLateDoNotRun) {
  TestUnit unit(kB);
  Alarms alarms(unit);
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
  unit.on_timers(Ms(6));
  EXPECT_THAT(alarms.ran, IsEmpty());
  unit.on_state(1, 4);
  EXPECT_THAT(unit.Serve(), SizeIs(3));
  EXPECT_EQ(unit.refused(StateRefusal::kUnsolicited), 2u);
  EXPECT_EQ(unit.refused(StateRefusal::kStale), 2u);
}

TEST(UnitTimers, OfAStateAreNoLaterThanAUnitCanBear) {
  // One that is due for years and sets itself again every millisecond.
  TestUnit unit(kB);
  int64_t ran = 0;
  unit.nf.timer = [&](FlowState& flow) {
    ++ran;
    flow.set_timer(Milliseconds(1));
  };
  unit.Send(First(1, 3, kA));
  unit.Serve(Ms(0));
  unit.on_state(1, 2, Instant::min());
  unit.on_timers(Ms(5));
  EXPECT_GE(ran, 20'000);
  EXPECT_LE(ran, 20'010);
}

TEST(UnitTimers, AreNotAllRunInOneCallWhereThereAreTooMany) {
  TestUnit unit(kA);
  int calls = 0;
  unit.nf.timer = [&](FlowState& flow) {
    ++calls;
    flow.set_timer(Milliseconds(1));
  };
  unit.now = Ms(100'000);
  unit.Send(First(1, 3, kB));
  unit.Serve();
  unit.on_state(1, 2, Ms(0));
  unit.Serve();
  unit.on_timers_once(Ms(100'000));
  EXPECT_EQ(calls, kMaxTimersPerCall);
  EXPECT_LE(unit.unit.next_wakeup(), unit.now);
}

TEST(UnitTimers, StopWhereOutMightOverflowAndGoOn) {
  TestUnit unit(kA);
  unit.nf.packet = SetTimerByFirstByte;
  unit.nf.timer = [](FlowState& flow) {
    const std::vector<std::byte> frame(20);
    while (flow.emit(frame)) {
    }
  };
  for (uint64_t flow = 1; flow <= 8; ++flow) unit.Send(New(flow), "\x05");
  unit.Serve(Ms(0));
  size_t emitted = 0;
  int calls = 0;
  for (; unit.unit.next_wakeup() <= Ms(6); ++calls) {
    emitted += unit.on_timers_once(Ms(6)).size();
  }
  EXPECT_EQ(emitted, 8u * FlowState::kMaxEmits);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(unit.pool.in_use(), 0u);
}

}  // namespace
}  // namespace snf
