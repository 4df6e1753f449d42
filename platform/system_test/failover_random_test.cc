// SPDX-License-Identifier: Apache-2.0
// Units fail at any step of random schedules, and nothing else goes wrong.
// SNF_TEST_SEED=n runs the schedule with that seed alone; SNF_LONG_TESTS=1 runs
// 20,000 of each kind.
#include <iostream>

#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "platform/system_test/test_failover_world.h"

namespace snf {
namespace {

TestSeeds SeedsFrom(uint64_t first) { return TestSeeds(600, 20'000, first); }

// Returns true if sums over schedules say something.
bool RunsAll() { return !SeedsFrom(1).is_part; }

// Whatever varies, varies with the seed.
FailoverTotals RunAll(const FailoverPlan& plan, uint64_t first_seed) {
  FailoverTotals totals;
  const TestSeeds seeds = SeedsFrom(first_seed);
  for (const uint64_t seed : seeds.all()) {
    FailoverPlan varied = plan;
    varied.units += static_cast<uint32_t>(seed % 3);
    const std::string wrong = FailoverWorld(seed, varied).Run(totals);
    EXPECT_EQ(wrong, "") << "SNF_TEST_SEED=" << seed << ", " << varied.units
                         << " units, " << plan.failures << " failures";
    if (!wrong.empty()) break;
  }
  std::cout << "seeds " << seeds.first << " to " << seeds.last << ": "
            << totals.released << " released, " << totals.tombstones
            << " lost, " << totals.rerouted << " re-routed, " << totals.moved
            << " moved, " << totals.redirects << " redirected, "
            << totals.from_loggers << " states from and " << totals.to_loggers
            << " takeovers to loggers, " << totals.refused
            << " entries refused, " << totals.restarts << " restarts, "
            << totals.loggers_replaced << " loggers replaced, which took "
            << totals.taken_by_new << " entries of before, "
            << totals.lost_with_loggers << " packets lost with them, "
            << totals.refused_of_fenced << " of fenced ones refused, "
            << totals.takes << " pieces taken, " << totals.aliases
            << " aliases granted, " << totals.fired << " timers, "
            << totals.ended << " ends, " << totals.tells_by_loggers
            << " of what loggers told, " << totals.updates_refused
            << " messages with updates of tables refused, "
            << totals.updates_in_rest << " for which there was no room, "
            << totals.keys_erased << " keys of tables erased\n";
  EXPECT_EQ(totals.given_up, 0u);
  return totals;
}

TEST(Failover, LosesNothingButWhatWasInTheUnit) {
  const FailoverTotals totals = RunAll({.failures = 1}, 1);
  if (!RunsAll()) return;
  EXPECT_GT(totals.tombstones, 100u);
  EXPECT_GT(totals.rerouted, 100u);
  EXPECT_GT(totals.moved, 30u);
  EXPECT_GT(totals.redirects, 100u);
  EXPECT_GT(totals.from_loggers, 100u);
  EXPECT_GT(totals.to_loggers, 20u);
}

TEST(Failover, IsRepeatedAfterTheRecovery) {
  const FailoverTotals totals = RunAll({.packets = 60, .failures = 3}, 100'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.restarts, 100u);
}

TEST(Failover, OfAUnitThatLivesOnDoesNoHarm) {
  const FailoverTotals totals =
      RunAll({.packets = 40, .failures = 2, .only_suspected = true}, 200'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.refused, 100u);
}

TEST(Failover, OfLoggersLosesNoState) {
  const FailoverTotals totals =
      RunAll({.packets = 60, .failures = 0, .logger_failures = 6}, 300'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.loggers_replaced, 1'000u);
  EXPECT_GT(totals.taken_by_new, 200u);
  EXPECT_GT(totals.lost_with_loggers, 200u);
  EXPECT_GT(totals.refused_of_fenced, 50u);
}

TEST(Failover, OfUnitsFindsAllWithTheLoggersThatTookOver) {
  const FailoverTotals totals =
      RunAll({.packets = 80, .failures = 3, .logger_failures = 6}, 400'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.loggers_replaced, 1'000u);
  EXPECT_GT(totals.from_loggers, 100u);
}

TEST(Failover, OfUnitsThatLiveOnAndOfLoggersDoesNoHarm) {
  const FailoverTotals totals = RunAll({.packets = 60,
                                        .failures = 2,
                                        .only_suspected = true,
                                        .logger_failures = 6},
                                       500'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.loggers_replaced, 1'000u);
}

// --- With pieces, aliases, timers and the ends of flows. ---

constexpr FailoverPlan kAll = {
    .packets = 60, .failures = 2, .may_ask = 31, .pieces = 3};

void ExpectAll(const FailoverTotals& totals) {
  if (!RunsAll()) return;
  EXPECT_GT(totals.takes, 2'000u);
  EXPECT_GT(totals.aliases, 3'000u);
  EXPECT_GT(totals.fired, 3'000u);
  EXPECT_GT(totals.ended, 300u);
}

TEST(Failover, KeepsPiecesAliasesTimersAndEnds) {
  const FailoverTotals totals = RunAll(kAll, 600'001);
  ExpectAll(totals);
  if (!RunsAll()) return;
  EXPECT_GT(totals.tells_by_loggers, 20u);
  EXPECT_GT(totals.tombstones, 1'000u);
  EXPECT_GT(totals.rerouted, 1'000u);
}

TEST(Failover, OfAUnitThatLivesOnKeepsPiecesAliasesTimersAndEnds) {
  FailoverPlan plan = kAll;
  plan.only_suspected = true;
  ExpectAll(RunAll(plan, 700'001));
}

TEST(Failover, OfUnitsAndLoggersKeepsPiecesAliasesTimersAndEnds) {
  FailoverPlan plan = kAll;
  plan.failures = 3;
  plan.logger_failures = 6;
  const FailoverTotals totals = RunAll(plan, 800'001);
  ExpectAll(totals);
  if (!RunsAll()) return;
  EXPECT_GT(totals.loggers_replaced, 1'000u);
}

// --- With a shared table: each update counts once (proto/protocol.md T1-T5).
// ---

FailoverTotals RunTables(FailoverPlan plan, uint64_t first_seed) {
  plan.tables = true;
  const FailoverTotals totals = RunAll(plan, first_seed);
  if (RunsAll()) {
    EXPECT_GT(totals.updates_in_rest, 10u);
    EXPECT_GT(totals.keys_erased, 10u);
  }
  return totals;
}

TEST(Failover, OfUnitsCountsEachUpdateOfATableOnce) {
  FailoverPlan plan = kAll;
  plan.failures = 3;
  const FailoverTotals totals = RunTables(plan, 900'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.tombstones, 1'000u);
  EXPECT_GT(totals.restarts, 100u);
}

TEST(Failover, OfUnitsThatLiveOnCountsEachUpdateOfATableOnce) {
  FailoverPlan plan = kAll;
  plan.only_suspected = true;
  RunTables(plan, 1'000'001);
}

TEST(Failover, OfLoggersCountsEachUpdateOfATableOnce) {
  const FailoverTotals totals = RunTables({.packets = 60,
                                           .failures = 0,
                                           .logger_failures = 6,
                                           .may_ask = 31,
                                           .pieces = 3},
                                          1'100'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.loggers_replaced, 1'000u);
  EXPECT_GT(totals.updates_refused, 100u);
}

TEST(Failover, OfUnitsAndLoggersCountsEachUpdateOfATableOnce) {
  FailoverPlan plan = kAll;
  plan.failures = 3;
  plan.logger_failures = 6;
  const FailoverTotals totals = RunTables(plan, 1'200'001);
  if (!RunsAll()) return;
  EXPECT_GT(totals.loggers_replaced, 1'000u);
}

}  // namespace
}  // namespace snf
