// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_state_table.h"

#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr UnitId kU0{0}, kU1{1}, kU2{2};

TEST(UnitStateTable, CountFlowsThatLeaveAStoppingUnit) {
  UnitStateTable states(2);
  states.Set(kU0, UnitState::kActive);
  states.Set(kU1, UnitState::kActive);
  for (int i = 0; i < 3; ++i) states.AddOwned(kU0);
  for (int i = 0; i < 2; ++i) states.AddOwned(kU1);
  EXPECT_FALSE(states.RemoveOwned(kU0));
  EXPECT_EQ(states.leaving_flows(), 0u);
  states.Set(kU1, UnitState::kStopping);
  EXPECT_EQ(states.leaving_flows(), 2u);
  EXPECT_FALSE(states.RemoveOwned(kU1));
  EXPECT_TRUE(states.RemoveOwned(kU1));
  EXPECT_EQ(states.leaving_flows(), 0u);
  EXPECT_EQ(states.owned_flows(kU0), 2u);
}

TEST(UnitStateTable, CountNoFlowsOfAUnitThatIsTakenBack) {
  UnitStateTable states(1);
  states.AddOwned(kU0);
  states.Set(kU0, UnitState::kStopping);
  states.Set(kU0, UnitState::kStarting);
  EXPECT_EQ(states.leaving_flows(), 0u);
  EXPECT_FALSE(states.RemoveOwned(kU0));
}

TEST(UnitStateTable, FindTheLowestUnitThatIsNotBarred) {
  UnitStateTable states(4);
  UnitBars bars(4, 3);
  for (uint16_t i = 1; i < 4; ++i) states.Set(UnitId{i}, UnitState::kWarm);
  EXPECT_EQ(states.LowestIn(UnitState::kWarm, bars), kU1);
  bars.Drain(kU1);
  EXPECT_EQ(states.LowestIn(UnitState::kWarm, bars), kU2);
  bars.Drain(kU2);
  EXPECT_EQ(states.LowestIn(UnitState::kWarm, bars), kNoUnit)
      << "unit 3 is a spare one";
  EXPECT_EQ(states.LowestIn(UnitState::kActive, bars), kNoUnit);
}

TEST(UnitStateTable, SayWhetherAnotherUnitCouldBeUsed) {
  UnitStateTable states(3);
  UnitBars bars(3, 3);
  EXPECT_TRUE(states.HasUsable(3, bars, kU0)) << "stopped ones may be started";
  EXPECT_FALSE(states.HasUsable(1, bars, kU0));
  EXPECT_TRUE(states.HasUsable(1, bars, kNoUnit));
  states.Set(kU1, UnitState::kStopping);
  states.Set(kU2, UnitState::kCrashed);
  EXPECT_FALSE(states.HasUsable(3, bars, kU0));
  states.Set(kU2, UnitState::kActive);
  EXPECT_TRUE(states.HasUsable(3, bars, kU0));
  bars.Drain(kU2);
  EXPECT_FALSE(states.HasUsable(3, bars, kU0));
}

TEST(UnitStateTable, KeepTheirCountsEqualToTheStates) {
  constexpr uint32_t kUnits = 5;
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  UnitStateTable states(kUnits);
  std::vector<UnitState> state(kUnits, UnitState::kStopped);
  std::vector<uint32_t> owned(kUnits, 0);
  for (int step = 0; step < 10'000; ++step) {
    const auto at = static_cast<uint16_t>(rng.Below(kUnits));
    const UnitId unit{at};
    switch (rng.Below(3)) {
      case 0:
        state[at] = static_cast<UnitState>(rng.Below(7));
        states.Set(unit, state[at]);
        break;
      case 1:
        if (state[at] == UnitState::kStopping) break;
        ++owned[at];
        states.AddOwned(unit);
        break;
      default:
        if (owned[at] == 0) break;
        --owned[at];
        EXPECT_EQ(states.RemoveOwned(unit),
                  state[at] == UnitState::kStopping && owned[at] == 0);
    }
    uint32_t warm = 0;
    uint32_t stopped = 0;
    uint64_t leaving = 0;
    for (uint32_t i = 0; i < kUnits; ++i) {
      warm += state[i] == UnitState::kWarm ? 1 : 0;
      stopped += state[i] == UnitState::kStopped ? 1 : 0;
      leaving += state[i] == UnitState::kStopping ? owned[i] : 0;
    }
    ASSERT_EQ(states.warm(), warm);
    ASSERT_EQ(states.stopped(), stopped);
    ASSERT_EQ(states.leaving_flows(), leaving);
  }
}

}  // namespace
}  // namespace snf
