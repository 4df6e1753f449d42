// SPDX-License-Identifier: Apache-2.0
// Every way in which small worlds of a controller, units and their loggers can
// go, all of them real, when a unit fails at any step. SNF_LONG_TESTS=1 adds
// larger ones.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "gtest/gtest.h"
#include "platform/system_test/test_failover_explorer.h"
#include "platform/system_test/test_failover_world.h"

namespace snf {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

// Finds nothing wrong in all states that there are within the limits; in a slow
// build, in those that come first.
FailoverFindings ExploreAll(const FailoverPlan& plan,
                            uint32_t max_turns = kAnyTurns) {
  const auto start = std::chrono::steady_clock::now();
  const FailoverFindings found = ExploreFailover(
      plan,
      {.max_states = kIsSlow ? 2'000 : ~uint64_t{0}, .max_turns = max_turns});
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  std::cout << Summary(found) << "; " << took.count() << " s\n";
  std::string trace;
  for (const std::string& line : found.trace) trace += line + "\n";
  EXPECT_EQ(found.violation, "") << trace;
  EXPECT_TRUE(kIsSlow || found.is_complete);
  return found;
}

bool IsLong() { return std::getenv("SNF_LONG_TESTS") != nullptr; }

// --- All orders. ---

TEST(FailoverExplorer, FindsNothingWrongWithoutFailures) {
  const FailoverFindings found =
      ExploreAll({.units = 2, .flows = 1, .packets = 2, .failures = 0});
  EXPECT_TRUE(kIsSlow || found.states > 1'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithAPacketAndAFailure) {
  const FailoverFindings found =
      ExploreAll({.units = 2, .flows = 1, .packets = 1});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 10'000);
  EXPECT_GT(found.ends, 1'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithAUnitThatIsOnlySuspected) {
  const FailoverFindings found =
      ExploreAll({.units = 2, .flows = 1, .packets = 1, .only_suspected = true},
                 IsLong() ? kAnyTurns : 3);
  EXPECT_TRUE(kIsSlow || found.states > 1'000);
}

// --- Orders that leave the usual one a few times. ---

constexpr FailoverPlan kMoving = {
    .units = 3, .flows = 1, .packets = 3, .flowlet_packets = 1};

TEST(FailoverExplorer, FindsNothingWrongWithAFlowThatMoves) {
  const FailoverFindings found = ExploreAll(kMoving, IsLong() ? 3 : 2);
  if (kIsSlow) return;
  EXPECT_GT(found.states, 50'000);
  EXPECT_GT(found.ends, 5'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithASuspectedUnitOfAFlowThatMoves) {
  FailoverPlan plan = kMoving;
  plan.only_suspected = true;
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 3 : 2);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithTwoFlowsOfTwoFlowlets) {
  const FailoverFindings found =
      ExploreAll({.units = 2, .flows = 2, .packets = 6}, IsLong() ? 3 : 2);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithASecondFailure) {
  FailoverPlan plan = kMoving;
  plan.packets = 2;
  plan.failures = 2;
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 2 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

// --- Loggers that fail. ---

TEST(FailoverExplorer, FindsNothingWrongWithALoggerThatFails) {
  const FailoverFindings found = ExploreAll({.units = 2,
                                             .flows = 1,
                                             .packets = 2,
                                             .failures = 0,
                                             .flowlet_packets = 1,
                                             .logger_failures = 1},
                                            IsLong() ? kAnyTurns : 3);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithALoggerAndAUnitThatFail) {
  const FailoverFindings found = ExploreAll({.units = 2,
                                             .flows = 1,
                                             .packets = 2,
                                             .flowlet_packets = 1,
                                             .logger_failures = 1},
                                            IsLong() ? 2 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

// --- With pieces, aliases, timers and the ends of flows. ---

TEST(FailoverExplorer, FindsNothingWrongWithAFlowThatEnds) {
  const FailoverFindings found =
      ExploreAll({.units = 2, .flows = 1, .packets = 1, .asks = {kAskEnd}},
                 IsLong() ? 5 : 2);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithATimer) {
  const FailoverFindings found =
      ExploreAll({.units = 2, .flows = 1, .packets = 1, .asks = {kAskTimer}},
                 IsLong() ? 5 : 2);
  EXPECT_TRUE(kIsSlow || found.states > 5'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithAPieceAndItsAlias) {
  const FailoverFindings found = ExploreAll(
      {.units = 2, .flows = 1, .packets = 1, .asks = {kAskPiece}, .pieces = 2},
      IsLong() ? 5 : 2);
  EXPECT_TRUE(kIsSlow || found.states > 5'000);
}

constexpr FailoverPlan kAll = {.units = 2,
                               .flows = 1,
                               .packets = 2,
                               .flowlet_packets = 1,
                               .asks = {kAskPiece | kAskTimer, kAskEnd},
                               .pieces = 2};

TEST(FailoverExplorer, FindsNothingWrongWithAFlowThatMovesAndDoesAll) {
  const FailoverFindings found = ExploreAll(kAll, IsLong() ? 3 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithAPieceThatIsGivenForAnother) {
  FailoverPlan plan = kAll;
  plan.packets = 3;
  plan.asks = {kAskPiece, kAskSwap};
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 2 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithTwoFlowsThatWantOnePiece) {
  FailoverPlan plan = kAll;
  plan.flows = 2;
  plan.pieces = 1;
  plan.asks = {kAskPiece | kAskEnd, kAskPiece};
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 2 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 10'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithTwoFlowsThatWantOneAlias) {
  FailoverPlan plan = kAll;
  plan.flows = 2;
  plan.asks = {kAskCommon, kAskCommon};
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 2 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 5'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithAllAndASuspectedUnit) {
  FailoverPlan plan = kAll;
  plan.only_suspected = true;
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 2 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 5'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithAllAndALoggerThatFails) {
  FailoverPlan plan = kAll;
  plan.failures = 0;
  plan.logger_failures = 1;
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 3 : 1);
  EXPECT_TRUE(kIsSlow || found.states > 5'000);
}

TEST(FailoverExplorer, FindsNothingWrongWithAllAndALoggerAndAUnitThatFail) {
  FailoverPlan plan = kAll;
  plan.logger_failures = 1;
  const FailoverFindings found = ExploreAll(plan, IsLong() ? 1 : 0);
  EXPECT_TRUE(kIsSlow || found.states > 5'000);
}

}  // namespace
}  // namespace snf
