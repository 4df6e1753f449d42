// SPDX-License-Identifier: Apache-2.0
#include "controller/core/placement.h"

#include <array>
#include <iostream>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};
constexpr int64_t kQuantumBps = 1'000'000;  // of a unit of 1.024 Gbit/s
constexpr UnitId kU0{0}, kU1{1}, kU2{2}, kU3{3};

ControllerOptions OptionsOf(uint32_t units, uint32_t warm) {
  ControllerOptions options;
  options.max_units = units;
  options.warm_units = warm;
  options.unit_capacity_bps = kFullLoad * kQuantumBps;
  return options;
}

// A pool of active units with these loads, then `warm` warm and `stopped`
// stopped ones.
class Units {
 public:
  explicit Units(const std::vector<uint32_t>& loads, uint32_t warm = 0,
                 uint32_t stopped = 0)
      : pool_(OptionsOf(static_cast<uint32_t>(loads.size()) + warm + stopped,
                        static_cast<uint32_t>(loads.size()) + warm)) {
    for (const uint32_t load : loads) {
      const UnitId unit = pool_.TakeWarm(kNow, out_);
      pool_.OnReady(kNow, unit);
      pool_.OpenFlowlet(unit, load * kQuantumBps);
      EXPECT_EQ(pool_.load(unit), load);
    }
    out_.clear();
  }

  Placement Place(uint32_t demand, UnitId owner = kNoUnit,
                  uint32_t alpha = 256) {
    out_.clear();
    return FindPlacementPolicy("snf")->Place(
        kNow, {.demand = demand, .owner = owner, .alpha = alpha}, pool_, out_);
  }
  // Place, and count the demand.
  UnitId Open(uint32_t demand) {
    const UnitId unit = Place(demand).unit;
    pool_.OpenFlowlet(unit, demand * kQuantumBps);
    return unit;
  }
  // The commands that the last Place pushed: -1 for none, else the unit.
  int started() const {
    EXPECT_LE(out_.commands().size(), 1u);
    return out_.empty() ? -1 : value(out_.commands()[0].unit);
  }
  bool started_warm() const { return out_.commands()[0].warm; }
  UnitPool& pool() { return pool_; }

 private:
  UnitPool pool_;
  ControllerOut out_;
};

TEST(SnfPolicy, IsFoundByName) {
  ASSERT_NE(FindPlacementPolicy("snf"), nullptr);
  EXPECT_EQ(FindPlacementPolicy("snf")->name(), "snf");
  EXPECT_EQ(FindPlacementPolicy("best"), nullptr);
}

TEST(SnfPolicy, TakesTheFullestUnitWithRoom) {
  Units units({100, 900, 700, 950});
  EXPECT_EQ(units.Place(100).unit, kU1);
  EXPECT_EQ(units.Place(74).unit, kU3);
  EXPECT_EQ(units.Place(75).unit, kU1);
  EXPECT_EQ(units.Place(125).unit, kU2);
  EXPECT_EQ(units.Place(924).unit, kU0);
  EXPECT_EQ(units.started(), -1);
}

TEST(SnfPolicy, BreaksTiesByTheLowestId) {
  Units units({300, 500, 500, 500});
  EXPECT_EQ(units.Place(10).unit, kU1);
  EXPECT_EQ(units.Place(10, kU3, 0).unit, kU1);
  EXPECT_EQ(units.Place(10, kU0, 200).unit, kU0);  // 300 + 200 = 500
  EXPECT_EQ(units.Place(10, kU0, 199).unit, kU1);
  Units reversed({500, 300});
  EXPECT_EQ(reversed.Place(10, kU1, 200).unit, kU0);
  EXPECT_EQ(reversed.Place(10, kU1, 201).unit, kU1);
}

TEST(SnfPolicy, WeighsStateByAlpha) {
  Units units({800, 600});
  EXPECT_EQ(units.Place(10, kU1, 256).unit, kU1);
  EXPECT_EQ(units.Place(10, kU1, 0).unit, kU0);
  Units idle_owner({0, 1'000});
  EXPECT_EQ(idle_owner.Place(24, kU0, 1'024).unit, kU0);
  EXPECT_EQ(idle_owner.Place(24, kU0, 999).unit, kU1);
}

TEST(SnfPolicy, LeavesAnOwnerWithoutRoom) {
  Units units({1'000, 200});
  EXPECT_EQ(units.Place(24, kU0, 1'024).unit, kU0);
  EXPECT_EQ(units.Place(25, kU0, 1'024).unit, kU1);
  EXPECT_FALSE(units.Place(25, kU0, 1'024).overcommitted);
}

TEST(SnfPolicy, IgnoresAnOwnerThatIsNotPlaceable) {
  Units units({100}, /*warm=*/1, /*stopped=*/1);
  EXPECT_EQ(units.Place(10, kU1, 1'024).unit, kU0);
  EXPECT_EQ(units.Place(10, kU2, 1'024).unit, kU0);
  EXPECT_EQ(units.started(), -1);
}

TEST(SnfPolicy, TakesAWarmUnitBeforeACold) {
  Units units({1'000}, /*warm=*/1, /*stopped=*/1);
  const Placement placement = units.Place(25);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_FALSE(placement.overcommitted);
  EXPECT_EQ(units.started(), 1);
  EXPECT_TRUE(units.started_warm());
}

TEST(SnfPolicy, StartsAColdUnitAndOvercommitsTheLeastLoadedMeanwhile) {
  Units units({1'010, 1'000}, /*warm=*/0, /*stopped=*/1);
  const Placement placement = units.Place(25);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_TRUE(placement.overcommitted);
  EXPECT_EQ(units.started(), 2);
  EXPECT_FALSE(units.started_warm());
  EXPECT_EQ(units.pool().cold_starts(), 1u);
}

TEST(SnfPolicy, LetsTheFirstFlowletsWaitWhereNoUnitIsReady) {
  Units units({}, /*warm=*/0, /*stopped=*/3);
  EXPECT_EQ(units.Open(100), kU0);
  EXPECT_EQ(units.started(), 0);
  EXPECT_EQ(units.Open(100), kU0);
  EXPECT_EQ(units.started(), -1);
  EXPECT_EQ(units.pool().placeable_units(), 1u);
  EXPECT_EQ(units.pool().starting_units(), 0u);
}

TEST(SnfPolicy, DoesNotStampede) {
  // One full unit; then flowlets of half a unit come while others start.
  Units units({1'024}, /*warm=*/0, /*stopped=*/50);
  for (int i = 0; i < 20; ++i) units.Open(512);
  // 11 units' worth is asked for: 10 are started beside the one there.
  EXPECT_EQ(units.pool().cold_starts(), 10u);
}

TEST(SnfPolicy, OvercommitsWhereNoUnitIsLeft) {
  Units units({900, 1'000, 800});
  const Placement placement = units.Place(300);
  EXPECT_EQ(placement.unit, kU2);
  EXPECT_TRUE(placement.overcommitted);
  EXPECT_EQ(units.started(), -1);
}

TEST(SnfPolicy, PlacesADemandLargerThanAnyUnit) {
  Units units({5, 3, 4});
  const Placement placement = units.Place(2'000, kU0, 1'024);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_TRUE(placement.overcommitted);
  Units idle({0});
  EXPECT_FALSE(idle.Place(kFullLoad).overcommitted);
  EXPECT_TRUE(idle.Place(kFullLoad + 1).overcommitted);
}

TEST(SnfPolicy, UsesAStartingUnitWhenAllOthersAreGone) {
  Units units({1'000}, /*warm=*/0, /*stopped=*/1);
  EXPECT_TRUE(units.Place(25).overcommitted);  // starts unit 1
  ControllerOut out;
  units.pool().CloseFlowlet(kU0, 1'000 * kQuantumBps);
  while (units.pool().state(kU0) != UnitPool::State::kStopping) {
    ASSERT_TRUE(units.pool().OnTimer(units.pool().next_wakeup(), out) ||
                units.pool().next_wakeup() < Instant::max());
  }
  EXPECT_EQ(units.pool().placeable_units(), 0u);
  const Placement placement = units.Place(25);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_FALSE(placement.overcommitted);
  EXPECT_EQ(units.started(), -1);
  EXPECT_EQ(units.pool().starting_units(), 0u);
}

TEST(SnfPolicy, HasNoAnswerWhileAllUnitsAreStopping) {
  Units units({0});
  ControllerOut out;
  units.pool().CloseFlowlet(kU0, 0);
  while (units.pool().state(kU0) != UnitPool::State::kStopping) {
    ASSERT_TRUE(units.pool().OnTimer(units.pool().next_wakeup(), out) ||
                units.pool().next_wakeup() < Instant::max());
  }
  EXPECT_EQ(units.Place(25).unit, kNoUnit);
  units.pool().OnStopped(kU0);
  EXPECT_EQ(units.Place(25).unit, kU0);
}

// --- Against an O(n) reading of protocol.md §2
// --------------------------------

struct NaivePlacement {
  Placement placement;
  bool warm = false;
  bool cold = false;
};

NaivePlacement NaivePlace(const UnitPool& pool, const PlacementRequest& request,
                          uint32_t warm, uint32_t stopped) {
  UnitId best = kNoUnit, least = kNoUnit;
  int64_t best_score = -1;
  for (uint32_t i = 0; i < pool.max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (pool.state(unit) != UnitPool::State::kActive) continue;
    const int64_t load = pool.load(unit);
    if (least == kNoUnit || load < pool.load(least)) least = unit;
    if (load + request.demand > kFullLoad) continue;
    const int64_t score = load + (unit == request.owner ? request.alpha : 0);
    if (score > best_score) {
      best = unit;
      best_score = score;
    }
  }
  if (best != kNoUnit) return {{.unit = best}};
  if (warm > 0) {
    const auto first_warm = static_cast<uint16_t>(pool.placeable_units());
    return {{.unit = UnitId{first_warm}}, true};
  }
  return {{.unit = least, .overcommitted = true}, false, stopped > 0};
}

TEST(SnfPolicy, EqualsANaiveScanOfAllUnits) {
  constexpr uint64_t kSeed = 11;
  Rng rng(kSeed);
  std::array<uint64_t, 5> totals{};  // owner, other, warm, cold, overcommitted
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint32_t> loads(1 + rng.Below(rng.Chance(3'000) ? 200 : 6));
    const uint64_t low = rng.Below(kFullLoad + 1);
    for (uint32_t& load : loads) {
      load = static_cast<uint32_t>(low + rng.Below(kFullLoad + 1 - low));
      if (rng.Chance(20'000)) load = loads[0];
    }
    const auto warm = static_cast<uint32_t>(rng.Below(2));
    const auto stopped = static_cast<uint32_t>(rng.Below(2));
    Units units(loads, warm, stopped);
    const PlacementRequest request = {
        .demand =
            static_cast<uint32_t>(rng.Below(rng.Chance(20'000) ? 1'100 : 99)),
        .owner = rng.Chance(20'000) ? kNoUnit
                                    : UnitId{static_cast<uint16_t>(rng.Below(
                                          loads.size() + warm + stopped))},
        .alpha = static_cast<uint32_t>(rng.Below(4) * 256)};
    const NaivePlacement naive =
        NaivePlace(units.pool(), request, warm, stopped);
    const Placement got =
        units.Place(request.demand, request.owner, request.alpha);
    ASSERT_EQ(got.unit, naive.placement.unit) << "round " << round;
    ASSERT_EQ(got.overcommitted, naive.placement.overcommitted);
    ASSERT_EQ(units.started() >= 0, naive.warm || naive.cold);
    totals[0] += got.unit == request.owner ? 1 : 0;
    totals[1] += got.unit != request.owner ? 1 : 0;
    totals[2] += naive.warm ? 1 : 0;
    totals[3] += naive.cold ? 1 : 0;
    totals[4] += got.overcommitted ? 1 : 0;
  }
  std::cout << "seed " << kSeed << ": " << totals[0] << " to the owner, "
            << totals[1] << " elsewhere, " << totals[2] << " warm, "
            << totals[3] << " cold, " << totals[4] << " overcommitted\n";
  for (const uint64_t total : totals) EXPECT_GT(total, 500u);
}

}  // namespace
}  // namespace snf
