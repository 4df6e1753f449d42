// SPDX-License-Identifier: Apache-2.0
// Units fail at any step of random schedules, and nothing else goes wrong.
#include <cstdlib>
#include <iostream>

#include "gtest/gtest.h"
#include "platform/system_test/test_failover_world.h"

namespace snf {
namespace {

uint64_t Schedules() {
  return std::getenv("SNF_LONG_TESTS") != nullptr ? 20'000 : 600;
}

FailoverTotals RunAll(const FailoverPlan& plan, uint64_t first_seed) {
  FailoverTotals totals;
  for (uint64_t i = 0; i < Schedules(); ++i) {
    FailoverPlan varied = plan;
    varied.units += static_cast<uint32_t>(i % 3);
    const std::string wrong = FailoverWorld(first_seed + i, varied).Run(totals);
    EXPECT_EQ(wrong, "") << "seed " << first_seed + i << ", " << varied.units
                         << " units, " << plan.failures << " failures";
    if (!wrong.empty()) break;
  }
  std::cout << "seeds from " << first_seed << ": " << totals.released
            << " released, " << totals.tombstones << " lost, "
            << totals.rerouted << " re-routed, " << totals.moved << " moved, "
            << totals.redirects << " redirected, " << totals.from_loggers
            << " states from and " << totals.to_loggers
            << " takeovers to loggers, " << totals.refused
            << " entries refused, " << totals.restarts << " restarts\n";
  EXPECT_EQ(totals.given_up, 0u);
  return totals;
}

TEST(Failover, LosesNothingButWhatWasInTheUnit) {
  const FailoverTotals totals = RunAll({.failures = 1}, 1);
  EXPECT_GT(totals.tombstones, 100u);
  EXPECT_GT(totals.rerouted, 100u);
  EXPECT_GT(totals.moved, 30u);
  EXPECT_GT(totals.redirects, 100u);
  EXPECT_GT(totals.from_loggers, 100u);
  EXPECT_GT(totals.to_loggers, 20u);
}

TEST(Failover, IsRepeatedAfterTheRecovery) {
  const FailoverTotals totals = RunAll({.packets = 60, .failures = 3}, 100'001);
  EXPECT_GT(totals.restarts, 100u);
}

TEST(Failover, OfAUnitThatLivesOnDoesNoHarm) {
  const FailoverTotals totals =
      RunAll({.packets = 40, .failures = 2, .only_suspected = true}, 200'001);
  EXPECT_GT(totals.refused, 100u);
}

}  // namespace
}  // namespace snf
