// SPDX-License-Identifier: Apache-2.0
//
// Random updates, lives of units and networks. SNF_LONG_TESTS=1 runs 20 times
// as many; SNF_TEST_SEED=n runs the one with that seed.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "runtime/tables/test_table_world.h"

namespace snf {
namespace {

struct Totals {
  uint64_t updates = 0;
  uint64_t messages = 0;
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t lives = 0;
  uint64_t withdrawn = 0;  // stops, before their units had left
  uint64_t returns = 0;    // of units that had, with their incarnation
  uint64_t refused = 0;
  uint64_t full_homes = 0;
  uint64_t forgotten = 0;
  uint64_t erased = 0;
  uint64_t expired = 0;
  uint64_t looks = 0;
  uint64_t bounded = 0;  // runs whose staleness was held to the bound
};

struct Schedule {
  TableWorldOptions world;
  uint64_t keys = 0;
  int steps = 0;
  int64_t gap_max = 0;
  uint32_t looks_65536 = 0;  // reads that the units know of
  uint32_t erases_65536 = 0;
  bool may_be_full = false;
  bool is_signed = false;

  // Each key's total is known in the end.
  bool is_exact() const {
    return !may_be_full && world.expires_after == Nanos::max();
  }
};

Schedule AnySchedule(uint64_t seed, Rng& rng) {
  Schedule schedule;
  TableWorldOptions& world = schedule.world;
  world.seed = seed;
  world.units = static_cast<uint32_t>(rng.Uniform(1, 32));
  schedule.keys = static_cast<uint64_t>(
      rng.Chance(32'768) ? rng.Uniform(1, 10) : rng.Uniform(10, 300));
  schedule.may_be_full = rng.Chance(20'000);
  world.max_entries = static_cast<uint32_t>(
      schedule.may_be_full
          ? rng.Uniform(1, static_cast<int64_t>(schedule.keys) + 1)
          : static_cast<int64_t>(schedule.keys) + rng.Uniform(0, 100));
  world.table.period = {rng.Uniform(1, 20'000'000)};
  if (schedule.may_be_full && rng.Chance(40'000)) {
    world.table.forget_after = {rng.Uniform(1, 200'000'000)};
  }
  world.table.retry_after = {rng.Uniform(100'000, 20'000'000)};
  if (rng.Chance(32'768)) {
    world.loss_65536 = static_cast<uint32_t>(rng.Uniform(0, 40'000));
    world.duplicate_65536 = static_cast<uint32_t>(rng.Uniform(0, 40'000));
  }
  if (rng.Chance(32'768)) world.delay_max = {rng.Uniform(1'000, 30'000'000)};
  schedule.steps = static_cast<int>(rng.Uniform(50, 600));
  schedule.gap_max = rng.Chance(32'768) ? 50'000 : 2'000'000;
  schedule.looks_65536 = static_cast<uint32_t>(rng.Uniform(0, 40'000));
  if (rng.Chance(32'768)) {
    schedule.erases_65536 = static_cast<uint32_t>(rng.Uniform(0, 30'000));
  }
  if (rng.Chance(16'384)) {
    world.expires_after = {rng.Uniform(1, 100'000'000)};
  }
  schedule.is_signed = rng.Chance(16'384);
  return schedule;
}

// Where nothing is lost or late enough to be repeated, everybody who reads sees
// an update as soon as the header says; who begins to read, a period later. One
// of a unit that has just said that it leaves waits for the answer to that.
Nanos BoundOf(const Schedule& schedule) {
  const TableWorldOptions& world = schedule.world;
  const auto per_message =
      TableMessage::kMaxWords / 3;  // of one word key and two of value
  const int64_t sweeps = world.max_entries / per_message + 1;
  constexpr int64_t kTick = 32'768;
  return {3 * (world.table.period.ns + kTick) +
          (4 * sweeps + 2) * 2 * world.delay_max.ns};
}

void RunOne(uint64_t seed, Totals& totals) {
  Rng rng(seed);
  const Schedule schedule = AnySchedule(seed, rng);
  TableWorld world(schedule.world);
  const uint32_t units = schedule.world.units;
  world.Start(0);
  for (int step = 0; step < schedule.steps; ++step) {
    world.RunUntil({world.now().ns + rng.Uniform(0, schedule.gap_max)});
    const auto unit = static_cast<uint32_t>(rng.Below(units));
    const uint64_t key = rng.Below(schedule.keys) * 0x9e37'79b9;
    if (!world.joined(unit)) {
      if (world.leaving(unit) && rng.Chance(32'768)) {
        world.Withdraw(unit);
        ++totals.returns;
      } else {
        world.Start(unit);
        ++totals.lives;
      }
    } else if (world.leaving(unit) && rng.Chance(8'000)) {
      world.Withdraw(unit);
      ++totals.withdrawn;
    } else if (rng.Chance(2'000)) {
      world.Stop(unit);
      continue;
    }
    if (world.leaving(unit)) continue;
    for (int64_t n = rng.Uniform(1, 5); n > 0; --n) {
      const uint64_t delta = rng.Below(4) - (schedule.is_signed ? 2 : 0);
      world.Update(unit, key, {delta, 1});
      ++totals.updates;
      if (!rng.Chance(schedule.erases_65536)) continue;
      world.Erase(unit, key);
      ASSERT_EQ(world.Read(unit, key), (TableWorld::Value{0, 0}));
    }
    for (uint32_t u = 0; u < units; ++u) {
      if (!world.joined(u) || world.leaving(u) ||
          !rng.Chance(schedule.looks_65536)) {
        continue;
      }
      world.Look(u);
      ++totals.looks;
    }
    if (!schedule.is_exact() || schedule.is_signed) continue;
    const auto reader = static_cast<uint32_t>(rng.Below(units));
    ASSERT_EQ(world.CheckReads(reader, key), "") << "copy " << reader;
    ASSERT_EQ(world.CheckReads(unit, key), "") << "copy " << unit;
  }
  ASSERT_TRUE(world.RunToTheEnd());
  ASSERT_EQ(world.Differences(schedule.is_exact()), "");
  const bool is_calm =
      schedule.world.loss_65536 == 0 &&
      schedule.world.delay_max.ns * 2 < schedule.world.table.retry_after.ns;
  if (is_calm) {
    ++totals.bounded;
    const Nanos bound = BoundOf(schedule);
    const int64_t periods = TableOptions::kUnreadPeriods;
    ASSERT_LE(world.staleness_max(), bound);
    ASSERT_LE(world.spread_max().ns,
              bound.ns + periods * schedule.world.table.period.ns);
  }
  totals.messages += world.messages;
  totals.lost += world.lost;
  totals.duplicated += world.duplicated;
  totals.refused += world.home().refused();
  totals.forgotten += world.home().forgotten();
  totals.erased += world.home().erased();
  totals.expired += world.home().expired();
  totals.full_homes += world.home().rest()[1] > 0 ? 1 : 0;
}

TEST(TableRandom, AllCopiesAreInTheEndTheSumOfAllUpdates) {
  const TestSeeds seeds(500, 10'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunOne(seed, totals);
    if (HasFatalFailure()) break;
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": "
            << totals.updates << " updates, " << totals.messages
            << " messages, " << totals.lost << " lost, " << totals.duplicated
            << " twice, " << totals.lives << " lives, " << totals.withdrawn
            << " stops withdrawn and " << totals.returns
            << " after they were through, " << totals.refused
            << " entries refused by homes, " << totals.forgotten
            << " forgotten, " << totals.erased << " erased, " << totals.expired
            << " expired, " << totals.full_homes << " homes full, "
            << totals.looks << " looks, " << totals.bounded
            << " runs held to the bound\n";
  if (seeds.is_part || HasFatalFailure()) return;
  EXPECT_GT(totals.lost, 10 * seeds.count());
  EXPECT_GT(totals.duplicated, 10 * seeds.count());
  EXPECT_GT(totals.lives, 10 * seeds.count());
  EXPECT_GT(totals.withdrawn, seeds.count() / 10);
  EXPECT_GT(totals.returns, seeds.count() / 2);
  EXPECT_GT(totals.refused, seeds.count());
  EXPECT_GT(totals.full_homes, seeds.count() / 10);
  EXPECT_GT(totals.forgotten, seeds.count());
  EXPECT_GT(totals.erased, 10 * seeds.count());
  EXPECT_GT(totals.expired, seeds.count());
  EXPECT_GT(totals.looks, 100 * seeds.count());
  EXPECT_GT(totals.bounded, seeds.count() / 5);
}

}  // namespace
}  // namespace snf
