// SPDX-License-Identifier: Apache-2.0
// Units of a host that show each other the states of flows
// (proto/protocol.md U16).
#include <cstddef>
#include <cstdint>
#include <utility>

#include "gtest/gtest.h"
#include "runtime/core/test_host.h"
#include "runtime/core/test_unit.h"

namespace snf {
namespace {

using Lines = TestUnit::Lines;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;

UnitOptions Logged() {
  UnitOptions options = kSmallUnit;
  options.has_logger = true;
  return options;
}

class UnitHost : public ::testing::Test {
 protected:
  UnitHost() { UseHost(host_); }

  void UseHost(TestHost& host) {
    a_.unit.UseHost(host);
    b_.unit.UseHost(host);
  }
  // Flow 1 has run its first packets at A, and was idle since.
  void RunAtA(uint64_t packets) {
    a_.Send(New(1));
    for (uint64_t clock = 2; clock <= packets; ++clock) {
      a_.Send(Within(1, clock));
    }
    a_.Serve();
    a_.on_timers(Ms(1));
    b_.now = Ms(1);
  }
  uint64_t missed(HostMiss miss) const {
    return b_.unit.counters().records_missed[static_cast<size_t>(miss)];
  }
  // Changes the record of A's flow 1 in the host.
  TestHost::Shown& shown() { return host_.records.at({UnitId{kA}, 0}); }

  TestHost host_{2};
  TestUnit a_{kA};
  TestUnit b_{kB};
};

TEST_F(UnitHost, AFlowFindsItsStateWithoutAMessage) {
  RunAtA(3);
  EXPECT_EQ(a_.unit.counters().records_shown, 1u);
  b_.Send(First(1, 4, kA));
  EXPECT_EQ(b_.Begin(), Lines{"service 1/4"});
  EXPECT_EQ(b_.unit.in_service_wait(), Unit::kNeverHeld);
  EXPECT_EQ(b_.Finish(), (Lines{"release 1/4", "took 1/4 to 0"}));
  EXPECT_EQ(b_.CountOf(1), 4u);
  EXPECT_EQ(b_.unit.counters().records_read, 1u);
  // A is told as after a push, and has nothing any more.
  EXPECT_EQ(a_.on_takeover(1, 4, kB), Lines{"ack 1/4 to 1"});
  EXPECT_EQ(a_.unit.flows(), 0u);
}

TEST_F(UnitHost, NothingIsPushedToUnitsOfTheHost) {
  a_.Replicate(1, {kB, 2});  // of which unit 2 is elsewhere
  a_.Send(New(1));
  a_.Serve();
  EXPECT_EQ(a_.on_timers(Ms(1)), Lines{"push 1 applied 1 to 2"});
}

TEST_F(UnitHost, AFlowThatWasNotIdleIsNamedInTheAnswer) {
  a_.Send(New(1));
  a_.Serve();
  b_.Send(First(1, 2, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 1 from 0"});
  EXPECT_EQ(missed(HostMiss::kUnknown), 1u);
  EXPECT_EQ(a_.on_pull(1, 1, kB), Lines{"state 1 applied 1 to 1"});
  EXPECT_TRUE(a_.states.at(0).state.named);
  EXPECT_TRUE(a_.states.at(0).record.empty());
  b_.on_state(a_.states.at(0));
  EXPECT_EQ(b_.Serve(), (Lines{"release 1/2", "took 1/2 to 0"}));
  EXPECT_EQ(b_.CountOf(1), 2u);
}

TEST_F(UnitHost, ARecordOfAnEarlierClockIsPulled) {
  RunAtA(2);
  a_.Send(Within(1, 3));
  a_.Serve();
  b_.Send(First(1, 4, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 3 from 0"});
  EXPECT_EQ(missed(HostMiss::kStale), 1u);
}

TEST_F(UnitHost, AUnitThatShowsWhatCannotBeIsNotBelieved) {
  RunAtA(3);
  const TestHost::Shown good = shown();
  shown().first.bytes += 8;  // more than there are
  b_.Send(First(1, 4, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 3 from 0"});
  shown() = good;
  ++shown().first.schema;
  b_.Send(First(2, 4, kA));
  shown().first.flow = FlowId{2};
  EXPECT_EQ(b_.Serve(), Lines{"pull 2 need 3 from 0"});
  EXPECT_EQ(missed(HostMiss::kMalformed), 2u);
  EXPECT_EQ(b_.unit.own_copies(), 0u);
}

TEST_F(UnitHost, ANamedRecordThatIsGoneComesByItsBytes) {
  RunAtA(1);
  shown().first.applied = Clock{7};
  b_.Send(First(1, 2, kA));
  b_.Serve();
  a_.on_pull(1, 1, kB);
  const SentState named = a_.states.at(0);
  host_.records.clear();
  EXPECT_EQ(b_.on_state(named), Lines{"pull 1 need 1 from 0"});
  // The second one is a lie, and asks for nothing more.
  EXPECT_EQ(b_.on_state(named), Lines{});
  EXPECT_EQ(b_.refused(StateRefusal::kUnsolicited), 1u);
  UnitOut out;
  a_.unit.on_pull(a_.now, {FlowId{1}, Clock{1}, UnitId{kB}, true}, out);
  const State state = out.commands().front().state;
  EXPECT_FALSE(state.named);
  EXPECT_EQ(state.bytes, StateOf(1, 1).record.size());
  EXPECT_EQ(b_.on_state(1, 1), Lines{});
  EXPECT_EQ(b_.Serve(), (Lines{"release 1/2", "took 1/2 to 0"}));
}

TEST_F(UnitHost, ANameThatNobodyAskedForIsRefused) {
  SentState named = StateOf(1, 1);
  named.state.named = true;
  named.record.clear();
  EXPECT_EQ(b_.on_state(named), Lines{});
  EXPECT_EQ(b_.refused(StateRefusal::kUnsolicited), 1u);
  TestUnit alone(kB);  // is on no host
  alone.Send(First(1, 2, kA));
  alone.Serve();
  EXPECT_EQ(alone.on_state(named), Lines{});
  EXPECT_EQ(alone.refused(StateRefusal::kUnsolicited), 1u);
}

TEST_F(UnitHost, AUnitOfAnotherHostIsPulledAtOnce) {
  RunAtA(3);
  host_.away = {UnitId{kA}, UnitId{kB}};
  b_.Send(First(1, 4, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 3 from 0"});
  EXPECT_EQ(missed(HostMiss::kAway), 1u);
  EXPECT_EQ(a_.on_pull(1, 3, kB), Lines{"state 1 applied 3 to 1"});
  EXPECT_FALSE(a_.states.at(0).state.named);
  EXPECT_EQ(b_.on_state(1, 3), Lines{});
  EXPECT_EQ(b_.Serve(), (Lines{"release 1/4", "took 1/4 to 0"}));
  EXPECT_EQ(b_.unit.counters().records_read, 0u);
}

TEST_F(UnitHost, WhatAUnitOfTheHostHasShownOutlivesItsPlaceThere) {
  RunAtA(3);
  host_.away = {UnitId{kA}};  // its process has failed, the next is elsewhere
  PacketMeta next = First(1, 4, kA);
  next.source_kind = StateSource::kLogger;
  b_.Send(next);
  EXPECT_EQ(b_.Begin(), Lines{"service 1/4"});
  EXPECT_EQ(b_.unit.counters().records_recovered, 1u);
  // The unit has shown nothing of another flow: the logger has the state.
  next = First(2, 4, kA);
  next.source_kind = StateSource::kLogger;
  b_.Finish();
  b_.Send(next);
  b_.Serve();
  EXPECT_EQ(missed(HostMiss::kAway), 1u);
}

TEST_F(UnitHost, AUnitWithoutAPlaceAnswersWithBytes) {
  TestHost full(2, /*slots=*/0);
  UseHost(full);
  RunAtA(1);
  const auto at = static_cast<size_t>(HostMiss::kFull);
  EXPECT_EQ(a_.unit.counters().records_missed[at], 1u);
  EXPECT_EQ(a_.on_pull(1, 1, kB), Lines{"state 1 applied 1 to 1"});
  EXPECT_FALSE(a_.states.at(0).state.named);
}

TEST_F(UnitHost, NothingIsShownThatIsNotReleased) {
  TestUnit logged(kA, Logged());
  logged.unit.UseHost(host_);
  logged.Send(New(1));
  logged.Serve();
  logged.on_timers(Ms(1));
  EXPECT_TRUE(host_.records.empty());
  logged.on_released(New(1));
  logged.on_timers(Ms(2));
  EXPECT_EQ(shown().first.applied, Clock{1});
}

TEST_F(UnitHost, AReadStateIsWholeForTheLogger) {
  RunAtA(3);
  TestUnit logged(kB, Logged());
  logged.unit.UseHost(host_);
  logged.Send(First(1, 4, kA));
  EXPECT_EQ(logged.Serve(), (Lines{"release 1/4", "log whole 1/4"}));
}

// A has failed, and packets name its logger.
PacketMeta FirstFromLogger(uint64_t flow, uint64_t clock) {
  PacketMeta meta = First(flow, clock, kA);
  meta.source_kind = StateSource::kLogger;
  return meta;
}

TEST_F(UnitHost, AStateOfAFailedUnitIsReadWhereTheUnitShowedIt) {
  RunAtA(3);
  b_.Send(FirstFromLogger(1, 4));
  EXPECT_EQ(b_.Serve(), (Lines{"release 1/4", "took 1/4 to 0"}));
  EXPECT_EQ(b_.CountOf(1), 4u);
  EXPECT_EQ(b_.unit.counters().records_read, 1u);
  EXPECT_EQ(b_.unit.counters().records_recovered, 1u);
}

TEST_F(UnitHost, ANullPacketMovesTheStateOfAFailedUnit) {
  RunAtA(3);
  b_.Send(Null(FirstFromLogger(1, 4)));
  EXPECT_EQ(b_.Serve(), (Lines{"advance 1/4", "took 1/4 to 0"}));
  EXPECT_EQ(b_.CountOf(1), 3u);
}

TEST_F(UnitHost, AnotherClockOfAFailedUnitComesFromItsLogger) {
  RunAtA(2);
  a_.Send(Within(1, 3));
  a_.Serve();
  b_.Send(FirstFromLogger(1, 4));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 3 from 0"});
  EXPECT_EQ(missed(HostMiss::kStale), 1u);
  EXPECT_EQ(b_.on_state(1, 3), Lines{});
  EXPECT_EQ(b_.Serve(), (Lines{"release 1/4", "took 1/4 to 0"}));
  EXPECT_EQ(b_.unit.counters().records_recovered, 0u);
  EXPECT_EQ(b_.unit.counters().records_rebuilt, 1u);
}

TEST_F(UnitHost, OnlyStatesOfFailedUnitsOfTheHostAreRebuilt) {
  a_.Send(New(1));
  a_.Serve();
  b_.Send(First(1, 2, kA));
  b_.Serve();
  EXPECT_EQ(b_.on_state(1, 1), Lines{});  // of the unit itself
  PacketMeta meta = FirstFromLogger(2, 2);
  meta.source = UnitId{5};  // is elsewhere
  b_.Send(meta);
  b_.Serve();
  EXPECT_EQ(b_.on_state(2, 1), Lines{});
  EXPECT_EQ(b_.Serve(), (Lines{"release 2/2", "took 2/2 to 5"}));
  EXPECT_EQ(b_.unit.counters().records_rebuilt, 0u);
}

TEST_F(UnitHost, APacketThatWaitsForAFailedUnitReadsTheState) {
  b_.Send(First(1, 4, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 3 from 0"});
  RunAtA(3);
  UnitOut out;
  b_.unit.on_redirect(b_.now,
                      {.flow = FlowId{1},
                       .clock = Clock{4},
                       .source = UnitId{kA},
                       .source_kind = StateSource::kLogger},
                      out);
  EXPECT_TRUE(out.empty());  // nothing is pulled
  EXPECT_EQ(b_.Serve(), (Lines{"release 1/4", "took 1/4 to 0"}));
  EXPECT_EQ(b_.unit.counters().records_recovered, 1u);
}

TEST_F(UnitHost, APacketBehindHeldOnesReadsNothing) {
  RunAtA(3);
  // Clock 2 waits for unit 5, which is elsewhere.
  b_.Send(First(1, 2, 5));
  b_.Send(First(1, 4, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 1 from 5"});
  EXPECT_EQ(b_.unit.counters().records_read, 0u);
}

}  // namespace
}  // namespace snf
