// SPDX-License-Identifier: Apache-2.0
#include "controller/units/load_meter.h"

#include <array>
#include <deque>
#include <iostream>
#include <utility>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

__extension__ using Wide = __int128;
constexpr int64_t kMbps = 1'000'000;
constexpr UnitId kUnit{0};
constexpr Instant kStart{1'000'000'000};

UnitPoolOptions Options() {
  UnitPoolOptions options;
  options.max_units = 3;
  options.load_signal = LoadSignal::kDemand;
  return options;
}

TEST(LoadMeter, IsTheLargerOfDrainedRateAndOpenDemand) {
  LoadMeter meter(Options());
  EXPECT_EQ(meter.Load(kStart, kUnit), 0u);
  for (int i = 0; i < 10; ++i) meter.AddOpenDemand(kUnit, 20 * kMbps);
  EXPECT_EQ(meter.open_flowlets(kUnit), 10u);
  EXPECT_EQ(meter.Load(kStart, kUnit), 205u);
  // 200 Mbit/s leave it: 12.5 KB a bucket.
  Instant now = kStart;
  for (int i = 0; i < 100; ++i, now = now + Microseconds(500)) {
    meter.AddDrained(now, kUnit, 12'500);
  }
  EXPECT_EQ(meter.Load(now, kUnit), 205u);
  for (int i = 0; i < 100; ++i, now = now + Microseconds(500)) {
    meter.AddDrained(now, kUnit, 12'500);
    EXPECT_EQ(meter.Load(now, kUnit), 205u);
  }
  for (int i = 0; i < 10; ++i) meter.RemoveOpenDemand(kUnit, 20 * kMbps);
  EXPECT_EQ(meter.open_flowlets(kUnit), 0u);
  const Instant last = now + Nanos{-500'000};
  EXPECT_EQ(meter.Load(last, kUnit), 205u);
  EXPECT_EQ(meter.Load(last + Milliseconds(50), kUnit), 103u);
  EXPECT_EQ(meter.Load(last + Milliseconds(100), kUnit), 0u);
}

TEST(LoadMeter, KeepsUnitsApart) {
  LoadMeter meter(Options());
  meter.AddDrained(kStart, UnitId{1}, 1'250'000);
  meter.AddOpenDemand(UnitId{2}, 500 * kMbps);
  EXPECT_EQ(meter.Load(kStart, UnitId{0}), 0u);
  EXPECT_EQ(meter.Load(kStart, UnitId{1}), 103u);
  EXPECT_EQ(meter.Load(kStart, UnitId{2}), 512u);
}

TEST(LoadMeter, AddsWhatStillWaitsSpreadOverAMillisecond) {
  LoadMeter meter(Options());
  EXPECT_EQ(meter.Load(kStart, kUnit, 12'500), 103u);
  meter.AddOpenDemand(kUnit, 500 * kMbps);
  EXPECT_EQ(meter.Load(kStart, kUnit, 12'500), 512u + 103u);
  meter.AddDrained(kStart, kUnit, 1'250'000);
  EXPECT_EQ(meter.Load(kStart, kUnit, 1), 513u);
  EXPECT_EQ(meter.LastLoad(kUnit, 125'000), 512u + kFullLoad);
  EXPECT_EQ(meter.Load(kStart, kUnit, UINT64_MAX), kMaxLoad);
}

TEST(LoadMeter, IsTheWaitInPartsOfTheTargetWhereWaitsCount) {
  UnitPoolOptions options = Options();
  options.load_signal = LoadSignal::kWait;
  options.latency_target = Microseconds(400);  // 50,000 bytes at 1 Gbit/s
  LoadMeter meter(options);
  EXPECT_FALSE(meter.fades());
  meter.AddOpenDemand(kUnit, 900 * kMbps);
  meter.AddDrained(kStart, kUnit, 12'500'000);
  EXPECT_EQ(meter.Load(kStart, kUnit), 0u);
  EXPECT_EQ(meter.Load(kStart, kUnit, 25'000), 512u);
  EXPECT_EQ(meter.Load(kStart + Seconds(9), kUnit, 50'000), kFullLoad);
  EXPECT_EQ(meter.Load(kStart, kUnit, 50'001), kFullLoad + 1);
  EXPECT_EQ(meter.open_flowlets(kUnit), 1u);
  // In 1 ms 50 Mbit/s bring 6250 bytes, which take 50 us.
  EXPECT_EQ(meter.Quanta(50 * kMbps), 128u);
}

TEST(LoadMeter, LeavesOutOpenDemandWhereOnlyDrainedRatesCount) {
  UnitPoolOptions options = Options();
  options.load_signal = LoadSignal::kDrained;
  LoadMeter meter(options);
  meter.AddOpenDemand(kUnit, 900 * kMbps);
  EXPECT_EQ(meter.Load(kStart, kUnit, 1'000'000), 0u);
  EXPECT_EQ(meter.open_flowlets(kUnit), 1u);
  meter.AddDrained(kStart, kUnit, 6'250'000);
  EXPECT_EQ(meter.Load(kStart, kUnit), 512u);
}

TEST(LoadMeter, FadesBucketByBucketNotBefore) {
  LoadMeter meter(Options());
  meter.AddDrained(kStart, kUnit, 1'250'000);
  Instant at = kStart;
  while (meter.Load(at, kUnit) > 0) at = at + Microseconds(1);
  EXPECT_GT(at - kStart, Microseconds(99'500));
  EXPECT_LE(at - kStart, Milliseconds(100));
}

TEST(LoadMeter, CountsLateReportsInTheNewestBucket) {
  LoadMeter meter(Options());
  const Instant early{kStart.ns - Milliseconds(10).ns};
  meter.AddDrained(kStart, kUnit, 1'000);
  meter.AddDrained(early, kUnit, 1'249'000);
  EXPECT_EQ(meter.Load(early, kUnit), 103u);
  EXPECT_EQ(meter.Load(kStart + Milliseconds(99), kUnit), 103u);
  EXPECT_EQ(meter.Load(kStart + Milliseconds(100), kUnit), 0u);
}

TEST(LoadMeter, SeesEachUnitAtItsOwnTime) {
  LoadMeter meter(Options());
  meter.AddDrained(kStart, UnitId{1}, 1'250'000);
  EXPECT_EQ(meter.Load(kStart + Milliseconds(100), UnitId{0}), 0u);
  EXPECT_EQ(meter.Load(kStart + Milliseconds(1), UnitId{1}), 103u);
}

TEST(LoadMeter, NeverSaysThatAWholeUnitIsMoreThanFull) {
  for (const int64_t capacity :
       {int64_t{1'000}, int64_t{1'024}, int64_t{1} << 30, 1'000 * kMbps,
        int64_t{999'999'937}, int64_t{1} << 39, 1'000'000 * kMbps}) {
    UnitPoolOptions options = Options();
    options.unit_capacity_bps = capacity;
    const LoadMeter meter(options);
    EXPECT_EQ(meter.Quanta(capacity), kFullLoad) << capacity;
    EXPECT_EQ(meter.Quanta(0), 0u);
    EXPECT_EQ(meter.Quanta(1), 1u + (capacity < 1'024 ? 1 : 0)) << capacity;
  }
}

TEST(LoadMeter, HasALargestLoad) {
  LoadMeter meter(Options());
  EXPECT_EQ(meter.Quanta(INT64_MAX), kMaxLoad);
  for (int i = 0; i < 1'000; ++i) meter.AddDrained(kStart, kUnit, UINT64_MAX);
  EXPECT_LE(meter.Load(kStart, kUnit), kMaxLoad);
  EXPECT_GE(meter.Load(kStart, kUnit), 340 * kFullLoad);  // 4 GiB in 100 ms
  EXPECT_EQ(meter.Load(kStart + Milliseconds(100), kUnit), 0u);
}

// Expects `quanta` to lie in (true - 1/256, true + 1), true = amount / unit,
// and to be 0 only for nothing.
void ExpectRoundedUp(uint32_t quanta, Wide amount, Wide unit) {
  if (amount * kMaxLoad / 1'024 / unit >= kMaxLoad) return;
  ASSERT_LT(Wide{quanta} * unit, amount * kFullLoad + unit);
  ASSERT_GT(Wide{quanta} * unit + unit / 256, amount * kFullLoad);
  ASSERT_EQ(quanta == 0, amount == 0);
}

TEST(LoadMeter, RoundsDemandUpByLessThanAQuantum) {
  Rng rng(5);
  for (int i = 0; i < 100'000; ++i) {
    UnitPoolOptions options = Options();
    options.load_buckets = 1;
    options.unit_capacity_bps =
        std::max<int64_t>(1'000, 1'000'000'000'000 >> rng.Below(31));
    options.unit_capacity_bps += rng.Uniform(0, 999);
    const LoadMeter meter(options);
    const int64_t rate = rng.Uniform(0, options.unit_capacity_bps);
    ExpectRoundedUp(meter.Quanta(rate), rate, options.unit_capacity_bps);
    if (HasFatalFailure()) FAIL() << options.unit_capacity_bps << " " << rate;
  }
}

// The bytes that left one unit, as a list of buckets.
class NaiveWindow {
 public:
  explicit NaiveWindow(const UnitPoolOptions& options) : options_(options) {}

  void Add(Instant now, uint64_t bytes) {
    drained_.emplace_back(BucketOf(now), bytes);
  }
  Wide Bytes(Instant now) {
    while (!drained_.empty() &&
           drained_.front().first <= BucketOf(now) - options_.load_buckets) {
      drained_.pop_front();
    }
    Wide sum = 0;
    for (const auto& [bucket, bytes] : drained_) sum += bytes;
    return sum;
  }

 private:
  Wide BucketOf(Instant t) const {
    return (Wide{t.ns} - INT64_MIN) / options_.load_bucket.ns;
  }
  UnitPoolOptions options_;
  std::deque<std::pair<Wide, uint64_t>> drained_;
};

Nanos RandomStep(Rng& rng, const UnitPoolOptions& options) {
  switch (rng.Below(12)) {
    case 0:
      return Nanos{options.load_bucket.ns * int64_t{options.load_buckets} +
                   rng.Uniform(-2, 2)};
    case 1:
      return Nanos{rng.Uniform(
          0, 2 * options.load_bucket.ns * int64_t{options.load_buckets})};
    case 2:
      return rng.Chance(2'000) ? Seconds(rng.Uniform(1, 100'000'000))
                               : Nanos{0};
    case 3:
      return options.load_bucket;
    default:
      return Nanos{rng.Uniform(0, 3 * options.load_bucket.ns)};
  }
}

// Compares the meter with NaiveWindow, from 1678 to well after 1970; units are
// looked at now and then.
void CompareWithNaive(uint64_t seed, UnitPoolOptions options,
                      std::array<uint64_t, 3>& totals) {
  Rng rng(seed);
  LoadMeter meter(options);
  std::array<NaiveWindow, 3> naive{NaiveWindow(options), NaiveWindow(options),
                                   NaiveWindow(options)};
  const Wide window_ns = Wide{options.load_bucket.ns} * options.load_buckets;
  Instant now = rng.Chance(32'768) ? Instant::min() : Instant{-1'000'000};
  for (int i = 0; i < 20'000; ++i) {
    now = now + RandomStep(rng, options);
    const auto u = static_cast<uint16_t>(rng.Below(3));
    const UnitId unit{u};
    if (rng.Chance(40'000)) {
      const uint64_t bytes = rng.Below(2) * rng.Below(100'000);
      meter.AddDrained(now, unit, bytes);
      naive[u].Add(now, bytes);
    }
    const uint32_t last = meter.LastLoad(unit);
    const uint32_t load = meter.Load(now, unit);
    ASSERT_GE(last, load);
    ASSERT_EQ(load, meter.LastLoad(unit));
    const Wide bytes = naive[u].Bytes(now);
    ExpectRoundedUp(load, bytes * 8'000'000'000,
                    window_ns * options.unit_capacity_bps);
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " " << i;
    totals[0] += bytes > 0 ? 1 : 0;
    totals[1] += bytes == 0 ? 1 : 0;
    totals[2] += now.ns < 0 ? 1 : 0;
  }
}

TEST(LoadMeter, EqualsANaiveListOfBucketsOverAllTimes) {
  std::array<uint64_t, 3> totals{};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    UnitPoolOptions options = Options();
    options.load_signal = LoadSignal::kDrained;
    if (seed % 3 == 1) options.load_buckets = 1 + uint32_t(seed) / 4;
    if (seed % 3 == 2) options.load_bucket = Nanos{777'777};
    if (seed % 4 == 0) options.unit_capacity_bps = 1'000'000'007;
    CompareWithNaive(seed, options, totals);
    if (HasFatalFailure()) return;
  }
  std::cout << "seeds 1-20: " << totals[0] << " loads, " << totals[1]
            << " empty, " << totals[2] << " before 1970\n";
  EXPECT_GT(totals[0], 100'000u);
  EXPECT_GT(totals[1], 10'000u);
  EXPECT_GT(totals[2], 10'000u);
}

}  // namespace
}  // namespace snf
