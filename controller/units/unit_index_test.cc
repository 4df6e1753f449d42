// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_index.h"

#include <iostream>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

UnitId Id(uint32_t i) { return UnitId{static_cast<uint16_t>(i)}; }

TEST(UnitIndex, FindsTheFullestWithRoom) {
  UnitIndex index(3);
  index.Insert(Id(0), 900);
  index.Insert(Id(1), 700);
  index.Insert(Id(2), 700);
  EXPECT_EQ(index.FullestAtMost(1024 - 200), Id(1));
  EXPECT_EQ(index.FullestAtMost(900), Id(0));
  EXPECT_EQ(index.FullestAtMost(699), kNoUnit);
  EXPECT_EQ(index.LeastLoaded(), Id(1));
  EXPECT_EQ(index.total_load(), 2300u);
}

TEST(UnitIndex, FindsTheFullestWithRoomAmongSome) {
  UnitIndex index(5);
  for (const uint32_t i : {0u, 1u, 3u, 4u}) index.Insert(Id(i), 700);
  index.Insert(Id(2), 900);
  EXPECT_EQ(index.FullestIn(1, 5, 900), Id(2));
  EXPECT_EQ(index.FullestIn(1, 5, 899), Id(1));
  EXPECT_EQ(index.FullestIn(3, 5, 900), Id(3));
  EXPECT_EQ(index.FullestIn(0, 5, 699), kNoUnit);
  index.Erase(Id(3));
  EXPECT_EQ(index.FullestIn(3, 4, kFullLoad), kNoUnit);
  index.Update(Id(4), kMaxLoad);
  EXPECT_EQ(index.FullestIn(3, 5, kMaxLoad), kNoUnit);
}

TEST(UnitIndex, IsEmptyAtFirstAndAfterTheLastIsErased) {
  UnitIndex index(1);
  EXPECT_EQ(index.FullestAtMost(kFullLoad), kNoUnit);
  EXPECT_EQ(index.LeastLoaded(), kNoUnit);
  index.Insert(Id(0), kMaxLoad);
  EXPECT_EQ(index.FullestAtMost(kFullLoad), kNoUnit);
  EXPECT_EQ(index.LeastLoaded(), Id(0));
  EXPECT_EQ(index.load(Id(0)), kMaxLoad);
  index.Erase(Id(0));
  EXPECT_FALSE(index.contains(Id(0)));
  EXPECT_EQ(index.LeastLoaded(), kNoUnit);
  EXPECT_EQ(index.total_load(), 0u);
  EXPECT_EQ(index.size(), 0u);
}

TEST(UnitIndex, KnowsAFullUnitFromAnOverloadedOne) {
  UnitIndex index(2);
  index.Insert(Id(0), kFullLoad + 1);
  index.Insert(Id(1), kFullLoad);
  EXPECT_EQ(index.FullestAtMost(kFullLoad), Id(1));
  EXPECT_EQ(index.FullestAtMost(kFullLoad - 1), kNoUnit);
  EXPECT_EQ(index.LeastLoaded(), Id(1));
}

TEST(UnitIndex, IsAValue) {
  UnitIndex index(100);
  index.Insert(Id(70), 5);
  UnitIndex copy = index;
  copy.Update(Id(70), 9);
  copy.Insert(Id(3), 1);
  EXPECT_EQ(index.load(Id(70)), 5u);
  EXPECT_EQ(index.size(), 1u);
  EXPECT_EQ(copy.LeastLoaded(), Id(3));
}

// Beyond a full unit, loads count in steps of 16 quanta, up to 1023 of them.
uint32_t Step(uint32_t load) {
  if (load <= kFullLoad) return load;
  return kFullLoad + std::min((load - kFullLoad + 15) / 16, 1023u);
}

struct NaiveIndex {
  std::vector<std::optional<uint32_t>> loads;

  UnitId FullestAtMost(uint32_t limit) const {
    return FullestIn(0, static_cast<uint32_t>(loads.size()), limit);
  }
  UnitId FullestIn(uint32_t first, uint32_t end, uint32_t limit) const {
    UnitId best = kNoUnit;
    for (uint32_t i = first; i < end; ++i) {
      if (!loads[i] || *loads[i] > limit) continue;
      if (best == kNoUnit || *loads[i] > *loads[value(best)]) best = Id(i);
    }
    return best;
  }
  UnitId LeastLoaded() const {
    UnitId best = kNoUnit;
    for (uint32_t i = 0; i < loads.size(); ++i) {
      if (!loads[i]) continue;
      if (best == kNoUnit || Step(*loads[i]) < Step(*loads[value(best)])) {
        best = Id(i);
      }
    }
    return best;
  }
};

uint32_t RandomLoad(Rng& rng) {
  switch (rng.Below(4)) {
    case 0:
      return static_cast<uint32_t>(rng.Below(8));  // many equals
    case 1:
      return kFullLoad - 4 + static_cast<uint32_t>(rng.Below(40));
    case 2:
      return static_cast<uint32_t>(rng.Below(kMaxLoad + 1) >> rng.Below(8));
    default:
      return static_cast<uint32_t>(rng.Below(kFullLoad + 1));
  }
}

void RandomChange(Rng& rng, UnitIndex& index, NaiveIndex& naive) {
  const auto i = static_cast<uint32_t>(rng.Below(naive.loads.size()));
  const uint32_t load = RandomLoad(rng);
  auto& entry = naive.loads[i];
  ASSERT_EQ(index.contains(Id(i)), entry.has_value());
  if (!entry) {
    index.Insert(Id(i), load);
    entry = load;
  } else if (rng.Chance(25'000)) {
    index.Erase(Id(i));
    entry.reset();
  } else {
    index.Update(Id(i), load);
    entry = load;
  }
}

class UnitIndexOfSize : public testing::TestWithParam<uint32_t> {};

TEST_P(UnitIndexOfSize, EqualsANaiveScan) {
  const uint32_t units = GetParam();
  const uint64_t seed = units + 17;
  Rng rng(seed);
  UnitIndex index(units);
  NaiveIndex naive{std::vector<std::optional<uint32_t>>(units)};
  uint64_t found = 0, none = 0;
  const int rounds = units > 1'000 ? 400 : 4'000;
  for (int round = 0; round < rounds; ++round) {
    for (uint64_t n = rng.Below(units / 16 + 3); n > 0; --n) {
      RandomChange(rng, index, naive);
    }
    const auto limit = static_cast<uint32_t>(rng.Below(kFullLoad + 1));
    const UnitId fullest = index.FullestAtMost(limit);
    ASSERT_EQ(fullest, naive.FullestAtMost(limit)) << "seed " << seed;
    ASSERT_EQ(index.LeastLoaded(), naive.LeastLoaded()) << "seed " << seed;
    const auto first = static_cast<uint32_t>(rng.Below(units));
    const auto end =
        first + 1 + static_cast<uint32_t>(rng.Below(units - first));
    ASSERT_EQ(index.FullestIn(first, end, limit),
              naive.FullestIn(first, end, limit))
        << "seed " << seed << ", " << first << " to " << end;
    ++(fullest == kNoUnit ? none : found);
  }
  uint64_t total = 0;
  uint32_t size = 0;
  for (uint32_t i = 0; i < units; ++i) {
    if (!naive.loads[i]) continue;
    ASSERT_EQ(index.load(Id(i)), *naive.loads[i]);
    total += *naive.loads[i];
    ++size;
  }
  EXPECT_EQ(index.total_load(), total);
  EXPECT_EQ(index.size(), size);
  std::cout << "seed " << seed << ": " << found << " found, " << none
            << " none\n";
  EXPECT_GT(found, 250u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, UnitIndexOfSize,
                         testing::Values(1, 63, 64, 65, 4096, 10'000, 65'535));

}  // namespace
}  // namespace snf
