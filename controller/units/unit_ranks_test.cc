// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_ranks.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <set>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

UnitId Id(uint32_t i) { return UnitId{static_cast<uint16_t>(i)}; }

TEST(UnitRanks, FindsMembersInTheOrderOfTheirIds) {
  UnitRanks ranks(8);
  for (const uint32_t i : {6, 2, 5}) ranks.Insert(Id(i));
  EXPECT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks.At(0), Id(2));
  EXPECT_EQ(ranks.At(1), Id(5));
  EXPECT_EQ(ranks.At(2), Id(6));
  ranks.Erase(Id(2));
  EXPECT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks.At(0), Id(5));
  EXPECT_EQ(ranks.At(1), Id(6));
}

TEST(UnitRanks, HoldsAllUnitsAtOnce) {
  for (const uint32_t units : {1u, 2u, 3u, 4u, 64u, 10'000u, kMaxUnits}) {
    UnitRanks ranks(units);
    for (uint32_t i = 0; i < units; ++i) ranks.Insert(Id(i));
    ASSERT_EQ(ranks.size(), units);
    for (uint32_t i = 0; i < units; ++i) ASSERT_EQ(ranks.At(i), Id(i));
    for (uint32_t i = 0; i + 1 < units; ++i) ranks.Erase(Id(i));
    ASSERT_EQ(ranks.At(0), Id(units - 1));
  }
}

TEST(UnitRanks, IsAValue) {
  UnitRanks ranks(4);
  ranks.Insert(Id(3));
  UnitRanks copy = ranks;
  copy.Insert(Id(1));
  EXPECT_EQ(ranks.At(0), Id(3));
  EXPECT_EQ(ranks.size(), 1u);
  EXPECT_EQ(copy.At(0), Id(1));
}

TEST(UnitRanksDeathTest, HasNoMemberBeyondItsSize) {
  UnitRanks ranks(4);
  ranks.Insert(Id(0));
  EXPECT_DEATH(ranks.At(1), "rank < size_");
}

class UnitRanksOfSize : public testing::TestWithParam<uint32_t> {};

TEST_P(UnitRanksOfSize, EqualsASortedSet) {
  const uint32_t units = GetParam();
  const uint64_t seed = units + 5;
  Rng rng(seed);
  UnitRanks ranks(units);
  std::set<uint32_t> naive;
  uint64_t inserted = 0, erased = 0;
  for (int round = 0; round < 400; ++round) {
    for (uint64_t n = rng.Below(std::min(units / 8, 800u) + 2); n > 0; --n) {
      const auto i = static_cast<uint32_t>(rng.Below(units));
      if (naive.insert(i).second) {
        ranks.Insert(Id(i));
        ++inserted;
      } else if (rng.Chance(40'000)) {
        ranks.Erase(Id(i));
        naive.erase(i);
        ++erased;
      }
    }
    ASSERT_EQ(ranks.size(), naive.size());
    // Compare all ranks now and then, one rank at other times.
    auto it = naive.begin();
    if (units <= 65 || round % 40 == 0) {
      for (uint32_t rank = 0; it != naive.end(); ++it, ++rank) {
        ASSERT_EQ(ranks.At(rank), Id(*it)) << "seed " << seed;
      }
    } else if (!naive.empty()) {
      const auto rank = static_cast<uint32_t>(rng.Below(naive.size()));
      std::advance(it, rank);
      ASSERT_EQ(ranks.At(rank), Id(*it)) << "seed " << seed;
    }
  }
  std::cout << "seed " << seed << ": " << inserted << " inserted, " << erased
            << " erased\n";
  EXPECT_GT(erased, 40u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, UnitRanksOfSize,
                         testing::Values(1, 2, 63, 64, 65, 10'000, 65'535));

}  // namespace
}  // namespace snf
