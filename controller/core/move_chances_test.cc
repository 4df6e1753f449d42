// SPDX-License-Identifier: Apache-2.0
#include "controller/core/move_chances.h"

#include <iostream>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};

TEST(MoveChances, TellApartTheHighestUnitAndFourSizes) {
  ControllerOptions options;
  options.warm_units = 3;
  UnitPool units(options);
  ControllerOut out;
  for (int i = 0; i < 3; ++i) units.TakeWarm(kNow, out);
  uint32_t kind = 0;
  for (const UnitId unit : {UnitId{1}, UnitId{2}}) {
    for (const uint32_t demand : {0u, 16u, 64u, 256u}) {
      EXPECT_EQ(MoveChances::KindOf(unit, demand, units), kind);
      if (demand > 0) {
        EXPECT_EQ(MoveChances::KindOf(unit, demand - 1, units), kind - 1);
      }
      ++kind;
    }
  }
  EXPECT_EQ(kind, MoveChances::kKinds);
  EXPECT_EQ(MoveChances::KindOf(UnitId{0}, 0, units), 0u);
}

TEST(MoveChances, AreWorthAReplicaUntilSomethingIsLearned) {
  MoveChances chances{ControllerOptions{}};
  for (uint32_t kind = 0; kind < MoveChances::kKinds; ++kind) {
    EXPECT_EQ(chances.Replicas(kind), 1u);
  }
}

TEST(MoveChances, AreWorthAReplicaForEachSixteenthOfAChance) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    MoveChances chances{ControllerOptions{}};
    Rng rng(seed);
    uint64_t often = 0, seldom = 0;
    for (int i = 0; i < 20'000; ++i) {
      chances.Count(1, rng.Chance(65'536 * 44 / 100));
      chances.Count(2, rng.Chance(65'536 * 2 / 100));
      if (i < 2'000) continue;
      often += chances.Replicas(1);
      seldom += chances.Replicas(2);
    }
    std::cout << "seed " << seed << ": " << often << " and " << seldom
              << " replicas in 18000 flowlets\n";
    // 44 % are 7.04 sixteenths, around which the learned chance varies.
    EXPECT_GT(often, 6 * 18'000u);
    EXPECT_LT(often, 8 * 18'000u);
    EXPECT_LT(seldom, 1'000u);
    EXPECT_EQ(chances.Replicas(3), 1u);  // of another kind
  }
}

}  // namespace
}  // namespace snf
