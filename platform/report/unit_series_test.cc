// SPDX-License-Identifier: Apache-2.0
#include "platform/report/unit_series.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr UnitId kFirst{0};
constexpr UnitId kSecond{1};
constexpr Instant kStart{1'003'000'000};

// Units of 1 Gbit/s, so of 1.25 MB in a step of 10 ms.
class UnitSeriesTest : public testing::Test {
 protected:
  UnitSeriesTest() { series_.on_start(kStart); }

  static Instant At(int64_t us) { return kStart + Microseconds(us); }
  void Release(int64_t us, UnitId unit, Nanos latency) {
    ReleasedPacket packet;
    packet.time = At(us);
    packet.route.unit = unit;
    packet.route.latency = latency;
    series_.on_release(packet);
  }

  UnitSeries series_{1'000'000'000, 4};
};

TEST_F(UnitSeriesTest, TellsWhenUnitsWereUpAndWhatTheyDrained) {
  series_.on_unit_up(At(0), kSecond);
  series_.on_drained(At(100), kSecond, 2, 3'000);
  series_.on_unit_up(At(5'000), kFirst);
  series_.on_unit_down(At(12'500), kSecond);
  series_.on_unit_up(At(30'000), kSecond);
  series_.on_end(At(31'000));
  EXPECT_EQ(series_.UnitTimes(),
            "unit,up_s,down_s,packets,bytes\n"
            "1,0.000000000,0.012500000,2,3000\n"
            "0,0.005000000,0.031000000,0,0\n"
            "1,0.030000000,0.031000000,0,0\n");
}

TEST_F(UnitSeriesTest, HasALineForAUnitThatWasUpInAStep) {
  series_.on_unit_up(At(0), kFirst);
  series_.on_unit_up(At(5'000), kSecond);
  series_.on_drained(At(6'000), kSecond, 100, 125'000);
  Release(7'000, kSecond, Microseconds(30));
  Release(7'001, kSecond, Microseconds(10));
  Release(7'002, kSecond, Microseconds(20));
  series_.on_drained(At(10'000), kFirst, 1, 625'000);
  series_.on_unit_down(At(15'000), kFirst);
  series_.on_end(At(15'000));
  EXPECT_EQ(series_.UnitSteps(),
            "start_s,unit,up,utilisation,packets,p50_s,p99_s\n"
            "0.000000000,0,1.0000,0.0000,0,,\n"
            "0.000000000,1,0.5000,0.2000,3,0.000020000,0.000030000\n"
            "0.010000000,0,0.5000,1.0000,0,,\n"
            "0.010000000,1,0.5000,0.0000,0,,\n");
}

TEST_F(UnitSeriesTest, CountsAUnitThatWasParkedAndCameBackInAStep) {
  series_.on_unit_up(At(0), kFirst);
  series_.on_unit_down(At(1'000), kFirst);
  series_.on_unit_up(At(9'000), kFirst);
  series_.on_drained(At(9'500), kFirst, 1, 25'000);
  series_.on_end(At(20'000));
  EXPECT_EQ(series_.UnitSteps(),
            "start_s,unit,up,utilisation,packets,p50_s,p99_s\n"
            "0.000000000,0,0.2000,0.1000,0,,\n"
            "0.010000000,0,1.0000,0.0000,0,,\n");
}

TEST_F(UnitSeriesTest, LeavesOutWhatIsBehindASecondOfIdleness) {
  series_.on_unit_up(At(0), kFirst);
  series_.on_drained(At(1), kFirst, 1, 100);
  series_.on_drained(At(3'600'000'000), kFirst, 1, 1'250'000);
  series_.on_end(At(3'600'010'000));
  EXPECT_THAT(series_.UnitSteps(),
              AllOf(HasSubstr("\n0.000000000,0,1.0000,0.0001,0,,\n"),
                    HasSubstr("\n1.000000000,0,1.0000,0.0000,0,,\n"
                              "3600.000000000,0,1.0000,1.0000,0,,\n")));
  EXPECT_EQ(std::ranges::count(series_.UnitSteps(), '\n'), 1 + 101 + 1);
}

TEST_F(UnitSeriesTest, AQuantileIsWhatSoManyDoNotExceed) {
  for (int64_t i = 1; i <= 100; ++i) Release(i, kFirst, Microseconds(i));
  series_.on_end(At(200));
  EXPECT_EQ(series_.UnitSteps(),
            "start_s,unit,up,utilisation,packets,p50_s,p99_s\n"
            "0.000000000,0,0.0000,0.0000,100,0.000050000,0.000099000\n");
}

TEST_F(UnitSeriesTest, LeavesOutPacketsWithoutAUnit) {
  Release(100, kNoUnit, {});
  series_.on_end(At(20'000));
  EXPECT_EQ(series_.UnitSteps(),
            "start_s,unit,up,utilisation,packets,p50_s,p99_s\n");
}

}  // namespace
}  // namespace snf
