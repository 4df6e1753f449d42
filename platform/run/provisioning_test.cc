// SPDX-License-Identifier: Apache-2.0
#include "platform/run/provisioning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/rng.h"

namespace snf {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kEpoch = Provisioning::kEpochNs;
constexpr int64_t kGigabit = 1'000'000'000;

Instant AtMs(int64_t ms) { return Instant{ms * kMs}; }

ControllerOptions Units(int64_t capacity_bps, uint32_t max_units) {
  ControllerOptions options;
  options.unit_capacity_bps = capacity_bps;
  options.max_units = max_units;
  return options;
}

std::vector<int64_t> Epochs(const Provisioning& provisioning) {
  std::vector<int64_t> epochs;
  for (const EpochSample& sample : provisioning.samples()) {
    epochs.push_back(sample.epoch);
  }
  return epochs;
}

TEST(Provisioning, FollowsTheExampleOfItsHeader) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(20), UnitId{0});
  provisioning.on_drained(AtMs(40), UnitId{0}, 1, 2'000'000);
  provisioning.on_drained(AtMs(60), UnitId{0}, 1, 1'000'000);
  provisioning.on_unit_down(AtMs(70), UnitId{0});
  provisioning.on_end(AtMs(70));
  EXPECT_EQ(provisioning.utilisation().count(), 1u);
  EXPECT_EQ(provisioning.utilisation().max(), 480);
  ASSERT_EQ(provisioning.samples().size(), 1u);
  EXPECT_EQ(provisioning.samples()[0].unit_ns, 50 * kMs);
  EXPECT_EQ(provisioning.samples()[0].drained_bytes, 3'000'000u);
  EXPECT_EQ(provisioning.units_max(), 1u);
  EXPECT_EQ(provisioning.units_mean_1000(), 1000);
}

TEST(Provisioning, KeepsTheTotalsOfAUnitBeyondItsEpochs) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(20), UnitId{1});
  provisioning.on_drained(AtMs(40), UnitId{1}, 1, 2'000);
  provisioning.on_drained(AtMs(340), UnitId{1}, 1, 300);
  EXPECT_TRUE(provisioning.total(UnitId{1}).is_up);
  EXPECT_EQ(provisioning.total(UnitId{1}).packets, 2u);
  EXPECT_EQ(provisioning.total(UnitId{1}).bytes, 2'300u);
  provisioning.on_unit_down(AtMs(350), UnitId{1});
  provisioning.on_unit_up(AtMs(700), UnitId{1});
  provisioning.on_drained(AtMs(710), UnitId{1}, 1, 40);
  provisioning.on_unit_down(AtMs(720), UnitId{1});
  EXPECT_FALSE(provisioning.total(UnitId{1}).is_up);
  EXPECT_TRUE(provisioning.total(UnitId{1}).was_up);
  EXPECT_EQ(provisioning.total(UnitId{1}).bytes, 2'340u);
  EXPECT_FALSE(provisioning.total(UnitId{0}).was_up);
}

TEST(Provisioning, HasNothingToSayOfNothing) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_end(AtMs(5));
  EXPECT_TRUE(provisioning.samples().empty());
  EXPECT_EQ(provisioning.units_max(), 0u);
  EXPECT_EQ(provisioning.units_mean_1000(), 0);
  EXPECT_EQ(provisioning.utilisation().count(), 0u);
}

TEST(Provisioning, CountsEachEventInItsEpoch) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_offered(AtMs(99), 100);
  provisioning.on_offered(Instant{kEpoch - 1}, 10);
  provisioning.on_offered(Instant{kEpoch}, 1);
  provisioning.on_dropped(AtMs(199));
  provisioning.on_dropped(AtMs(200));
  provisioning.on_dropped(AtMs(200));
  provisioning.on_end(AtMs(200));
  ASSERT_EQ(provisioning.samples().size(), 3u);
  EXPECT_EQ(provisioning.samples()[0].offered_bytes, 110u);
  EXPECT_EQ(provisioning.samples()[1].offered_bytes, 1u);
  EXPECT_EQ(provisioning.samples()[1].dropped_packets, 1u);
  EXPECT_EQ(provisioning.samples()[2].dropped_packets, 2u);
}

TEST(Provisioning, BeginsItsEpochsWithTheFirstPacket) {
  for (const int64_t first_ms : {1'230, 1'200, -30, -170}) {
    SCOPED_TRACE(first_ms);
    Provisioning provisioning(Units(kGigabit, 4));
    provisioning.on_start(AtMs(first_ms));
    provisioning.on_offered(AtMs(first_ms), 1);
    provisioning.on_offered(AtMs(first_ms + 99), 10);
    provisioning.on_offered(AtMs(first_ms + 100), 100);
    provisioning.on_offered(AtMs(first_ms + 390), 1'000);
    provisioning.on_end(AtMs(first_ms + 395));
    const std::vector<EpochSample>& samples = provisioning.samples();
    ASSERT_EQ(samples.size(), 3u);
    EXPECT_EQ(samples[0].offered_bytes, 11u);
    EXPECT_EQ(samples[1].offered_bytes, 100u);
    EXPECT_EQ(samples[1].epoch, samples[0].epoch + 1);
    EXPECT_EQ(samples[2].offered_bytes, 1'000u);
    EXPECT_EQ(samples[2].epoch, samples[0].epoch + 3);
  }
}

// What units are up for behind all traffic is no capacity that it left unused.
TEST(Provisioning, CountsUnitTimeUntilTheLastPacketCameOrLeft) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(0), UnitId{0});
  provisioning.on_offered(AtMs(10), 100);
  provisioning.on_unit_up(AtMs(10), UnitId{1});
  provisioning.on_drained(AtMs(50), UnitId{0}, 1, 100);  // 50 + 40 ms
  provisioning.on_unit_down(AtMs(250), UnitId{1});
  EXPECT_EQ(provisioning.unit_ns_with_traffic(), 90 * kMs);
  provisioning.on_offered(AtMs(300), 100);  // 300 + 240 ms
  provisioning.on_unit_down(AtMs(500), UnitId{0});
  provisioning.on_end(AtMs(500));
  EXPECT_EQ(provisioning.unit_ns_with_traffic(), 540 * kMs);
}

TEST(Provisioning, CountsAllOfAUnitThatWasParkedBeforeTheLastPacket) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(0), UnitId{0});
  provisioning.on_drained(AtMs(10), UnitId{0}, 1, 100);
  provisioning.on_unit_down(AtMs(30), UnitId{0});
  provisioning.on_offered(AtMs(90), 100);
  provisioning.on_end(AtMs(90));
  EXPECT_EQ(provisioning.unit_ns_with_traffic(), 30 * kMs);
}

// A unit that is parked at once after each packet is there for little of the
// time, however long the others are.
TEST(Provisioning, TakesTheMeanFromTheFirstPacketToTheLast) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_start(AtMs(0));
  provisioning.on_offered(AtMs(0), 100);
  for (const int64_t ms : {100, 900}) {
    provisioning.on_unit_up(AtMs(ms), UnitId{0});
    provisioning.on_drained(AtMs(ms + 50), UnitId{0}, 1, 100);
    provisioning.on_unit_down(AtMs(ms + 50), UnitId{0});
  }
  provisioning.on_offered(AtMs(1'000), 100);
  provisioning.on_unit_up(AtMs(2'000), UnitId{0});  // behind all traffic
  provisioning.on_unit_down(AtMs(3'000), UnitId{0});
  provisioning.on_end(AtMs(3'000));
  EXPECT_EQ(provisioning.units_mean_1000(), 100);
}

// Units that are leased are up before a packet comes.
TEST(Provisioning, BeginsTheMeanWithUnitsThatAreThereBefore) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(-100), UnitId{0});
  provisioning.on_unit_up(AtMs(-100), UnitId{1});
  provisioning.on_start(AtMs(0));
  provisioning.on_offered(AtMs(0), 100);
  provisioning.on_offered(AtMs(100), 100);
  provisioning.on_end(AtMs(100));
  EXPECT_EQ(provisioning.units_mean_1000(), 2'000);
}

TEST(Provisioning, CountsWhatPacketsCost) {
  ControllerOptions options = Units(kGigabit, 4);
  options.unit_packets_ps = 1'000'000;
  Provisioning provisioning(options);
  provisioning.on_offered(AtMs(0), 60);
  provisioning.on_offered(AtMs(0), 1'500);
  provisioning.on_end(AtMs(1));
  EXPECT_EQ(provisioning.samples()[0].offered_bytes, 1'625u);
}

TEST(Provisioning, LeavesOutEpochsWithoutEventsOrUnits) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(50), UnitId{1});
  provisioning.on_unit_down(AtMs(350), UnitId{1});
  const int64_t ten_years_ms = int64_t{10} * 365 * 86'400 * 1'000;
  provisioning.on_offered(AtMs(ten_years_ms), 1);
  provisioning.on_end(AtMs(ten_years_ms));
  EXPECT_THAT(Epochs(provisioning),
              testing::ElementsAre(0, 1, 2, 3, ten_years_ms / 100));
  EXPECT_EQ(provisioning.utilisation().count(), 4u);
}

TEST(Provisioning, CutsTimeBeforeTheUnixEpochAlike) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(-250), UnitId{0});
  provisioning.on_offered(AtMs(-200), 1);
  provisioning.on_offered(Instant{-1}, 2);
  provisioning.on_offered(Instant{0}, 3);
  provisioning.on_unit_down(AtMs(50), UnitId{0});
  provisioning.on_end(AtMs(50));
  EXPECT_THAT(Epochs(provisioning), testing::ElementsAre(-3, -2, -1, 0));
  EXPECT_EQ(provisioning.samples()[0].unit_ns, 50 * kMs);
  EXPECT_EQ(provisioning.samples()[1].offered_bytes, 1u);
  EXPECT_EQ(provisioning.samples()[2].offered_bytes, 2u);
  EXPECT_EQ(provisioning.samples()[3].offered_bytes, 3u);
  EXPECT_EQ(provisioning.samples()[3].unit_ns, 50 * kMs);
}

TEST(Provisioning, ReachesFromTheFirstInstantToTheLast) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(Instant::min(), UnitId{0});
  provisioning.on_unit_down(Instant::min() + Nanos{5}, UnitId{0});
  provisioning.on_unit_up(Instant{Instant::max().ns - 7}, UnitId{2});
  provisioning.on_offered(Instant::max(), 1);
  provisioning.on_unit_down(Instant::max(), UnitId{2});
  provisioning.on_end(Instant::max());
  ASSERT_EQ(provisioning.samples().size(), 2u);
  EXPECT_EQ(provisioning.samples()[0].unit_ns, 5);
  EXPECT_EQ(provisioning.samples()[1].unit_ns, 7);
  EXPECT_EQ(provisioning.samples()[1].offered_bytes, 1u);
}

TEST(Provisioning, AddsTimesThatAreLongerThanAllTime) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(0), UnitId{0});
  provisioning.on_unit_down(AtMs(50), UnitId{0});
  provisioning.on_unit_up(AtMs(-60), UnitId{0});
  provisioning.on_offered(Instant::max(), 1);
  provisioning.on_unit_down(Instant::max(), UnitId{0});
  EXPECT_GE(provisioning.units_mean_1000(), 0);
}

TEST(Provisioning, CountsAUnitThatIsStillUpAtTheEnd) {
  Provisioning provisioning(Units(kGigabit, 4));
  provisioning.on_unit_up(AtMs(0), UnitId{3});
  provisioning.on_drained(AtMs(10), UnitId{3}, 1, 3'125'000);  // 25 ms of work
  provisioning.on_end(AtMs(150));
  ASSERT_EQ(provisioning.samples().size(), 2u);
  EXPECT_EQ(provisioning.samples()[0].unit_ns, 100 * kMs);
  EXPECT_EQ(provisioning.samples()[1].unit_ns, 50 * kMs);
  EXPECT_EQ(provisioning.utilisation().max(), 250);
  EXPECT_EQ(provisioning.utilisation().min(), 0);
}

TEST(Provisioning, SamplesAUnitOnceAnEpochHoweverOftenItStarts) {
  Provisioning provisioning(Units(kGigabit, 4));
  for (int64_t ms = 0; ms < 50; ms += 10) {
    provisioning.on_unit_up(AtMs(ms), UnitId{0});
    provisioning.on_drained(AtMs(ms + 4), UnitId{0}, 1,
                            125'000);  // 1 ms of work
    provisioning.on_unit_down(AtMs(ms + 5), UnitId{0});
  }
  provisioning.on_end(AtMs(100));
  EXPECT_EQ(provisioning.utilisation().count(), 1u);
  EXPECT_EQ(provisioning.utilisation().max(), 200);
  EXPECT_EQ(provisioning.units_max(), 1u);
}

// A thousand times as many nanoseconds as in 128 unit-days do not fit 64 bits.
TEST(Provisioning, KeepsTheMeanRightForLongRuns) {
  Provisioning provisioning(Units(kGigabit, 64));
  constexpr int64_t kDay = 86'400 * 1'000;
  for (uint16_t i = 0; i < 64; ++i) {
    provisioning.on_unit_up(AtMs(0), UnitId{i});
  }
  provisioning.on_unit_down(AtMs(kDay / 2), UnitId{0});
  provisioning.on_offered(AtMs(2 * kDay), 1);
  for (uint16_t i = 1; i < 64; ++i) {
    provisioning.on_unit_down(AtMs(2 * kDay), UnitId{i});
  }
  provisioning.on_end(AtMs(2 * kDay));
  EXPECT_EQ(provisioning.units_mean_1000(), 63'250);
  EXPECT_EQ(provisioning.samples().size() + provisioning.forgotten().epochs,
            2u * 864'000 + 1);
}

// A capture of two packets, with a unit that is up for years between them.
TEST(Provisioning, TakesNoTimeForYearsInWhichUnitsAreIdle) {
  constexpr int64_t kYears = int64_t{100} * 365 * 86'400 * 1'000;
  Provisioning provisioning(Units(kGigabit, 2));
  provisioning.on_unit_up(AtMs(0), UnitId{0});
  provisioning.on_drained(AtMs(50), UnitId{0}, 1, 1'000);
  provisioning.on_drained(AtMs(kYears + 50), UnitId{0}, 1, 1'000);
  provisioning.on_end(AtMs(kYears + 100));
  EXPECT_LT(provisioning.samples().size(), 10u);
  EXPECT_EQ(provisioning.samples().size() + provisioning.forgotten().epochs,
            static_cast<uint64_t>(kYears / 100 + 2));
  EXPECT_EQ(provisioning.units_mean_1000(), 1'000);
}

// The same, told interval by interval.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};
struct Naive {
  std::map<int64_t, int64_t> unit_ns;                   // by epoch
  std::map<std::pair<size_t, int64_t>, int64_t> up_ns;  // by unit and epoch
  int64_t all_up_ns = 0;
  uint32_t units_max = 0;
};

Naive Compute(const std::vector<std::vector<Interval>>& units) {
  Naive naive;
  std::vector<std::pair<int64_t, int>> changes;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    for (const Interval& interval : units[unit]) {
      changes.emplace_back(interval.begin, 1);
      changes.emplace_back(interval.end, -1);
      naive.all_up_ns += interval.end - interval.begin;
      for (int64_t t = interval.begin; t < interval.end;) {
        const int64_t epoch = (t - (t % kEpoch + kEpoch) % kEpoch) / kEpoch;
        const int64_t until = std::min(interval.end, (epoch + 1) * kEpoch);
        naive.unit_ns[epoch] += until - t;
        naive.up_ns[{unit, epoch}] += until - t;
        t = until;
      }
    }
  }
  std::sort(changes.begin(), changes.end());
  int up = 0;
  for (const auto& [time, change] : changes) {
    up += change;
    naive.units_max = std::max(naive.units_max, static_cast<uint32_t>(up));
  }
  return naive;
}

TEST(Provisioning, AgreesWithANaiveComputation) {
  const uint64_t seed = 5;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  uint64_t epochs_compared = 0;
  for (int round = 0; round < 200; ++round) {
    constexpr uint16_t kUnits = 5;
    std::vector<std::vector<Interval>> units(kUnits);
    struct Change {
      int64_t time;
      bool up;
      UnitId unit;
    };
    std::vector<Change> changes;
    for (uint16_t unit = 0; unit < kUnits; ++unit) {
      int64_t time = rng.Uniform(-3 * kEpoch, kEpoch);
      for (uint64_t n = rng.Below(6); n > 0; --n) {
        const int64_t begin = time + rng.Exponential(kEpoch);
        // Now and then to the nanosecond at the end of an epoch.
        int64_t end = begin + 1 + rng.Exponential(kEpoch);
        if (rng.Chance(16'384)) end = (end / kEpoch + 2) * kEpoch;
        units[unit].push_back({begin, end});
        changes.push_back({begin, true, UnitId{unit}});
        changes.push_back({end, false, UnitId{unit}});
        time = end + 1;
      }
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Change& a, const Change& b) {
                       return std::pair(a.time, a.up) < std::pair(b.time, b.up);
                     });
    Provisioning provisioning(Units(kGigabit, kUnits));
    int64_t last = 0;
    for (const Change& change : changes) {
      last = change.time;
      if (change.up) {
        provisioning.on_unit_up(Instant{last}, change.unit);
      } else {
        provisioning.on_unit_down(Instant{last}, change.unit);
      }
    }
    if (!changes.empty()) provisioning.on_offered(Instant{last}, 1);
    provisioning.on_end(Instant{last});

    const Naive naive = Compute(units);
    std::map<int64_t, int64_t> unit_ns;
    for (const EpochSample& sample : provisioning.samples()) {
      if (sample.unit_ns > 0) unit_ns[sample.epoch] = sample.unit_ns;
    }
    ASSERT_EQ(unit_ns, naive.unit_ns) << "round " << round;
    ASSERT_EQ(provisioning.utilisation().count(), naive.up_ns.size());
    ASSERT_EQ(provisioning.units_max(), naive.units_max);
    ASSERT_EQ(provisioning.units_mean_1000(),
              changes.empty()
                  ? 0
                  : naive.all_up_ns * 1000 / (last - changes.front().time));
    const std::vector<EpochSample> samples = provisioning.samples();
    ASSERT_TRUE(std::is_sorted(
        samples.begin(), samples.end(),
        [](const auto& a, const auto& b) { return a.epoch < b.epoch; }));
    epochs_compared += unit_ns.size();
  }
  EXPECT_GT(epochs_compared, 2'000u);
}

TEST(EpochSeries, ForgetsTheOldestAndCountsThem) {
  EpochSeries series;
  series.Reserve();
  constexpr auto kMost = static_cast<int64_t>(EpochSeries::kMost);
  EXPECT_TRUE(series.InOrder().empty());
  for (int64_t epoch = 0; epoch < kMost + 1'000; ++epoch) {
    series.push_back({.epoch = epoch});
    series.back().offered_bytes = static_cast<uint64_t>(epoch);
    EXPECT_LE(series.size(), EpochSeries::kMost);
  }
  EXPECT_EQ(series.forgotten().epochs, 1'000u);
  const std::vector<EpochSample> samples = series.InOrder();
  ASSERT_EQ(samples.size(), EpochSeries::kMost);
  for (int64_t i = 0; i < kMost; ++i) {
    const EpochSample& sample = samples[static_cast<size_t>(i)];
    ASSERT_EQ(sample.epoch, 1'000 + i);
    ASSERT_EQ(sample.offered_bytes, static_cast<uint64_t>(1'000 + i));
  }
}

// Three days of traffic.
TEST(Provisioning, DoesNotGrowWithTime) {
  Provisioning provisioning(Units(kGigabit, 2));
  provisioning.on_unit_up({0}, UnitId{0});
  constexpr int64_t kEpochs = 3 * 86'400 * 10;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    provisioning.on_offered({epoch * Provisioning::kEpochNs}, 1'000);
  }
  provisioning.on_end({kEpochs * Provisioning::kEpochNs});
  const size_t kept = provisioning.samples().size();
  EXPECT_LE(kept, EpochSeries::kMost);
  const ForgottenEpochs& forgotten = provisioning.forgotten();
  EXPECT_GE(kept + forgotten.epochs, static_cast<size_t>(kEpochs));
  EXPECT_EQ(forgotten.offered_bytes, forgotten.with_offered * 1'000);
  EXPECT_EQ(forgotten.with_offered, forgotten.epochs);
  EXPECT_EQ(forgotten.most_offered_bytes, 1'000u);
  EXPECT_EQ(provisioning.units_mean_1000(), 1'000);
}

}  // namespace
}  // namespace snf
