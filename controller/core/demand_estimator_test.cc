// SPDX-License-Identifier: Apache-2.0
#include "controller/core/demand_estimator.h"

#include <iostream>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

__extension__ using Wide = __int128;
constexpr int64_t kMbps = 1'000'000;

DemandEstimator Floor() { return DemandEstimator(ControllerOptions{}); }

DemandEstimator Burst() {
  ControllerOptions options;
  options.demand_rule = DemandRule::kBurst;
  return DemandEstimator(options);
}

TEST(DemandEstimator, MeasuresALonePacketOverTheTimeout) {
  EXPECT_EQ(Floor().Measure(1'500, Nanos{0}), 24 * kMbps);
  EXPECT_EQ(Floor().Measure(1'500, Microseconds(500)), 24 * kMbps);
  EXPECT_EQ(Floor().Measure(0, Nanos{0}), 0);
}

TEST(DemandEstimator, MeasuresALongFlowletOverItsDuration) {
  EXPECT_EQ(Floor().Measure(15'000, Milliseconds(2)), 60 * kMbps);
  EXPECT_EQ(Floor().Measure(1'500, Nanos{500'001}), 23'999'952);
}

TEST(DemandEstimator, MovesHalfwayToWhatWasMeasured) {
  EXPECT_EQ(Floor().Update(24 * kMbps, 60 * kMbps), 42 * kMbps);
}

TEST(DemandEstimator, MeasuresBareBurstsWhereAsked) {
  EXPECT_EQ(Burst().Measure(1'500, Microseconds(100)), 120 * kMbps);
  EXPECT_EQ(Burst().Measure(1'500, Nanos{0}), 1'000 * kMbps);
}

TEST(DemandEstimator, NeverAsksForMoreThanAUnit) {
  EXPECT_EQ(Burst().Measure(1'500, Nanos{1}), 1'000 * kMbps);
  EXPECT_EQ(Floor().Measure(1 << 30, Nanos{0}), 1'000 * kMbps);
  ControllerOptions options;
  options.first_demand_bps = 5'000 * kMbps;
  EXPECT_EQ(DemandEstimator(options).FirstDemand(), 1'000 * kMbps);
}

TEST(DemandEstimator, TakesAnyLengthThatACaptureMayClaim) {
  // 2,305,843,010 × 8·10^9 is just above 2^64.
  for (const uint64_t bytes :
       {uint64_t{2'305'843'010}, uint64_t{0xffff'ffff}, ~uint64_t{0}}) {
    EXPECT_EQ(Floor().Measure(bytes, Nanos{0}), 1'000 * kMbps) << bytes;
    EXPECT_EQ(Burst().Measure(bytes, Nanos{0}), 1'000 * kMbps) << bytes;
  }
  EXPECT_EQ(Floor().Measure(1'500, Nanos::max()), 0);
  EXPECT_EQ(Burst().Measure(1'500, Nanos{-5}), 1'000 * kMbps);
}

TEST(DemandEstimator, StartsWithOneHundredthOfAUnit) {
  EXPECT_EQ(Floor().FirstDemand(), 10 * kMbps);
  ControllerOptions options;
  options.first_demand_bps = 7 * 64;
  EXPECT_EQ(DemandEstimator(options).FirstDemand(), 7 * 64);
}

TEST(DemandEstimator, GivesNewFlowsTheMeanOfAllFlowletsAndThePrior) {
  DemandEstimator demand = Floor();
  demand.Update(1, 212 * kMbps);
  EXPECT_EQ(demand.FirstDemand(), 12 * kMbps);  // (100 · 10 + 212) / 101
  // The estimate does not matter.
  for (int i = 0; i < 99; ++i) demand.Update(999 * kMbps, 8 * kMbps);
  EXPECT_EQ(demand.FirstDemand(), 10'020'000 / 64 * 64);
}

TEST(DemandEstimator, MeasuresOverItsOwnFloorWhateverTheTimeout) {
  ControllerOptions options;
  options.flowlet_timeout = Microseconds(100);
  EXPECT_EQ(DemandEstimator(options).Measure(1'500, Nanos{0}), 24 * kMbps);
  options.demand_floor = Microseconds(250);
  EXPECT_EQ(DemandEstimator(options).Measure(1'500, Nanos{0}), 48 * kMbps);
}

TEST(DemandEstimator, KeepsTheMeanWithin128BitsASecond) {
  Rng rng(3);
  DemandEstimator demand = Floor();
  Wide sum = Wide{DemandEstimator::kPriorFlowlets} * 10 * kMbps;
  for (int i = 1; i <= 10'000; ++i) {
    const int64_t rate = rng.Uniform(0, 1'000 * kMbps);
    demand.Update(0, rate);
    sum += rate;
    const auto mean = static_cast<int64_t>(
        sum / (i + int64_t{DemandEstimator::kPriorFlowlets}));
    ASSERT_LE(demand.FirstDemand(), mean);
    ASSERT_GE(demand.FirstDemand(), mean - 128);
  }
}

TEST(DemandEstimator, IsTheExactAverageRoundedDown) {
  constexpr int64_t kTerabit = 1'000'000'000'000;
  for (const uint32_t delta : {0u, 1u, 6'554u, 32'768u, 65'535u, 65'536u}) {
    Rng rng(delta);
    ControllerOptions options;
    options.unit_capacity_bps = kTerabit;
    options.ewma_delta_65536 = delta;
    DemandEstimator demand(options);
    for (int i = 0; i < 10'000; ++i) {
      const int64_t largest = kTerabit >> rng.Below(40);
      const int64_t e = i == 0 ? kTerabit : rng.Uniform(0, largest);
      const int64_t m = i == 0 ? kTerabit : rng.Uniform(0, kTerabit);
      const Wide exact = Wide{m} * delta + Wide{e} * (65'536 - delta);
      const int64_t got = demand.Update(e, m);
      ASSERT_LE(Wide{got} * 65'536, exact) << delta << " " << e << " " << m;
      ASSERT_GT((Wide{got} + 1) * 65'536, exact) << delta;
    }
  }
}

TEST(DemandEstimator, ComesToRestAtASteadyRateHoweverSmallDelta) {
  for (const uint32_t delta : {655u, 32'768u, 65'536u}) {
    ControllerOptions options;
    options.ewma_delta_65536 = delta;
    DemandEstimator demand(options);
    int64_t from_above = 1'000 * kMbps, from_below = 0;
    for (int i = 0; i < 10'000; ++i) {
      from_above = demand.Update(from_above, 123'456'789);
      from_below = demand.Update(from_below, 123'456'789);
    }
    EXPECT_EQ(from_above, 123'456'789) << delta;
    EXPECT_GE(from_below, 123'456'789 - 65'536 / int64_t{delta}) << delta;
  }
}

}  // namespace
}  // namespace snf
