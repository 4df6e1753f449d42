// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_bars.h"

#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

std::vector<uint32_t> Barred(const UnitBars& bars, uint32_t units) {
  std::vector<uint32_t> barred;
  for (uint32_t i = 0; i < units; ++i) {
    if (bars.Has(UnitId{static_cast<uint16_t>(i)})) barred.push_back(i);
  }
  return barred;
}

TEST(UnitBars, HoldNoUnitAtFirst) {
  const UnitBars bars(4, 4);
  EXPECT_FALSE(bars.any());
  EXPECT_TRUE(Barred(bars, 4).empty());
}

TEST(UnitBars, HoldDrainedUnitsAndUnitsBeyondTheLimit) {
  UnitBars bars(8, 7);
  EXPECT_TRUE(bars.any()) << "unit 7 is a spare one";
  EXPECT_TRUE(bars.Drain(UnitId{2}));
  bars.set_usable(5);
  EXPECT_EQ(Barred(bars, 8), (std::vector<uint32_t>{2, 5, 6, 7}));
  EXPECT_TRUE(bars.drained(UnitId{2}));
  EXPECT_FALSE(bars.drained(UnitId{5}));
}

TEST(UnitBars, LetGoOfAUnitThatIsDrainedNoMore) {
  UnitBars bars(4, 4);
  EXPECT_TRUE(bars.Drain(UnitId{1}));
  EXPECT_FALSE(bars.Drain(UnitId{1}));
  EXPECT_TRUE(bars.any());
  bars.Undrain(UnitId{1});
  EXPECT_FALSE(bars.any());
  EXPECT_TRUE(Barred(bars, 4).empty());
}

}  // namespace
}  // namespace snf
