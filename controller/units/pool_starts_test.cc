// SPDX-License-Identifier: Apache-2.0
#include "controller/units/pool_starts.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace snf {
namespace {

using Kind = ControllerCommand::Kind;
constexpr Instant kNow{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1};

UnitPoolOptions Options(uint32_t first_incarnation) {
  UnitPoolOptions options;
  options.max_units = 3;
  options.first_incarnation = first_incarnation;
  return options;
}

class PoolStartsOfThree : public testing::Test {
 protected:
  PoolStarts starts_{Options(5)};
  ControllerOut out_;
};

TEST_F(PoolStartsOfThree, GiveEachStartTheNextIncarnation) {
  EXPECT_EQ(starts_.incarnation(kU0), 0u);
  starts_.Begin(kU0, /*warm=*/false, out_);
  starts_.Begin(kU1, /*warm=*/true, out_);
  ASSERT_EQ(out_.commands().size(), 2u);
  EXPECT_EQ(out_.commands()[0].kind, Kind::kStartUnit);
  EXPECT_EQ(out_.commands()[0].unit, kU0);
  EXPECT_EQ(out_.commands()[0].incarnation, 5u);
  EXPECT_FALSE(out_.commands()[0].warm);
  EXPECT_EQ(out_.commands()[1].incarnation, 6u);
  EXPECT_TRUE(out_.commands()[1].warm);
  EXPECT_EQ(starts_.incarnation(kU1), 6u);
  EXPECT_EQ(starts_.cold(), 1u);
  EXPECT_EQ(starts_.warm(), 1u);
  EXPECT_EQ(starts_.pending(), 2u);
}

TEST_F(PoolStartsOfThree, CountWhichAreAwaited) {
  starts_.Begin(kU0, /*warm=*/false, out_);
  starts_.Begin(kU1, /*warm=*/false, out_);
  starts_.SetAwaited(kU0, true);
  starts_.SetAwaited(kU1, true);
  starts_.SetAwaited(kU1, true);
  EXPECT_EQ(starts_.awaited(), 2u);
  starts_.on_ready(kU0);
  EXPECT_EQ(starts_.awaited(), 1u);
  EXPECT_EQ(starts_.pending(), 1u);
  EXPECT_FALSE(starts_.awaits(kU0));
  starts_.End(kU1);
  EXPECT_EQ(starts_.awaited(), 0u);
  EXPECT_EQ(starts_.pending(), 0u);
}

TEST_F(PoolStartsOfThree, DoubleThePauseUpToALimit) {
  starts_.Begin(kU0, /*warm=*/false, out_);
  Nanos pause = PoolStarts::kFirstBackOff;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(starts_.on_failed(kNow, kU0), kNow + pause) << i;
    EXPECT_EQ(starts_.not_before(), kNow + pause);
    pause.ns = std::min(2 * pause.ns, PoolStarts::kMaxBackOff.ns);
  }
  EXPECT_EQ(pause, PoolStarts::kMaxBackOff);
  EXPECT_EQ(starts_.failed(), 12u);
  EXPECT_EQ(starts_.failures(kU0), 12u);
  EXPECT_EQ(starts_.pending(), 1u) << "the unit is to be started again";
}

TEST_F(PoolStartsOfThree, BeginWithTheFirstPauseOnceAUnitIsReady) {
  starts_.Begin(kU0, /*warm=*/false, out_);
  starts_.Begin(kU1, /*warm=*/false, out_);
  starts_.on_failed(kNow, kU0);
  starts_.on_failed(kNow, kU0);
  starts_.on_ready(kU1);
  EXPECT_EQ(starts_.not_before(), Instant::min());
  EXPECT_EQ(starts_.failures(kU0), 2u);
  EXPECT_EQ(starts_.failures(kU1), 0u);
  EXPECT_EQ(starts_.on_failed(kNow, kU0), kNow + PoolStarts::kFirstBackOff);
}

TEST_F(PoolStartsOfThree, WaitNoLongerForAStartThatHasFailed) {
  starts_.Begin(kU0, /*warm=*/true, out_);
  starts_.SetAwaited(kU0, true);
  starts_.on_failed(kNow, kU0);
  EXPECT_EQ(starts_.awaited(), 0u);
  starts_.Repeat(kU0, out_);
  EXPECT_TRUE(out_.commands().back().warm);
  EXPECT_EQ(out_.commands().back().incarnation, 6u);
  EXPECT_EQ(starts_.warm(), 2u);
}

TEST_F(PoolStartsOfThree, CountOnForAnEarlierController) {
  starts_.Begin(kU0, /*warm=*/false, out_);
  starts_.Begin(kU1, /*warm=*/true, out_);
  starts_.on_failed(kNow, kU0);
  PoolStarts next{Options(1)};
  next.Continue(starts_, 20);
  EXPECT_EQ(next.cold(), 1u);
  EXPECT_EQ(next.warm(), 1u);
  EXPECT_EQ(next.failed(), 1u);
  EXPECT_EQ(next.pending(), 0u);
  next.Restore(kU0, 30);
  next.RestorePending(kU0, /*was_warm=*/true);
  EXPECT_EQ(next.incarnation(kU0), 30u);
  EXPECT_TRUE(next.was_warm(kU0));
  EXPECT_EQ(next.awaited(), 1u);
  EXPECT_EQ(next.pending(), 1u);
  next.Begin(kU1, /*warm=*/false, out_);
  EXPECT_EQ(next.incarnation(kU1), 31u);
}

}  // namespace
}  // namespace snf
