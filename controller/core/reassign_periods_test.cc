// SPDX-License-Identifier: Apache-2.0
#include "controller/core/reassign_periods.h"

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant At(int64_t ms) { return Instant{ms * 1'000'000}; }

TEST(ReassignPeriods, BeginOnOneGridForAllFlows) {
  ReassignPeriods periods(Milliseconds(100));
  EXPECT_FALSE(periods.Begins(At(290), At(250)));
  EXPECT_TRUE(periods.Begins(At(305), At(290)));
  EXPECT_FALSE(periods.Begins(At(310), At(305)));
  EXPECT_TRUE(periods.Begins(At(399), At(299)));
  EXPECT_FALSE(periods.Begins(At(399), At(300))) << "the period begins there";
  EXPECT_TRUE(periods.Begins(At(400), At(399)));
}

TEST(ReassignPeriods, GoBackToAnEarlierPeriod) {
  ReassignPeriods periods(Milliseconds(100));
  EXPECT_TRUE(periods.Begins(At(905), At(0)));
  EXPECT_FALSE(periods.Begins(At(390), At(310)));
  EXPECT_TRUE(periods.Begins(At(390), At(210)));
}

TEST(ReassignPeriods, LieOnTheSameGridBeforeTimeZero) {
  ReassignPeriods periods(Milliseconds(100));
  EXPECT_FALSE(periods.Begins(At(-110), At(-190)));
  EXPECT_TRUE(periods.Begins(At(-90), At(-110)));
  EXPECT_TRUE(periods.Begins(At(10), At(-10)));
}

TEST(ReassignPeriods, ChangeTheirLength) {
  ReassignPeriods periods(Milliseconds(100));
  EXPECT_TRUE(periods.Begins(At(520), At(480)));
  periods.set_period(Milliseconds(1'000));
  EXPECT_FALSE(periods.Begins(At(530), At(480)));
}

}  // namespace
}  // namespace snf
