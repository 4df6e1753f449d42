// SPDX-License-Identifier: Apache-2.0
#include "controller/units/fill_limit.h"

#include <iostream>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr uint64_t kAllowed = 43'750;  // 350 us at 1 Gbit/s

TEST(FillLimit, IsAFullUnitAtFirstAndNeverMore) {
  FillLimit limit{UnitPoolOptions{}};
  EXPECT_EQ(limit.value(), kFullLoad);
  for (int i = 0; i < 1'000; ++i) limit.Count(kAllowed);
  EXPECT_EQ(limit.value(), kFullLoad);
}

TEST(FillLimit, FallsWithEachPacketThatWaitsTooLongAndRisesSlowly) {
  FillLimit limit{UnitPoolOptions{}};
  for (int i = 0; i < 64; ++i) limit.Count(kAllowed + 1);
  EXPECT_EQ(limit.value(), kFullLoad - 99);
  for (int i = 0; i < 64 * 99 - 1; ++i) limit.Count(0);
  EXPECT_EQ(limit.value(), kFullLoad - 1);
  limit.Count(0);
  EXPECT_EQ(limit.value(), kFullLoad);
}

TEST(FillLimit, LeavesAQuarterWhateverComes) {
  FillLimit limit{UnitPoolOptions{}};
  for (int i = 0; i < 100'000; ++i) limit.Count(UINT64_MAX);
  EXPECT_EQ(limit.value(), kFullLoad / 4);
  for (int i = 0; i < 6'400; ++i) limit.Count(0);
  EXPECT_EQ(limit.value(), kFullLoad / 4 + 100);
}

TEST(FillLimit, FollowsTheTargetAndTheCapacity) {
  UnitPoolOptions options;
  options.latency_target = Milliseconds(2);
  options.unit_capacity_bps = 200'000'000;  // 50,000 bytes in 2 ms
  FillLimit limit(options);
  limit.Count(50'000);
  EXPECT_EQ(limit.value(), kFullLoad);
  limit.Count(50'001);
  EXPECT_EQ(limit.value(), kFullLoad - 2);
}

TEST(FillLimit, StaysAtAFullUnitWhereLoadsAreNoWaits) {
  for (const LoadSignal signal : {LoadSignal::kDemand, LoadSignal::kDrained}) {
    UnitPoolOptions options;
    options.load_signal = signal;
    FillLimit limit(options);
    for (int i = 0; i < 1'000; ++i) limit.Count(UINT64_MAX);
    EXPECT_EQ(limit.value(), kFullLoad);
  }
}

// Waits are spread evenly up to twice what the limit allows, so that one
// packet in a hundred is late when the limit is 99/198 of the target.
TEST(FillLimit, ComesToRestWhereOnePacketInAHundredIsLate) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    FillLimit limit{UnitPoolOptions{}};
    Rng rng(seed);
    uint64_t late = 0;
    constexpr uint64_t kPackets = 1'000'000;
    for (uint64_t i = 0; i < 2 * kPackets; ++i) {
      const uint64_t queued =
          rng.Below(kAllowed * limit.value() * 2 / kFullLoad);
      limit.Count(queued);
      late += i >= kPackets && queued > kAllowed ? 1 : 0;
    }
    std::cout << "seed " << seed << ": " << late << " of " << kPackets
              << " late, limit " << limit.value() << "\n";
    EXPECT_GT(late, kPackets / 125);
    EXPECT_LT(late, kPackets / 80);
    EXPECT_GT(limit.value(), kFullLoad * 48 / 100);
    EXPECT_LT(limit.value(), kFullLoad * 53 / 100);
  }
}

}  // namespace
}  // namespace snf
