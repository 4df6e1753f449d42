// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr uint32_t kQuantiles[] = {0,      1,      1'000,  10'000,
                                   50'000, 90'000, 99'000, 99'900,
                                   99'990, 99'999, 100'000};

// Returns the exact quantile: the least value that enough of the values do not
// exceed.
int64_t ExactQuantile(std::vector<int64_t> values, uint32_t per_100000) {
  std::sort(values.begin(), values.end());
  size_t i = 0;
  while ((i + 1) * 100'000 < values.size() * per_100000) ++i;
  return values[i];
}

void ExpectQuantilesNear(const Histogram& histogram,
                         const std::vector<int64_t>& values) {
  for (uint32_t q : kQuantiles) {
    const int64_t exact = ExactQuantile(values, q);
    EXPECT_GE(histogram.Quantile(q), exact) << q;
    EXPECT_LE(histogram.Quantile(q) - exact, exact / 1'024) << q;
  }
}

// Returns values of all magnitudes.
std::vector<int64_t> LogUniform(Rng& rng, size_t n) {
  std::vector<int64_t> values(n);
  for (int64_t& value : values) {
    value = static_cast<int64_t>(rng.Next() >> rng.Uniform(1, 63));
  }
  return values;
}

Histogram HistogramOf(const std::vector<int64_t>& values) {
  Histogram histogram;
  for (int64_t value : values) histogram.Record(value);
  return histogram;
}

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.sum(), 0u);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.Quantile(0), 0);
  EXPECT_EQ(histogram.Quantile(100'000), 0);
}

TEST(Histogram, KeepsSmallValuesExactly) {
  Histogram histogram;
  for (int64_t value = 0; value < 2'048; ++value) histogram.Record(value);
  for (int64_t value = 1; value <= 2'048; ++value) {
    // ⌊value · 100,000 / 2,048⌋ asks for the first `value` values at most.
    const auto q = static_cast<uint32_t>(value * 100'000 / 2'048);
    EXPECT_EQ(histogram.Quantile(q), value - 1);
  }
}

TEST(Histogram, GivesTheGreatestValueOfTheBucket) {
  // The worked example of the header: 999,936 … 1,000,447 share a bucket.
  Histogram histogram;
  histogram.Record(999'936);
  histogram.Record(1'000'447);
  histogram.Record(1'000'448);
  histogram.Record(5'000'000);
  EXPECT_EQ(histogram.Quantile(25'000), 1'000'447);
  EXPECT_EQ(histogram.Quantile(50'000), 1'000'447);
  EXPECT_EQ(histogram.Quantile(50'001), 1'000'959);
  EXPECT_EQ(histogram.Quantile(75'001), 5'000'000) << "clamped to the maximum";
}

TEST(Histogram, KeepsExactFigures) {
  Histogram histogram;
  histogram.Record(1'234'567);
  histogram.Record(7);
  histogram.Record(89'012'345'678);
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.sum(), 89'013'580'252u);
  EXPECT_EQ(histogram.min(), 7);
  EXPECT_EQ(histogram.max(), 89'012'345'678);
  EXPECT_EQ(histogram.mean(), 29'671'193'417);
  EXPECT_EQ(histogram.Quantile(0), 7);
  EXPECT_EQ(histogram.Quantile(100'000), 89'012'345'678);
}

TEST(Histogram, IsNeverBelowAndHardlyAboveTheExactQuantile) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::vector<int64_t> values = LogUniform(rng, 1 + rng.Below(20'000));
    ExpectQuantilesNear(HistogramOf(values), values);
  }
}

TEST(Histogram, IsNeverBelowAndHardlyAboveTheQuantilesOfLatencies) {
  Rng rng(31);
  std::vector<int64_t> values(100'000);
  for (int64_t& value : values) value = 20'000 + rng.Exponential(150'000);
  ExpectQuantilesNear(HistogramOf(values), values);
}

TEST(Histogram, HoldsEveryPowerOfTwoAndItsNeighbours) {
  for (int bit = 1; bit < 63; ++bit) {
    for (int64_t step : {-1, 0, 1}) {
      const int64_t value = (int64_t{1} << bit) + step;
      Histogram histogram;
      histogram.Record(value);
      histogram.Record(kMax);
      const int64_t found = histogram.Quantile(50'000);
      EXPECT_GE(found, value);
      EXPECT_LE(found - value, value / 1'024) << value;
    }
  }
}

TEST(Histogram, HoldsTheGreatestInt64) {
  Histogram histogram;
  histogram.Record(kMax);
  histogram.Record(kMax);
  EXPECT_EQ(histogram.Quantile(50'000), kMax);
  EXPECT_EQ(histogram.sum(), 2 * static_cast<uint64_t>(kMax));
  EXPECT_EQ(histogram.mean(), kMax);
  histogram.Record(kMax);
  EXPECT_EQ(histogram.sum(), ~uint64_t{0}) << "held, not wrapped";
}

TEST(Histogram, RecordsAValueSoManyTimes) {
  for (const int64_t value :
       {int64_t{0}, int64_t{7}, int64_t{1'000'000}, kMax}) {
    Histogram one_by_one, at_once;
    for (int i = 0; i < 1'000; ++i) one_by_one.Record(value);
    at_once.Record(value, 1'000);
    EXPECT_EQ(at_once, one_by_one) << value;
    EXPECT_EQ(at_once.count(), 1'000u);
  }
}

TEST(Histogram, MergesIntoTheRecordOfBoth) {
  Rng rng(32);
  const std::vector<int64_t> first = LogUniform(rng, 5'000);
  const std::vector<int64_t> second = LogUniform(rng, 300);
  std::vector<int64_t> both = first;
  both.insert(both.end(), second.begin(), second.end());

  Histogram merged = HistogramOf(first);
  merged.Merge(HistogramOf(second));
  EXPECT_EQ(merged, HistogramOf(both));

  Histogram reversed = HistogramOf(second);
  reversed.Merge(HistogramOf(first));
  EXPECT_EQ(reversed, merged);
}

TEST(Histogram, TellsTheQuantilesOfWhatCameSinceACopy) {
  Histogram histogram = HistogramOf({5, 70, 1'000'000});
  const Histogram earlier = histogram;
  EXPECT_EQ(histogram.QuantileSince(earlier, 50'000), 0);
  std::vector<int64_t> later;
  for (int64_t i = 1; i <= 1'000; ++i) later.push_back(i);
  for (const int64_t value : later) histogram.Record(value);
  const Histogram alone = HistogramOf(later);
  for (const uint32_t quantile : {0u, 1u, 50'000u, 99'000u, 100'000u}) {
    EXPECT_EQ(histogram.QuantileSince(earlier, quantile),
              alone.Quantile(quantile))
        << quantile;
    EXPECT_EQ(histogram.QuantileSince(Histogram(), quantile),
              histogram.Quantile(quantile))
        << quantile;
  }
}

TEST(Histogram, MergesWithAnEmptyOne) {
  Histogram histogram = HistogramOf({5'000, 6'000});
  histogram.Merge(Histogram());
  EXPECT_EQ(histogram, HistogramOf({5'000, 6'000}));
  Histogram empty;
  empty.Merge(histogram);
  EXPECT_EQ(empty, histogram);
}

TEST(Histogram, ForgetsAllOnReset) {
  Histogram histogram = HistogramOf({0, 5, 1'000'000, kMax});
  EXPECT_NE(histogram, Histogram());
  histogram.Reset();
  EXPECT_EQ(histogram, Histogram());
}

TEST(HistogramDeathTest, RefusesNegativeValuesAndQuantilesBeyondTheWhole) {
  Histogram histogram;
  EXPECT_DEATH(histogram.Record(-1), "value >= 0");
  EXPECT_DEATH(histogram.Record(1, 0), "times > 0");
  EXPECT_DEATH(histogram.Quantile(100'001), "per_100000");
}

}  // namespace
}  // namespace snf
