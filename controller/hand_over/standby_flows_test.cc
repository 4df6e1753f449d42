// SPDX-License-Identifier: Apache-2.0
#include "controller/hand_over/standby_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace snf {
namespace {

FlowKey Key(uint8_t number) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  key.source.bytes[15] = std::byte{number};
  return key;
}

FlowKey External(uint8_t number) {
  FlowKey key = Key(number);
  key.form = FlowKeyForm::kIpv4Endpoint;
  return key;
}

// Flow `number` of a controller, with id 100 + number, as of a clock.
StandbyFlow Flow(uint8_t number, uint64_t clock, uint8_t alias = 0) {
  StandbyFlow flow;
  flow.flow.name.flow = FlowId{uint64_t{100} + number};
  flow.flow.name.key = Key(number);
  if (alias != 0) flow.flow.name.alias = External(alias);
  flow.flow.last = flow.state.applied = Clock{clock};
  flow.record.resize(8, std::byte{number});
  return flow;
}

class StandbyFlowsTest : public testing::Test {
 protected:
  void Put(uint32_t from, const StandbyFlow& flow, uint64_t round = 1) {
    flows_.Put(from, round, now_, flow);
  }
  // The clock of the flow that is taken; 0: there is none. Its unit has it at
  // once, or does not have it yet: then its id here is that of its home + 100.
  uint64_t Take(const FlowKey& key, bool by_alias = false,
                bool is_shown = true) {
    const StandbyFlow* const found = flows_.Find(key, by_alias, now_);
    if (found == nullptr) return 0;
    const Clock clock = found->flow.last;
    const FlowId here{value(found->flow.name.flow) + 100};
    flows_.OnTaken(FlowKey{found->flow.name.key}, here);
    if (is_shown) flows_.OnShown(here, clock + 1);
    return value(clock);
  }
  // Has Settle look at up to `most` flows: returns the numbers of the flows
  // for which it asked.
  std::vector<uint64_t> Settle(size_t most, StandbyFlows::Fate fate) {
    std::vector<uint64_t> asked;
    flows_.Settle(most, [&](FlowId here) {
      asked.push_back(value(here) - 200);
      return fate;
    });
    return asked;
  }

  Instant now_{1'000'000'000};
  StandbyFlows flows_{{.max_flows = 3, .idle_timeout = Seconds(10)}};
};

TEST_F(StandbyFlowsTest, TheNewestCopyIsTakenOnce) {
  Put(1, Flow(1, 3, 7));
  Put(1, Flow(2, 1));
  Put(1, Flow(1, 5, 8));
  EXPECT_EQ(flows_.size(), 2u);
  EXPECT_EQ(flows_.size_of(1), 2u);
  EXPECT_EQ(Take(External(7), true), 0u);  // its alias before
  const StandbyFlow* const found = flows_.Find(External(8), true, now_);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->flow.last, Clock{5});
  EXPECT_EQ(found->flow.name.key, Key(1));
  EXPECT_EQ(found->record, std::vector(8, std::byte{1}));
  EXPECT_EQ(flows_.size(), 2u) << "until it continues";
  EXPECT_EQ(Take(External(8), true), 5u);
  EXPECT_EQ(Take(Key(1)), 0u);
  EXPECT_EQ(Take(Key(2)), 1u);
  EXPECT_EQ(flows_.size_of(1), 0u);
  EXPECT_EQ(flows_.counters().taken, 2u);
}

TEST_F(StandbyFlowsTest, OfTwoControllersTheLaterFlowStays) {
  StandbyFlow early = Flow(1, 8);
  early.flow.last_packet = now_;
  StandbyFlow late = Flow(1, 3);
  late.flow.last_packet = now_ + Seconds(1);
  Put(0, late);
  Put(2, early);
  EXPECT_EQ(flows_.counters().outlived, 1u);
  EXPECT_EQ(flows_.size_of(2), 0u);
  EXPECT_EQ(Take(Key(1)), 3u);
  Put(2, early);
  Put(0, late);
  EXPECT_EQ(flows_.size_of(2), 0u);
  EXPECT_EQ(Take(Key(1)), 3u);
  // A controller's own copies replace each other.
  Put(0, late);
  Put(0, early);
  EXPECT_EQ(Take(Key(1)), 8u);
  EXPECT_EQ(flows_.counters().outlived, 1u);
}

TEST_F(StandbyFlowsTest, AnAliasThatIsAnotherFlowsNowStaysItsOwn) {
  Put(1, Flow(1, 3, 7));
  Put(1, Flow(2, 4, 7));
  flows_.OnEnd(1, Key(1), FlowId{101});
  EXPECT_EQ(Take(External(7), true), 4u);
}

TEST_F(StandbyFlowsTest, AnEndIsOfThatFlowOfThatController) {
  Put(1, Flow(1, 3));
  flows_.OnEnd(1, Key(1), FlowId{99});  // another flow with that key
  flows_.OnEnd(2, Key(1), FlowId{101});
  EXPECT_EQ(flows_.size(), 1u);
  flows_.OnEnd(1, Key(1), FlowId{101});
  EXPECT_EQ(flows_.size(), 0u);
  flows_.OnEnd(1, Key(1), FlowId{101});
}

TEST_F(StandbyFlowsTest, WhatAnotherRoundDidNotSendHasEnded) {
  Put(1, Flow(1, 3), 1);
  Put(1, Flow(2, 3), 1);
  Put(2, Flow(3, 3), 1);
  Put(1, Flow(2, 3), 2);
  EXPECT_EQ(flows_.size(), 3u);  // until the round is whole
  flows_.OnWhole(1, 2);
  EXPECT_EQ(Take(Key(1)), 0u);
  EXPECT_EQ(Take(Key(2)), 3u);
  EXPECT_EQ(Take(Key(3)), 3u);
}

TEST_F(StandbyFlowsTest, TheOldestMakeRoom) {
  for (uint8_t flow = 1; flow <= 3; ++flow) Put(1, Flow(flow, 1));
  Put(1, Flow(1, 2));
  Put(1, Flow(4, 1));
  EXPECT_EQ(flows_.size(), 3u);
  EXPECT_EQ(flows_.counters().evicted, 1u);
  EXPECT_EQ(Take(Key(2)), 0u);
  EXPECT_EQ(Take(Key(1)), 2u);
}

TEST_F(StandbyFlowsTest, AFlowThatWasIdleForTooLongIsOver) {
  StandbyFlow longer = Flow(2, 1);
  longer.flow.name.idle_timeout = Seconds(20);
  Put(1, Flow(1, 1));
  Put(1, longer);
  now_ = now_ + Seconds(11);
  EXPECT_EQ(Take(Key(1)), 0u);
  EXPECT_EQ(Take(Key(2)), 1u);
  EXPECT_EQ(flows_.counters().expired, 1u);
  EXPECT_EQ(flows_.counters().taken, 1u);
}

TEST_F(StandbyFlowsTest, ExpiredFlowsGoAlthoughNobodyAsksForThem) {
  StandbyFlow longer = Flow(2, 1);
  longer.flow.name.idle_timeout = Seconds(20);
  Put(1, Flow(1, 1));
  Put(2, longer);
  Put(1, Flow(3, 1));
  flows_.DropExpired(now_, 10);
  EXPECT_EQ(flows_.size(), 3u);
  now_ = now_ + Seconds(11);
  flows_.DropExpired(now_, 2);
  EXPECT_EQ(flows_.size_of(1), 1u) << "two were looked at";
  flows_.DropExpired(now_, 1);
  EXPECT_EQ(flows_.size_of(1), 0u);
  EXPECT_EQ(flows_.size_of(2), 1u);
  EXPECT_EQ(flows_.counters().expired, 2u);
  now_ = now_ + Seconds(10);
  flows_.DropExpired(now_, 1);
  EXPECT_EQ(flows_.size(), 0u);
  flows_.DropExpired(now_, 1);
}

TEST_F(StandbyFlowsTest, ALookGoesOnBehindFlowsThatAreGone) {
  for (uint8_t flow = 1; flow <= 3; ++flow) Put(1, Flow(flow, 1));
  flows_.DropExpired(now_, 1);
  EXPECT_EQ(Take(Key(2)), 1u);  // at which the next look was to be
  now_ = now_ + Seconds(11);
  flows_.DropExpired(now_, 1);
  EXPECT_EQ(flows_.size(), 1u);
  EXPECT_EQ(Take(Key(1)), 0u);
  EXPECT_EQ(flows_.counters().expired, 2u);
}

TEST_F(StandbyFlowsTest, FlowsOfHomesAreTakenAtOnce) {
  StandbyFlow other = Flow(3, 1);
  other.home = 7;
  Put(1, Flow(1, 1, 9));
  Put(2, other);
  Put(2, Flow(2, 1));
  EXPECT_TRUE(flows_.TakeAll(SetOf(5), ~MemberSet{0}).empty());
  const std::vector<StandbyFlow> taken =
      flows_.TakeAll(SetOf(0), SetOf(1) | SetOf(2));
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].flow.name.key, Key(1));
  EXPECT_EQ(taken[1].flow.name.key, Key(2));
  EXPECT_EQ(flows_.size_of(1), 0u);
  EXPECT_EQ(flows_.size_of(2), 1u);
  EXPECT_EQ(Take(External(9), true), 0u);
  Put(4, Flow(4, 1));
  EXPECT_EQ(flows_.TakeAll(SetOf(0) | SetOf(7), SetOf(2)).size(), 1u);
  EXPECT_EQ(flows_.size_of(4), 1u);
  EXPECT_EQ(flows_.TakeAll(SetOf(0), SetOf(4)).size(), 1u);
  EXPECT_EQ(flows_.size(), 0u);
}

TEST_F(StandbyFlowsTest, AControllersFlowsAreForgotten) {
  Put(1, Flow(1, 1));
  Put(2, Flow(2, 1));
  flows_.Forget(1);
  EXPECT_EQ(flows_.size(), 1u);
  EXPECT_EQ(flows_.size_of(1), 0u);
}

// --- Flows whose unit may fail before it has the state. ---

using Fate = StandbyFlows::Fate;
using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(StandbyFlowsTest, ACopyStaysUntilAUnitHasRunTheFlow) {
  Put(1, Flow(1, 5, 8));
  EXPECT_EQ(Take(Key(1), false, false), 5u);
  EXPECT_EQ(Take(Key(1)), 0u);
  EXPECT_EQ(Take(External(8), true), 0u);
  EXPECT_EQ(flows_.taken(), 1u);
  EXPECT_THAT(Settle(9, Fate::kRuns), ElementsAre(1));
  flows_.OnShown(FlowId{999}, Clock{9});
  // The unit has got the state, and has not run the next clock yet.
  flows_.OnShown(FlowId{201}, Clock{5});
  EXPECT_EQ(flows_.taken(), 1u);
  flows_.OnShown(FlowId{201}, Clock{6});
  EXPECT_EQ(flows_.taken(), 0u);
  EXPECT_EQ(flows_.size(), 0u);
  EXPECT_THAT(Settle(9, Fate::kLost), IsEmpty());
  EXPECT_EQ(flows_.counters().reverted, 0u);
}

TEST_F(StandbyFlowsTest, ALostFlowIsTakenOnceMore) {
  Put(1, Flow(1, 5, 8));
  Take(Key(1), false, false);
  EXPECT_THAT(Settle(9, Fate::kLost), ElementsAre(1));
  EXPECT_EQ(flows_.counters().reverted, 1u);
  EXPECT_EQ(flows_.taken(), 0u);
  EXPECT_TRUE(flows_.Find(Key(1), false, now_)->is_due);
  EXPECT_EQ(Take(External(8), true), 5u);
  EXPECT_EQ(Take(Key(1)), 0u);
  EXPECT_EQ(flows_.counters().taken, 2u);
}

TEST_F(StandbyFlowsTest, AFlowIsDueOnceAPacketHasComeForIt) {
  Put(1, Flow(1, 5));
  EXPECT_FALSE(flows_.Find(Key(1), false, now_)->is_due);
  flows_.SetDue(Key(1));
  EXPECT_TRUE(flows_.Find(Key(1), false, now_)->is_due);
  Put(1, Flow(1, 6));
  EXPECT_FALSE(flows_.Find(Key(1), false, now_)->is_due);
}

TEST_F(StandbyFlowsTest, AFlowThatHasEndedIsNoCopyAnyMore) {
  Put(1, Flow(1, 5));
  Take(Key(1), false, false);
  EXPECT_THAT(Settle(9, Fate::kEnded), ElementsAre(1));
  EXPECT_EQ(Take(Key(1)), 0u);
  EXPECT_EQ(flows_.size(), 0u);
}

TEST_F(StandbyFlowsTest, TakenFlowsAreAskedForInTurns) {
  for (uint8_t number = 1; number <= 3; ++number) {
    Put(1, Flow(number, 5));
    Take(Key(number), false, false);
  }
  EXPECT_THAT(Settle(2, Fate::kRuns), ElementsAre(1, 2));
  EXPECT_THAT(Settle(2, Fate::kRuns), ElementsAre(3, 1));
  EXPECT_THAT(Settle(1, Fate::kEnded), ElementsAre(2));
  EXPECT_THAT(Settle(9, Fate::kRuns), ElementsAre(3, 1));
}

// A newer copy, or none: the home has the flow again.
TEST_F(StandbyFlowsTest, TakenFlowsAreForgottenAsOthers) {
  Put(1, Flow(1, 5));
  Put(1, Flow(2, 5));
  Put(2, Flow(3, 5));
  for (uint8_t number = 1; number <= 3; ++number) {
    Take(Key(number), false, false);
  }
  Put(1, Flow(1, 7));
  EXPECT_EQ(flows_.taken(), 2u);
  EXPECT_EQ(Take(Key(1)), 7u);
  flows_.Forget(1);
  EXPECT_THAT(Settle(9, Fate::kRuns), ElementsAre(3));
  flows_.ForgetTaken();
  EXPECT_EQ(flows_.size(), 0u);
  EXPECT_EQ(flows_.taken(), 0u);
}

}  // namespace
}  // namespace snf
