// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/lease_clock.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

constexpr Instant kStart{Seconds(1'000).ns};

ClusterOptions Options() {
  ClusterOptions cluster;
  cluster.epoch = Milliseconds(300);
  cluster.revoke_grace = Milliseconds(200);
  cluster.term = Seconds(1);
  return cluster;
}

TEST(LeaseClock, GoesWithTheRunUntilLeasesHaveSettled) {
  LeaseClock clock(Options());
  clock.on_busy(kStart);
  const Instant later = kStart + Seconds(59);
  EXPECT_EQ(clock.At(later), later);
  EXPECT_FALSE(clock.MaySkip(later, later + Seconds(1'000)));
  EXPECT_TRUE(clock.MaySkip(later + Seconds(1), later + Seconds(1'000)));
}

TEST(LeaseClock, DoesNotSkipAShortTime) {
  LeaseClock clock(Options());
  clock.on_busy(kStart);
  const Instant now = kStart + Seconds(60);
  EXPECT_FALSE(clock.MaySkip(now, now + Seconds(59)));
}

TEST(LeaseClock, SettlesForSixteenTermsIfThatIsLonger) {
  ClusterOptions cluster = Options();
  cluster.term = Seconds(10);
  LeaseClock clock(cluster);
  clock.on_busy(kStart);
  const Instant until = kStart + Seconds(1'000);
  EXPECT_FALSE(clock.MaySkip(kStart + Seconds(159), until));
  EXPECT_TRUE(clock.MaySkip(kStart + Seconds(160), until));
}

// There are 167 periods of 600 ms in 100.5 s; one is left.
TEST(LeaseClock, SkipsWholePeriodsAndLeavesOne) {
  LeaseClock clock(Options());
  clock.on_busy(kStart);
  const Instant now = kStart + Seconds(60);
  const Nanos skipped = clock.Skip(now, now + Milliseconds(100'500));
  EXPECT_EQ(skipped, Milliseconds(600 * 166));
  EXPECT_EQ(clock.At(now + skipped), now);
  EXPECT_FALSE(clock.MaySkip(now + skipped, Instant::max()));
}

TEST(LeaseClock, SkipsNothingOfLessThanTwoPeriods) {
  LeaseClock clock(Options());
  EXPECT_EQ(clock.Skip(kStart, kStart + Milliseconds(1'199)), Nanos{});
  EXPECT_EQ(clock.At(kStart), kStart);
}

// The least common multiple, 60,060 s, is longer than leases take to settle.
TEST(LeaseClock, KeepsEpochsAloneIfPeriodsFitTooSeldom) {
  ClusterOptions cluster = Options();
  cluster.epoch = Nanos{Seconds(60).ns - Milliseconds(1).ns};
  cluster.revoke_grace = Milliseconds(1'001);
  LeaseClock clock(cluster);
  EXPECT_EQ(clock.Skip(kStart, kStart + Seconds(180)),
            Nanos{2 * cluster.epoch.ns});
}

}  // namespace
}  // namespace snf
