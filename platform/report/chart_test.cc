// SPDX-License-Identifier: Apache-2.0
#include "platform/report/chart.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kCapacityBps = 1'000'000'000;
constexpr int64_t kFirstEpoch = 17'000'000'000;  // in 2023
constexpr Instant kFirstPacket{kFirstEpoch * Provisioning::kEpochNs};

// An epoch that asked for so much, and had so many units.
EpochSample Epoch(int64_t number, int64_t demanded_bps, double units) {
  return {.epoch = kFirstEpoch + number,
          .offered_bytes = static_cast<uint64_t>(demanded_bps / 80),
          .unit_ns = static_cast<int64_t>(units * Provisioning::kEpochNs)};
}

std::string Chart(const std::vector<EpochSample>& epochs,
                  const Terminal& terminal = {}) {
  return BandwidthChart(epochs, kFirstPacket, kCapacityBps, terminal);
}

size_t WidestLine(std::string_view text) {
  size_t widest = 0;
  size_t columns = 0;
  for (const char c : text) {
    columns = c == '\n' ? 0 : columns + ((c & 0xc0) != 0x80 ? 1 : 0);
    widest = std::max(widest, columns);
  }
  return widest;
}

TEST(BandwidthChart, IsEmptyWithoutEpochs) { EXPECT_EQ(Chart({}), ""); }

TEST(BandwidthChart, DrawsDemandUnderWhatIsProvisioned) {
  EXPECT_EQ(Chart({Epoch(0, 500'000'000, 1), Epoch(1, 1'062'500'000, 2),
                   Epoch(2, 0, 1.5)}),
            R"(             █ demanded   ░ provisioned, unused
2.00 Gbit/s ┤        ░░░░░░░░
            │        ░░░░░░░░
            │        ░░░░░░░░░░░░░░░░
            │        ▂▂▂▂▂▂▂▂░░░░░░░░
1.00 Gbit/s ┤░░░░░░░░████████░░░░░░░░
            │░░░░░░░░████████░░░░░░░░
            │████████████████░░░░░░░░
            │████████████████░░░░░░░░
          0 └────────────────────────
             0 s     0.1 s   0.2 s
)");
}

TEST(BandwidthChart, MarksDemandBeyondWhatIsProvisioned) {
  EXPECT_EQ(
      Chart({Epoch(0, 2'000'000'000, 1)}),
      R"(             █ demanded   ░ provisioned, unused   ▓ demanded beyond it
2.00 Gbit/s ┤▓▓▓▓▓▓▓▓
            │▓▓▓▓▓▓▓▓
            │▓▓▓▓▓▓▓▓
            │▓▓▓▓▓▓▓▓
1.00 Gbit/s ┤████████
            │████████
            │████████
            │████████
          0 └────────
             0 s
)");
}

TEST(BandwidthChart, DrawsDemandAloneWithoutACapacity) {
  const std::vector<EpochSample> epochs = {Epoch(0, 500'000'000, 1),
                                           Epoch(1, 0, 2)};
  EXPECT_EQ(BandwidthChart(epochs, kFirstPacket, 0, {}),
            R"( 500 Mbit/s ┤████████
            │████████
            │████████
            │████████
 250 Mbit/s ┤████████
            │████████
            │████████
            │████████
          0 └────────────────
             0 s     0.1 s
)");
}

TEST(BandwidthChart, BeginsWithTheFirstPacketThatHasAFlow) {
  std::vector<EpochSample> epochs;
  for (int64_t i = 1; i <= 51; ++i) epochs.push_back(Epoch(i, 1'000'000, 1));
  const std::string chart = Chart(epochs);
  EXPECT_THAT(chart, HasSubstr("1 s       2 s       3 s"));
  EXPECT_THAT(chart, Not(HasSubstr("0 s ")));
}

TEST(BandwidthChart, KeepsToAscii) {
  const std::string chart =
      Chart({Epoch(0, 2'000'000'000, 1), Epoch(1, 500'000'000, 1)},
            {.columns = 80, .utf8 = false});
  EXPECT_EQ(
      chart,
      R"(             # demanded   . provisioned, unused   ! demanded beyond it
2.00 Gbit/s +!!!!!!!!
            |!!!!!!!!
            |!!!!!!!!
            |!!!!!!!!
1.00 Gbit/s +########........
            |########........
            |################
            |################
          0 +----------------
             0 s     0.1 s
)");
  EXPECT_TRUE(std::ranges::all_of(chart, [](char c) { return c > 0; }));
}

TEST(BandwidthChart, ShowsTheLeastDemand) {
  EXPECT_THAT(Chart({Epoch(0, 1'000, 1)}), HasSubstr("│▁▁▁▁▁▁▁▁\n"));
  EXPECT_THAT(Chart({Epoch(0, 1'000, 1)}, {.utf8 = false}),
              HasSubstr("|________\n"));
}

TEST(BandwidthChart, DrawsZeroDemandAsProvisionedOnly) {
  const std::string chart = Chart({Epoch(0, 0, 1), Epoch(1, 0, 1)});
  EXPECT_THAT(chart, HasSubstr("1.00 Gbit/s ┤░░░░░░░░░░░░░░░░\n"));
  EXPECT_THAT(chart, Not(HasSubstr("▁")));
}

TEST(BandwidthChart, DrawsNothingAtAllWithoutFailing) {
  EXPECT_THAT(Chart({Epoch(0, 0, 0)}), HasSubstr("0 └────────\n"));
}

TEST(BandwidthChart, TakesTheMeanOfEpochsThatShareAColumn) {
  std::vector<EpochSample> epochs;
  for (int64_t i = 0; i < 10'000; ++i) {
    epochs.push_back(Epoch(i, i % 2 == 0 ? 0 : 1'000'000'000, 1));
  }
  const std::string chart = Chart(epochs);
  EXPECT_LE(WidestLine(chart), 72u);
  EXPECT_THAT(chart, HasSubstr("A column is the mean of 17.0 s.\n"));
  EXPECT_THAT(chart, HasSubstr("1.00 Gbit/s ┤░░░░░░░░"));
  EXPECT_THAT(chart, HasSubstr(" 500 Mbit/s ┤████████"));
  EXPECT_THAT(chart, HasSubstr("0 s        200 s"));
}

TEST(BandwidthChart, DrawsShortIdleTimesAsThem) {
  const std::string chart =
      Chart({Epoch(0, 1'000'000'000, 1), Epoch(3, 1'000'000'000, 1)});
  EXPECT_THAT(chart, HasSubstr("┤████████                ████████\n"));
  EXPECT_THAT(chart, Not(HasSubstr("Cut out")));
}

TEST(BandwidthChart, CutsOutYearsAndSaysSo) {
  constexpr int64_t kYear = 365LL * 24 * 3600 * 10;
  const std::string chart =
      Chart({Epoch(0, 1'000'000'000, 1), Epoch(kYear, 1'000'000'000, 1)});
  EXPECT_THAT(chart, HasSubstr("┤████████┊████████\n"));
  EXPECT_THAT(chart, HasSubstr("             0 s      8,760 h\n"));
  EXPECT_THAT(
      chart,
      HasSubstr("Cut out: 1 idle time of more than 1 s, 8,760 h in all.\n"));
}

// As of a run whose units were up, and to which no packet came.
TEST(BandwidthChart, BeginsDecadesAfterTheFirstPacketAtOnce) {
  constexpr int64_t kDecades = 50LL * 365 * 24 * 3600 * 10;
  EXPECT_THAT(Chart({Epoch(kDecades, 1'000'000'000, 1),
                     Epoch(kDecades + 1, 1'000'000'000, 1)}),
              HasSubstr("1.5768e+09 s"));
}

TEST(BandwidthChart, JoinsEpochsWhereThereAreTooManyCuts) {
  std::vector<EpochSample> epochs;
  for (int64_t i = 0; i < 100; ++i) {
    epochs.push_back(Epoch(i * 1'000, 1'000'000'000, 1));
  }
  const std::string chart = Chart(epochs);
  EXPECT_LE(WidestLine(chart), 72u);
  EXPECT_THAT(chart, Not(HasSubstr("┊")));
  EXPECT_THAT(
      chart,
      HasSubstr("Cut out: 99 idle times of more than 1 s, 2.75 h in all.\n"));
  EXPECT_THAT(chart, HasSubstr("0 s             53.3 min"));
}

TEST(BandwidthChart, StandsTimesAtTheEdgesOfInt64) {
  const EpochSample earliest = {.epoch = -92'233'720'369, .offered_bytes = 1};
  const EpochSample latest = {.epoch = 92'233'720'368, .offered_bytes = 1};
  const std::vector<EpochSample> epochs = {earliest, latest};
  EXPECT_NE(BandwidthChart(epochs, Instant::min(), kCapacityBps, {}), "");
  EXPECT_LE(SinceFirstPacket(earliest, Instant::min()), Nanos{0});
}

// Epochs begin with the first packet.
TEST(SinceFirstPacket, CountsWholeEpochs) {
  EXPECT_EQ(SinceFirstPacket(Epoch(0, 0, 0), kFirstPacket + Milliseconds(30)),
            Nanos{0});
  EXPECT_EQ(SinceFirstPacket(Epoch(1, 0, 0), kFirstPacket + Milliseconds(30)),
            Milliseconds(100));
  EXPECT_EQ(SinceFirstPacket({.epoch = -1}, Instant{-1}), Nanos{0});
}

}  // namespace
}  // namespace snf
