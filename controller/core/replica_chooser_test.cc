// SPDX-License-Identifier: Apache-2.0
#include "controller/core/replica_chooser.h"

#include <algorithm>
#include <bit>
#include <iostream>
#include <map>
#include <vector>

#include "base/messages/controller_commands.h"
#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};

UnitId Id(uint32_t i) { return UnitId{static_cast<uint16_t>(i)}; }

ControllerOptions OptionsOf(uint32_t units, uint32_t replicas,
                            ReplicaChoice choice) {
  ControllerOptions options;
  options.max_units = units;
  options.warm_units = 0;
  options.replicas = replicas;
  options.replica_choice = choice;
  return options;
}

// Returns a pool in which these units are placeable.
UnitPool PoolOf(uint32_t max_units, const std::vector<uint32_t>& placeable) {
  UnitPool pool(OptionsOf(max_units, 0, ReplicaChoice::kNone));
  ControllerOut out;
  for (const uint32_t unit : placeable) {
    out.clear();
    EXPECT_TRUE(pool.Use(kNow, Id(unit), out));
  }
  return pool;
}

UnitPool FullPool(uint32_t units) {
  std::vector<uint32_t> all(units);
  for (uint32_t i = 0; i < units; ++i) all[i] = i;
  return PoolOf(units, all);
}

std::vector<uint32_t> Choose(const ReplicaChooser& chooser, Rng& rng,
                             uint32_t unit, const UnitPool& pool) {
  ReplicaSet set;
  set.count = 7;  // what was in it does not matter
  chooser.Choose(rng, Id(unit), pool, set);
  std::vector<uint32_t> units;
  for (const UnitId chosen : set.span()) units.push_back(value(chosen));
  return units;
}

// The probability of each sequence of draws, found by enumerating all.
using Odds = std::map<std::vector<uint32_t>, double>;
void AddOdds(const std::vector<uint32_t>& placeable, uint32_t unit,
             size_t replicas, std::vector<uint32_t>& drawn, double odds,
             Odds& all) {
  const auto is_left = [&](uint32_t u) {
    return u != unit && std::ranges::find(drawn, u) == drawn.end();
  };
  double sum = 0;
  for (size_t i = 0; i < placeable.size(); ++i) {
    if (is_left(placeable[i])) sum += 1 / static_cast<double>(i + 1);
  }
  if (drawn.size() == replicas || sum == 0) {
    all[drawn] += odds;
    return;
  }
  for (size_t i = 0; i < placeable.size(); ++i) {
    if (!is_left(placeable[i])) continue;
    drawn.push_back(placeable[i]);
    AddOdds(placeable, unit, replicas, drawn,
            odds / static_cast<double>(i + 1) / sum, all);
    drawn.pop_back();
  }
}

struct Frequencies {
  std::vector<uint32_t> placeable;
  uint32_t unit;
  uint32_t replicas;
  double chi_square_limit;  // exceeded by chance in 1 of 10,000
};

TEST(ReplicaChooser, PushesToTheOtherEndOfTheUnits) {
  const ReplicaChooser chooser(OptionsOf(10, 3, ReplicaChoice::kLikely));
  const UnitPool pool = PoolOf(10, {1, 3, 4, 7, 9});
  const auto likely = [&](uint32_t unit, uint32_t wanted) {
    ReplicaSet set;
    set.count = 7;
    chooser.ChooseLikely(Id(unit), wanted, pool, set);
    std::vector<uint32_t> units;
    for (const UnitId chosen : set.span()) units.push_back(value(chosen));
    return units;
  };
  EXPECT_EQ(likely(9, 2), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(likely(1, 2), (std::vector<uint32_t>{9, 7}));
  EXPECT_EQ(likely(7, 2), (std::vector<uint32_t>{9, 4}));
  EXPECT_EQ(likely(7, 9), (std::vector<uint32_t>{9, 4, 3}));  // K = 3
  EXPECT_EQ(likely(9, 0), std::vector<uint32_t>{});
  Rng rng(1);
  EXPECT_EQ(Choose(chooser, rng, 4, pool), (std::vector<uint32_t>{9, 7, 3}));
  const UnitPool lone = PoolOf(10, {4});
  ReplicaSet set;
  chooser.ChooseLikely(Id(4), 3, lone, set);
  EXPECT_EQ(set.count, 0);
}

TEST(ReplicaChooser, DrawsWithoutReplacementByTheInverseOfRank) {
  constexpr uint64_t kSeed = 31;
  constexpr int kDraws = 200'000;
  const std::vector<Frequencies> cases = {
      {{0, 1, 3}, 1, 1, 15.1},          // 2 sequences: the worked example
      {{0, 1, 3}, 9, 1, 18.4},          // 3: the unit is not placeable
      {{0, 1, 2, 3, 4}, 0, 2, 37.4},    // 12
      {{0, 1, 2, 3, 4}, 4, 3, 57.0},    // 24
      {{2, 3, 5, 7, 8}, 5, 4, 57.0},    // 24: all others, in some order
      {{0, 1, 2, 4, 6, 9}, 3, 3, 185},  // 120
  };
  for (const Frequencies& c : cases) {
    Odds odds;
    std::vector<uint32_t> drawn;
    AddOdds(c.placeable, c.unit, c.replicas, drawn, 1, odds);
    const UnitPool pool = PoolOf(10, c.placeable);
    const ReplicaChooser chooser(
        OptionsOf(10, c.replicas, ReplicaChoice::kWeighted));
    Rng rng(kSeed);
    std::map<std::vector<uint32_t>, int> counts;
    for (int i = 0; i < kDraws; ++i) {
      ++counts[Choose(chooser, rng, c.unit, pool)];
    }
    double chi_square = 0;
    int counted = 0;
    for (const auto& [sequence, probability] : odds) {
      const double expected = probability * kDraws;
      const int count = counts[sequence];
      ASSERT_GT(expected, 20);
      chi_square += (count - expected) * (count - expected) / expected;
      counted += count;
    }
    EXPECT_EQ(counted, kDraws);
    std::cout << "seed " << kSeed << ": " << odds.size()
              << " sequences, chi-square " << chi_square << "\n";
    EXPECT_LT(chi_square, c.chi_square_limit);
  }
}

TEST(ReplicaChooser, DrawsTheFirstOfManyByTheInverseOfRank) {
  constexpr uint64_t kSeed = 32;
  constexpr int kDraws = 200'000;
  constexpr uint32_t kUnits = 10'000;
  const UnitPool pool = FullPool(kUnits);
  const ReplicaChooser chooser(OptionsOf(kUnits, 1, ReplicaChoice::kWeighted));
  Rng rng(kSeed);
  // Ranks are counted by powers of two: 1, 2-3, 4-7 …
  std::vector<int> counts(14);
  std::vector<double> weights(14);
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t rank = Choose(chooser, rng, kUnits, pool).at(0) + 1;
    ++counts[static_cast<size_t>(std::bit_width(rank)) - 1];
  }
  double sum = 0;
  for (uint32_t rank = 1; rank <= kUnits; ++rank) {
    weights[static_cast<size_t>(std::bit_width(rank)) - 1] += 1.0 / rank;
    sum += 1.0 / rank;
  }
  double chi_square = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = weights[i] / sum * kDraws;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  std::cout << "seed " << kSeed << ": chi-square " << chi_square << "\n";
  EXPECT_LT(chi_square, 41);  // 14 classes: by chance in 1 of 10,000
}

TEST(ReplicaChooser, TakesTheLowestIdsWhereTheChoiceIsDeterministic) {
  const UnitPool pool = PoolOf(10, {1, 2, 4, 8});
  const ReplicaChooser chooser(OptionsOf(10, 3, ReplicaChoice::kDeterministic));
  Rng rng(1);
  using Ids = std::vector<uint32_t>;
  EXPECT_EQ(Choose(chooser, rng, 0, pool), (Ids{1, 2, 4}));
  EXPECT_EQ(Choose(chooser, rng, 2, pool), (Ids{1, 4, 8}));
  EXPECT_EQ(Choose(chooser, rng, 8, pool), (Ids{1, 2, 4}));
  EXPECT_EQ(Choose(chooser, rng, 1, PoolOf(10, {1, 5})), (Ids{5}));
  EXPECT_EQ(rng, Rng(1));
}

TEST(ReplicaChooser, ChoosesNoneWhereThereIsNoneToChoose) {
  Rng rng(1);
  for (const ReplicaChoice choice :
       {ReplicaChoice::kWeighted, ReplicaChoice::kDeterministic}) {
    const ReplicaChooser chooser(OptionsOf(10, 3, choice));
    EXPECT_TRUE(Choose(chooser, rng, 0, PoolOf(10, {})).empty());
    EXPECT_TRUE(Choose(chooser, rng, 4, PoolOf(10, {4})).empty());
    const ReplicaChooser without(OptionsOf(10, 0, choice));
    EXPECT_TRUE(Choose(without, rng, 0, FullPool(10)).empty());
  }
  const ReplicaChooser reactive(OptionsOf(10, 3, ReplicaChoice::kNone));
  EXPECT_TRUE(Choose(reactive, rng, 0, FullPool(10)).empty());
}

TEST(ReplicaChooser, ChoosesDifferentPlaceableUnitsOtherThanTheFlowlets) {
  constexpr uint64_t kSeed = 33;
  Rng rng(kSeed);
  uint64_t all = 0, some = 0;
  for (int round = 0; round < 3'000; ++round) {
    const auto units = static_cast<uint32_t>(1 + rng.Below(40));
    const auto replicas = static_cast<uint32_t>(rng.Below(kMaxReplicas + 1));
    std::vector<uint32_t> placeable;
    for (uint32_t i = 0; i < units; ++i) {
      if (rng.Chance(50'000)) placeable.push_back(i);
    }
    const auto unit = static_cast<uint32_t>(rng.Below(units));
    const UnitPool pool = PoolOf(units, placeable);
    const ReplicaChooser chooser(
        OptionsOf(units, replicas, ReplicaChoice::kWeighted));
    std::vector<uint32_t> chosen = Choose(chooser, rng, unit, pool);
    std::erase(placeable, unit);
    ASSERT_EQ(chosen.size(), std::min<size_t>(replicas, placeable.size()))
        << "seed " << kSeed << " round " << round;
    std::ranges::sort(chosen);
    ASSERT_EQ(std::ranges::adjacent_find(chosen), chosen.end());
    ASSERT_TRUE(std::ranges::includes(placeable, chosen));
    ++(chosen.size() == placeable.size() ? all : some);
  }
  std::cout << "seed " << kSeed << ": " << all << " times all others, " << some
            << " times some of them\n";
  EXPECT_GT(all, 500u);
  EXPECT_GT(some, 500u);
}

// A replica is for all units of its host, and none is for the flowlet's own.
TEST(ReplicaChooser, ChoosesOneUnitOnEachOtherHost) {
  constexpr uint32_t kUnits = 12, kPerHost = 3;
  ControllerOptions options = OptionsOf(kUnits, 2, ReplicaChoice::kLikely);
  options.units_per_host = kPerHost;
  UnitPool pool(options);
  ControllerOut out;
  for (uint32_t i = 0; i < kUnits; ++i) {
    out.clear();
    EXPECT_TRUE(pool.Use(kNow, Id(i), out));
  }
  Rng rng(3);
  EXPECT_EQ(Choose(ReplicaChooser(options), rng, 4, pool),
            (std::vector<uint32_t>{11, 8}));
  EXPECT_EQ(Choose(ReplicaChooser(options), rng, 11, pool),
            (std::vector<uint32_t>{0, 3}));
  EXPECT_EQ(Choose(ReplicaChooser(options), rng, 9, pool),
            (std::vector<uint32_t>{8, 5}));
  options.replica_choice = ReplicaChoice::kDeterministic;
  EXPECT_EQ(Choose(ReplicaChooser(options), rng, 1, pool),
            (std::vector<uint32_t>{3, 6}));
  options.replica_choice = ReplicaChoice::kWeighted;
  options.replicas = kMaxReplicas;  // more than there are hosts
  uint32_t most = 0;
  for (uint32_t i = 0; i < 1'000; ++i) {
    const uint32_t unit = i % kUnits;
    const auto chosen = Choose(ReplicaChooser(options), rng, unit, pool);
    std::vector<uint32_t> hosts = {unit / kPerHost};
    for (const uint32_t each : chosen) hosts.push_back(each / kPerHost);
    std::ranges::sort(hosts);
    EXPECT_EQ(std::ranges::adjacent_find(hosts), hosts.end());
    most = std::max(most, static_cast<uint32_t>(chosen.size()));
  }
  EXPECT_EQ(most, 3u);
}

TEST(ReplicaChooser, DrawsTheSameFromTheSameSeed) {
  const UnitPool pool = FullPool(1'000);
  const ReplicaChooser chooser(OptionsOf(1'000, 16, ReplicaChoice::kWeighted));
  Rng one(5), same(5), other(6);
  const std::vector<uint32_t> first = Choose(chooser, one, 3, pool);
  EXPECT_EQ(Choose(chooser, same, 3, pool), first);
  EXPECT_EQ(one, same);
  EXPECT_NE(Choose(chooser, other, 3, pool), first);
}

}  // namespace
}  // namespace snf
