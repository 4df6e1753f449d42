// SPDX-License-Identifier: Apache-2.0
// Messages of other units that lie: each is refused, with a counted reason, or
// does no harm to other flows.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/test_unit_fingerprint.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;
constexpr uint64_t kFar = ~uint64_t{0};

// Keeps flow 1 at clock 2 (current), 2 at 1 (given), 3 at 5 (replica); holds
// 4/7, which waits for state from `kB`.
TestUnit Victim() {
  TestUnit unit(kA);
  unit.Replicate(1, {kB, kC});
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Send(New(2));
  unit.Send(First(4, 7, kB));
  unit.Serve();
  unit.on_pull(2, 1, kB);
  unit.on_push(3, 5);
  EXPECT_EQ(unit.refused(), 0u);
  return unit;
}

// Nothing but the reason's counter changes.
void ExpectRefused(StateRefusal reason,
                   const std::function<TestUnit::Lines(TestUnit&)>& message) {
  TestUnit unit = Victim();
  const uint64_t before = UnitFingerprint::Of(unit.unit);
  EXPECT_THAT(message(unit), IsEmpty());
  EXPECT_EQ(UnitFingerprint::Of(unit.unit), before);
  EXPECT_EQ(unit.refused(), 1u);
  EXPECT_EQ(unit.refused(reason), 1u);
  EXPECT_THAT(unit.on_state(4, 6), IsEmpty());
  EXPECT_THAT(unit.Serve(), ElementsAre("release 4/7", "took 4/7 to 1"));
}

void ExpectStateRefused(StateRefusal reason, const SentState& sent) {
  ExpectRefused(reason, [&](TestUnit& unit) { return unit.on_state(sent); });
}

// Of a record or its message, as it is pushed and as it is awaited.
void ExpectRefusedBothWays(StateRefusal reason,
                           const std::function<void(SentState&)>& spoil) {
  SentState push = PushOf(9, 4);
  spoil(push);
  ExpectStateRefused(reason, push);
  SentState answer = StateOf(4, 6);
  spoil(answer);
  ExpectStateRefused(reason, answer);
}

TEST(HostileState, IsRefusedWhenMalformed) {
  constexpr StateRefusal kReason = StateRefusal::kMalformed;
  const auto blob = ScriptedNf::Schema().offset(1);
  const auto lengthen = [](SentState& sent, uint32_t more) {
    sent.record.resize(ScriptedNf::Schema().record_bytes() + more);
    sent.state.bytes = static_cast<uint32_t>(sent.record.size());
  };
  const std::vector<std::function<void(SentState&)>> ways = {
      [](SentState& sent) { sent.state.flow = kNoFlow; },
      [](SentState& sent) { sent.state.applied = Clock{}; },
      [](SentState& sent) { sent.state.link = LinkType{200}; },
      [](SentState& sent) { sent.state.bytes += 8; },
      [](SentState& sent) { sent.state.bytes = ~0u; },
      [](SentState& sent) { sent.record.pop_back(); },
      [](SentState& sent) { sent.record.clear(); },
      [=](SentState& sent) { lengthen(sent, 8); },
      // Not of whole words.
      [](SentState& sent) {
        sent.record.resize(12);
        sent.state.bytes = 12;
      },
      // A slot that does not exist has a value; one without value has bytes.
      [](SentState& sent) { sent.record[0] |= std::byte{4}; },
      [](SentState& sent) { sent.record[0] = std::byte{0}; },
      // A blob that is longer than it may be, or has bytes behind its length.
      [=](SentState& sent) {
        lengthen(sent, 0);
        sent.record[0] |= std::byte{2};
        sent.record[blob] = std::byte{13};
      },
      [=](SentState& sent) {
        lengthen(sent, 0);
        sent.record[0] |= std::byte{2};
        sent.record[blob + 7] = std::byte{0xff};
      },
      [=](SentState& sent) {
        lengthen(sent, 0);
        sent.record[0] |= std::byte{2};
        sent.record[blob] = std::byte{2};
        sent.record[blob + 8 + 2] = std::byte{1};
      }};
  for (const auto& spoil : ways) ExpectRefusedBothWays(kReason, spoil);
}

TEST(HostileState, IsRefusedWhenMadeByAnotherNf) {
  ExpectRefusedBothWays(StateRefusal::kSchema,
                        [](SentState& sent) { sent.state.schema ^= 1; });
  ExpectRefusedBothWays(StateRefusal::kSchema, [](SentState& sent) {
    sent.state.schema = 0;
    sent.record = {};
    sent.state.bytes = 0;
  });
}

TEST(HostileState, IsRefusedWhenReplayed) {
  for (const auto& [flow, applied] :
       {std::pair{1, 1}, {1, 2}, {2, 1}, {3, 5}, {3, 1}}) {
    ExpectStateRefused(StateRefusal::kStale, StateOf(flow, applied));
    ExpectStateRefused(StateRefusal::kStale, PushOf(flow, applied));
  }
}

TEST(HostileState, IsRefusedWhenNobodyAskedForIt) {
  for (const auto& [flow, applied] :
       {std::pair{9, 4}, {1, 3}, {2, 2}, {3, 6}, {4, 5}}) {
    ExpectStateRefused(StateRefusal::kUnsolicited, StateOf(flow, applied));
  }
}

TEST(HostileState, IsRefusedWhenItsClockIsFromTheFuture) {
  for (const uint64_t applied : {uint64_t{3}, uint64_t{99}, kFar}) {
    ExpectStateRefused(StateRefusal::kNotTaken, PushOf(1, applied));
    ExpectStateRefused(StateRefusal::kNotTaken, PushOf(2, applied));
  }
  for (const uint64_t applied : {uint64_t{7}, uint64_t{8}, kFar}) {
    ExpectStateRefused(StateRefusal::kFutureClock, PushOf(4, applied));
    ExpectStateRefused(StateRefusal::kFutureClock, StateOf(4, applied));
  }
}

TEST(HostileState, IsRefusedWhileItsFlowIsAboutToRun) {
  TestUnit unit(kB);
  unit.Send(First(1, 3, kA));
  unit.Send(New(2));
  unit.Begin();
  unit.on_state(1, 2);
  unit.on_state(1, 8);  // while 1/3 waits for service
  unit.on_push(1, 8);
  unit.Finish();
  unit.Begin();
  unit.on_state(1, 8);  // while it is in service
  unit.on_push(1, 8);
  EXPECT_EQ(unit.refused(StateRefusal::kFutureClock), 4u);
  EXPECT_EQ(unit.Finish().at(0), "release 1/3");
  EXPECT_EQ(unit.CountOf(1), 3u);
}

TEST(HostilePull, IsRefusedWhenMalformed) {
  for (const auto& [flow, need, requester] :
       {std::tuple{value(kNoFlow), uint64_t{1}, kB},
        {uint64_t{1}, uint64_t{0}, kB},
        {uint64_t{1}, uint64_t{2}, kA},
        {uint64_t{1}, uint64_t{2}, value(kNoUnit)}}) {
    ExpectRefused(StateRefusal::kMalformed, [&](TestUnit& unit) {
      return unit.on_pull(flow, need, requester);
    });
  }
}

TEST(HostilePull, IsRefusedWhenItsClockIsPast) {
  for (const uint64_t flow : {1, 3}) {
    ExpectRefused(StateRefusal::kPullStale,
                  [&](TestUnit& unit) { return unit.on_pull(flow, 1, kC); });
  }
}

TEST(HostilePull, OfUnknownFlowsTakesNoMoreRoomThanThereIs) {
  TestUnit unit = Victim();
  constexpr uint64_t kRoom = 17;  // queue_packets + packets_elsewhere + 1
  for (uint64_t flow = 100; flow < 1'000; ++flow) {
    EXPECT_THAT(unit.on_pull(flow, kFar, kC), IsEmpty());
  }
  EXPECT_EQ(unit.refused(StateRefusal::kPullsFull), 900 - kRoom);
  EXPECT_EQ(unit.unit.flows(), 4u + kRoom);
  // What can be answered is.
  EXPECT_THAT(unit.on_pull(1, 2, kB), ElementsAre("state 1 applied 2 to 1"));
  EXPECT_THAT(unit.on_pull(2, 1, kB), ElementsAre("state 2 applied 1 to 1"));
  // The others are forgotten, and what has to wait has room again.
  unit.on_timers(Ms(21'000));
  EXPECT_EQ(unit.unit.counters().pulls_forgotten, kRoom);
  EXPECT_THAT(unit.on_pull(4, 7, kC), IsEmpty());
  unit.on_state(4, 6);
  EXPECT_EQ(unit.Serve().back(), "state 4 applied 7 to 2");
}

TEST(HostilePull, OfManyUnitsIsAnsweredAFewAtATime) {
  TestUnit unit(kA);
  for (uint16_t from = 1; from <= 17; ++from) unit.on_pull(1, 1, from);
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), SizeIs(5));
  size_t answers = 4;
  for (uint16_t from = 1; from <= 17; ++from) {
    answers += unit.on_pull(1, 1, from).size();
  }
  EXPECT_GE(answers, 17u);
}

// That a unit does not send one as the controller's is seen to where words from
// units are taken (WordsBetweenUnits).
TEST(HostileTakeover, IsRefusedWhenMalformed) {
  ExpectRefused(StateRefusal::kMalformed,
                [](TestUnit& unit) { return unit.on_takeover(1, 3, kA); });
}

TEST(HostileTakeover, DoesNotTakeAFlowWhoseNextClockIsNotTheOneTold) {
  for (const uint64_t clock : {uint64_t{4}, kFar}) {
    TestUnit unit = Victim();
    const uint64_t before = UnitFingerprint::Of(unit.unit);
    EXPECT_THAT(unit.on_takeover(1, clock, kC), IsEmpty());
    EXPECT_THAT(unit.on_takeover(2, clock, kC), IsEmpty());
    EXPECT_EQ(unit.refused(StateRefusal::kFutureClock), 2u);
    EXPECT_EQ(UnitFingerprint::Of(unit.unit), before);
    unit.Send(Within(1, 3));
    EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3"));
    EXPECT_THAT(unit.on_pull(2, 1, kB), ElementsAre("state 2 applied 1 to 1"));
  }
}

TEST(HostileTakeover, DoesNotTakeAFlowWhoseStateHasNotLeft) {
  TestUnit unit(kA);
  unit.Send(New(1));
  unit.Serve();
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  EXPECT_THAT(unit.on_takeover(1, 2, kC), IsEmpty());
  EXPECT_EQ(unit.refused(StateRefusal::kFutureClock), 1u);
  EXPECT_EQ(unit.unit.flows(), 1u);
}

TEST(HostileTakeoverAck, OfWhatWasNotToldChangesNothing) {
  TestUnit unit = Victim();
  unit.on_state(4, 6);
  unit.Serve();
  const uint64_t before = UnitFingerprint::Of(unit.unit);
  unit.on_takeover_ack(4, 6, kB);
  unit.on_takeover_ack(4, kFar, kC);
  unit.on_takeover_ack(1, kFar, kB);
  unit.on_takeover_ack(value(kNoFlow), kFar, kB);
  unit.on_takeover_ack(99, 1, value(kNoUnit));
  unit.on_takeover_ack(4, kFar, value(kNoUnit));
  EXPECT_EQ(UnitFingerprint::Of(unit.unit), before);
  EXPECT_EQ(unit.refused(StateRefusal::kMalformed), 2u);
}

TEST(HostilePush, FromTheFutureDoesNotDropPackets) {
  TestUnit unit(kA);
  unit.on_push(5, kFar);
  unit.Send(New(5));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 5/1"));
}

TEST(HostilePush, TakesNoMoreRoomThanThereIs) {
  TestUnit unit = Victim();
  for (uint64_t flow = 100; flow < 1'000; ++flow) unit.on_push(flow, kFar);
  EXPECT_EQ(unit.unit.replicas(), kSmallUnit.max_replicas);
  EXPECT_EQ(unit.unit.flows(), 3u + kSmallUnit.max_replicas);
}

}  // namespace
}  // namespace snf
