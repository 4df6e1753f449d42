// SPDX-License-Identifier: Apache-2.0
#include "controller/core/seal_round.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

constexpr UnitId kU0{0}, kU1{1}, kU2{2};
constexpr FlowId kFlow = MakeFlowId(0, 7, 3);

class SealRounds : public testing::Test {
 protected:
  // Unit 0 fails; units 1 and 2 survive.
  SealRounds() {
    failed_.Insert(kU0);
    survivors_.Insert(kU1);
    survivors_.Insert(kU2);
    number_ = round_.Begin(failed_, survivors_);
  }
  DoneAnswer Answer(UnitId unit, FlowId flow, uint64_t applied) const {
    return {flow, Clock{applied}, number_, unit};
  }
  bool Sealed(UnitId unit, uint64_t applied, FlowId flow = kFlow) {
    return round_.on_sealed(Answer(unit, flow, applied));
  }
  bool Done(UnitId unit, uint64_t applied, FlowId flow = kFlow) {
    return round_.on_done(Answer(unit, flow, applied));
  }
  void EndAll() {
    EXPECT_TRUE(Sealed(kU0, 0, kNoFlow));
    EXPECT_TRUE(Done(kU1, 0, kNoFlow));
    EXPECT_TRUE(Done(kU2, 0, kNoFlow));
  }
  void ExpectSource(uint64_t clock, UnitId unit, StateSource kind) const {
    const auto source = SourceOf(round_, owners_, kFlow, kU2, Clock{clock});
    ASSERT_TRUE(source.has_value()) << clock;
    EXPECT_EQ(source->unit, unit) << clock;
    EXPECT_EQ(source->kind, kind) << clock;
  }

  SealRound round_{10, 3};
  OwnerHistory owners_{10, 10};
  UnitSet failed_{3}, survivors_{3};
  uint32_t number_ = 0;
};

TEST_F(SealRounds, TakeTheHighestClockOfLoggersAndSurvivors) {
  EXPECT_TRUE(Sealed(kU0, 5));
  EXPECT_TRUE(Done(kU1, 8));
  EXPECT_TRUE(Done(kU2, 6));
  EndAll();
  EXPECT_EQ(round_.done(kFlow), Clock{8});
  EXPECT_EQ(round_.done(MakeFlowId(0, 6, 3)), Clock{}) << "nobody named it";
}

TEST_F(SealRounds, WaitForTheLogger) {
  EXPECT_FALSE(round_.complete());
  EXPECT_TRUE(Done(kU1, 0, kNoFlow));
  EXPECT_TRUE(Done(kU2, 0, kNoFlow));
  EXPECT_FALSE(round_.complete()) << "the logger has not answered";
  EXPECT_TRUE(Sealed(kU0, 0, kNoFlow));
  EXPECT_TRUE(round_.complete());
}

TEST_F(SealRounds, RefuseWhatTheyDidNotAskFor) {
  EXPECT_FALSE(Done(kU0, 9)) << "the failed unit itself";
  EXPECT_FALSE(Sealed(kU1, 9)) << "a logger that was not sealed";
  EXPECT_FALSE(Done(kNoUnit, 9));
  EXPECT_FALSE(Done(kU1, 9, MakeFlowId(0, 10, 0))) << "no such slot";
  EXPECT_TRUE(Done(kU1, 0, kNoFlow));
  EXPECT_FALSE(Done(kU1, 9)) << "it said that there was no more";
  EXPECT_FALSE(Done(kU1, 0, kNoFlow));
  EXPECT_TRUE(Done(kU2, 4));
  EXPECT_EQ(round_.done(kFlow), Clock{4});
}

TEST_F(SealRounds, WaitForEachSurvivor) {
  EXPECT_TRUE(Sealed(kU0, 0, kNoFlow));
  EXPECT_FALSE(round_.complete());
  EXPECT_TRUE(Done(kU2, 0, kNoFlow));
  EXPECT_FALSE(round_.complete()) << "unit 1 has not answered";
  EXPECT_TRUE(Done(kU1, 0, kNoFlow));
  EXPECT_TRUE(round_.complete());
}

// What unit 1 applied and did not log is lost with it.
TEST_F(SealRounds, BeginAnewWhenAnotherUnitFails) {
  EXPECT_TRUE(Done(kU1, 8));
  const DoneAnswer late = Answer(kU2, kFlow, 7);
  survivors_.Erase(kU1);
  failed_.Insert(kU1);
  number_ = round_.Begin(failed_, survivors_);
  EXPECT_FALSE(round_.on_done(late));
  EXPECT_EQ(round_.done(kFlow), Clock{});
  EXPECT_TRUE(Sealed(kU0, 5));
  EXPECT_TRUE(Sealed(kU1, 6));
  EXPECT_TRUE(Sealed(kU0, 0, kNoFlow));
  EXPECT_TRUE(Done(kU2, 0, kNoFlow));
  EXPECT_FALSE(round_.complete());
  EXPECT_TRUE(Sealed(kU1, 0, kNoFlow));
  EXPECT_TRUE(round_.complete());
  EXPECT_EQ(round_.done(kFlow), Clock{6});
}

TEST_F(SealRounds, TellFlowsOfOneSlotApart) {
  const FlowId newer = MakeFlowId(0, 7, 4);
  EXPECT_TRUE(Done(kU1, 2, newer));
  EXPECT_TRUE(Sealed(kU0, 9, kFlow));
  EXPECT_EQ(round_.done(newer), Clock{2});
  EXPECT_EQ(round_.done(kFlow), Clock{});
}

// Clocks 1-4 ran at unit 1, 5-8 at unit 0, which fails, and those since at unit
// 2. Unit 0's logger has applied 6.
TEST_F(SealRounds, NameSourcesFromTheOwnerHistory) {
  owners_.Add(7, Clock{4}, kU1);
  owners_.Add(7, Clock{8}, kU0);
  EXPECT_TRUE(Sealed(kU0, 6));
  EndAll();
  ExpectSource(5, kU1, StateSource::kUnit);
  ExpectSource(6, kU0, StateSource::kLogger);
  ExpectSource(7, kU0, StateSource::kLogger);
  for (const uint64_t clock : {8, 9}) {
    EXPECT_FALSE(SourceOf(round_, owners_, kFlow, kU2, Clock{clock}))
        << "clock " << clock - 1 << " is to be re-routed first";
  }
  ExpectSource(10, kU2, StateSource::kUnit);
  owners_.RemoveBefore(7, Clock{5});
  EXPECT_FALSE(SourceOf(round_, owners_, kFlow, kU2, Clock{3})) << "forgotten";
}

}  // namespace
}  // namespace snf
