// SPDX-License-Identifier: Apache-2.0
#include "controller/recovery/seal_round.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

constexpr UnitId kU0{0}, kU1{1}, kU2{2};
constexpr FlowId kFlow = MakeFlowId(0, 7, 3);
constexpr Clock kNewest{9};

class SealRounds : public testing::Test {
 protected:
  // Unit 0 fails; units 1 and 2 survive.
  SealRounds() {
    number_ = round_.Begin();
    round_.AwaitLogger(kU0);
    round_.AwaitUnit(kU1);
    round_.AwaitUnit(kU2);
  }
  DoneAnswer Answer(UnitId unit, FlowId flow, uint64_t applied) const {
    return {flow, Clock{applied}, number_, unit};
  }
  AnswerResult Sealed(UnitId unit, uint64_t applied, FlowId flow = kFlow) {
    return round_.on_sealed(Answer(unit, flow, applied), kNewest);
  }
  AnswerResult Done(UnitId unit, uint64_t applied, FlowId flow = kFlow) {
    return round_.on_done(Answer(unit, flow, applied), kNewest);
  }
  Clock DoneOf(FlowId flow = kFlow) const {
    return round_.done(slot_of(flow), kNewest);
  }

  SealRound round_{10, 3};
  uint32_t number_ = 0;
};

TEST_F(SealRounds, TakeTheHighestClockOfLoggersAndSurvivors) {
  EXPECT_EQ(Sealed(kU0, 5), AnswerResult::kTaken);
  EXPECT_EQ(Done(kU1, 8), AnswerResult::kTaken);
  EXPECT_EQ(Done(kU2, 6), AnswerResult::kTaken);
  EXPECT_EQ(DoneOf(), Clock{8});
  EXPECT_EQ(DoneOf(MakeFlowId(0, 6, 3)), Clock{}) << "nobody named it";
}

TEST_F(SealRounds, WaitForTheLoggerAndForEachSurvivor) {
  Done(kU1, 0, kNoFlow);
  EXPECT_FALSE(round_.complete());
  Sealed(kU0, 0, kNoFlow);
  EXPECT_FALSE(round_.complete()) << "unit 2 has not answered";
  Done(kU2, 0, kNoFlow);
  EXPECT_TRUE(round_.complete());
}

TEST_F(SealRounds, WaitNoLongerForAUnitThatStopped) {
  Done(kU1, 0, kNoFlow);
  Sealed(kU0, 0, kNoFlow);
  round_.on_stopped(kU2);
  EXPECT_TRUE(round_.complete());
}

TEST_F(SealRounds, RefuseWhatTheyDidNotAskFor) {
  EXPECT_EQ(Done(kU0, 9), AnswerResult::kNotAsked) << "the failed unit itself";
  EXPECT_EQ(Sealed(kU1, 9), AnswerResult::kNotAsked) << "it was not sealed";
  EXPECT_EQ(Done(kNoUnit, 9), AnswerResult::kNotAsked);
  EXPECT_EQ(Done(kU1, 10), AnswerResult::kFutureClock);
  Done(kU1, 0, kNoFlow);
  EXPECT_EQ(Done(kU1, 9), AnswerResult::kNotAsked) << "there was no more";
  EXPECT_EQ(Done(kU1, 0, kNoFlow), AnswerResult::kNotAsked);
  EXPECT_EQ(Done(kU2, 4), AnswerResult::kTaken);
  EXPECT_EQ(DoneOf(), Clock{4});
}

// What unit 1 applied and did not log is lost with it.
TEST_F(SealRounds, BeginAnewWhenAnotherUnitFails) {
  Done(kU1, 8);
  const DoneAnswer late = Answer(kU2, kFlow, 7);
  number_ = round_.Begin();
  round_.AwaitLogger(kU0);
  round_.AwaitLogger(kU1);
  round_.AwaitUnit(kU2);
  EXPECT_EQ(round_.on_done(late, kNewest), AnswerResult::kRound);
  EXPECT_EQ(DoneOf(), Clock{});
  EXPECT_EQ(Sealed(kU0, 5), AnswerResult::kTaken);
  EXPECT_EQ(Sealed(kU1, 6), AnswerResult::kTaken);
  EXPECT_EQ(DoneOf(), Clock{6});
}

TEST_F(SealRounds, ForgetAFlowThatIsOver) {
  Done(kU1, 2);
  round_.Erase(slot_of(kFlow));
  EXPECT_EQ(DoneOf(), Clock{});
}

// The flow goes on while the round waits.
TEST_F(SealRounds, KeepClocksAsTheFlowGoesOn) {
  constexpr uint64_t kWrap = uint64_t{1} << 32;
  const Clock newest{kWrap + 1};
  round_.on_done(Answer(kU1, kFlow, kWrap - 2), newest);
  EXPECT_EQ(round_.done(slot_of(kFlow), newest + 5), Clock{kWrap - 2});
  round_.on_done(Answer(kU2, kFlow, 3), newest);
  EXPECT_EQ(round_.done(slot_of(kFlow), newest + 5), Clock{kWrap - 2});
}

}  // namespace
}  // namespace snf
