// SPDX-License-Identifier: Apache-2.0
// Every way in which small configurations can go: three real units, a network
// that reorders, loses and doubles messages, a controller that sends packets
// anywhere. SNF_LONG_TESTS=1 adds larger ones.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/core/test_explorer.h"
#include "runtime/core/test_world.h"

namespace snf {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

// Finds nothing wrong in the whole configuration; in a slow build, in the
// states that come first.
Findings ExploreAll(Configuration configuration) {
  if (kIsSlow) configuration.max_states = 50'000;
  const auto start = std::chrono::steady_clock::now();
  Findings findings = Explore(configuration);
  const std::chrono::duration<double> takeover =
      std::chrono::steady_clock::now() - start;
  std::cout << Summary(findings) << "; " << takeover.count() << " s\n";
  std::string trace;
  for (const std::string& line : findings.trace) trace += line + "\n";
  EXPECT_EQ(findings.violation, "") << trace;
  EXPECT_TRUE(kIsSlow || findings.is_complete);
  return findings;
}

TEST(UnitExplorer, FindsNothingWrongWithFivePacketsAndTwoPushes) {
  const Findings found = ExploreAll({.packets = 5, .pushes = 2});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 1'000'000u);
  EXPECT_GE(found.depth, 30u);
  EXPECT_GT(found.totals.seamless, 10'000u);
  EXPECT_GT(found.totals.waited, 100'000u);
  EXPECT_GT(found.totals.pushes, 100'000u);
  EXPECT_GT(found.totals.takeovers, 100'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithALostMessage) {
  const Findings found = ExploreAll({.packets = 4, .pushes = 2, .losses = 1});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 500'000u);
  EXPECT_GT(found.totals.repeated, 1'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithALostAndADoubledMessage) {
  const Findings found =
      ExploreAll({.packets = 4, .pushes = 1, .losses = 1, .duplicates = 1});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 500'000u);
  EXPECT_GT(found.totals.repeated, 1'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithTwoLostMessagesAndScaleIn) {
  const Findings found =
      ExploreAll({.packets = 3, .pushes = 1, .losses = 2, .leaves = 1});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 300'000u);
  EXPECT_GT(found.totals.stopped, 50'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithAUnitThatStopsAndStartsAgain) {
  const Findings found = ExploreAll({.packets = 3,
                                     .pushes = 1,
                                     .losses = 1,
                                     .duplicates = 1,
                                     .leaves = 1,
                                     .starts = 1});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 1'000'000u);
  EXPECT_GT(found.totals.stopped, 100'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithTwoFlowsAndRoomForOneReplica) {
  const Findings found =
      ExploreAll({.flows = 2, .packets = 4, .pushes = 2, .losses = 1});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 1'000'000u);
  EXPECT_GT(found.totals.evicted, 100'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithTimersThatFireEarly) {
  const Findings found = ExploreAll({.flows = 2,
                                     .packets = 3,
                                     .pushes = 2,
                                     .losses = 1,
                                     .repeats = 1,
                                     .expiries = 1});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 500'000u);
  EXPECT_GT(found.totals.expired, 100'000u);
  EXPECT_GT(found.totals.repeated, 50'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithAFlowThatEnds) {
  const Findings found = ExploreAll({.packets = 3,
                                     .pushes = 1,
                                     .losses = 1,
                                     .duplicates = 1,
                                     .repeats = 1,
                                     .ends = 1});
  EXPECT_TRUE(kIsSlow || found.states > 300'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithTimersOfTheNf) {
  const Findings lossy =
      ExploreAll({.packets = 3, .pushes = 1, .losses = 1, .has_timers = true});
  const Findings found = ExploreAll({.packets = 2,
                                     .pushes = 1,
                                     .losses = 1,
                                     .leaves = 1,
                                     .has_timers = true});
  if (kIsSlow) return;
  EXPECT_GT(lossy.states + found.states, 500'000u);
  EXPECT_GT(lossy.totals.timers + found.totals.timers, 50'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithLoggers) {
  const Findings moved =
      ExploreAll({.packets = 3, .pushes = 1, .losses = 1, .has_loggers = true});
  const Findings left = ExploreAll({.packets = 2,
                                    .pushes = 1,
                                    .losses = 1,
                                    .leaves = 1,
                                    .ends = 1,
                                    .has_loggers = true});
  if (kIsSlow) return;
  EXPECT_GT(moved.states + left.states, 20'000u);
  EXPECT_GT(moved.totals.takeovers, 900u);
  EXPECT_GT(left.totals.stopped, 1'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithUnitsOfOneHost) {
  const Findings found = ExploreAll({.packets = 4,
                                     .pushes = 3,
                                     .losses = 1,
                                     .duplicates = 1,
                                     .has_host = true});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 100'000u);
  EXPECT_GT(found.totals.shown, 10'000u);
  EXPECT_GT(found.totals.seamless, 5'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithAUnitThatFailsAfterShowing) {
  const Findings found = ExploreAll({.packets = 4,
                                     .pushes = 2,
                                     .losses = 1,
                                     .deaths = 1,
                                     .has_loggers = true,
                                     .has_host = true});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 100'000u);
  EXPECT_GT(found.totals.seen, 1'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithPacketsThatMayNotWait) {
  const Findings found =
      ExploreAll({.packets = 4, .pushes = 1, .losses = 1, .hold_packets = 0});
  if (kIsSlow) return;
  EXPECT_GT(found.states, 100'000u);
  EXPECT_GT(found.totals.tombstones, 10'000u);
}

TEST(UnitExplorer, FindsNothingWrongWithChannelsAndLateBeginnings) {
  const Findings found = ExploreAll({.packets = 3,
                                     .pushes = 1,
                                     .losses = 1,
                                     .leaves = 1,
                                     .has_channels = true,
                                     .begins_late = true});
  EXPECT_TRUE(kIsSlow || found.states > 500'000u);
}

TEST(UnitExplorer, FindsNothingWrongInLargerConfigurations) {
  if (std::getenv("SNF_LONG_TESTS") == nullptr || kIsSlow) return;
  const std::vector<Configuration> larger = {
      {.packets = 5, .pushes = 2, .losses = 1},
      {.packets = 4, .pushes = 1, .losses = 2, .duplicates = 1},
      {.packets = 4, .pushes = 1, .losses = 1, .leaves = 1, .starts = 1},
      {.flows = 2, .packets = 4, .pushes = 2, .losses = 1, .expiries = 1},
      {.flows = 2, .packets = 3, .pushes = 2, .losses = 1, .leaves = 1},
      {.packets = 3, .pushes = 1, .losses = 1, .leaves = 1, .has_timers = true},
      {.packets = 4, .pushes = 1, .leaves = 1, .has_channels = true},
      {.packets = 4, .pushes = 1, .losses = 1, .begins_late = true},
  };
  for (const Configuration& configuration : larger) {
    const Findings found = Explore(configuration);
    std::cout << Summary(found) << "\n";
    ASSERT_EQ(found.violation, "");
    EXPECT_TRUE(found.is_complete || found.states >= configuration.max_states);
  }
}

// Units whose fingerprints are equal are taken for one. If that hid something,
// the worlds would look different without it.
TEST(UnitExplorer, SeesTheSameWorldsWhereItTellsEveryHistoryApart) {
  std::vector<Configuration> small = {
      {.packets = 2, .pushes = 1, .losses = 1, .repeats = 1, .expiries = 1},
      {.packets = 3, .pushes = 1},
      {.units = 2, .packets = 3, .pushes = 1, .losses = 1},
      {.units = 2, .packets = 2, .pushes = 1, .losses = 1, .leaves = 1},
      {.units = 2, .packets = 2, .pushes = 1, .has_timers = true},
      {.packets = 3, .pushes = 1, .ends = 1}};
  if (kIsSlow) small.resize(2);
  for (Configuration configuration : small) {
    const Findings merged = Explore(configuration, /*keeps_looks=*/true);
    configuration.merges = false;
    const Findings apart = Explore(configuration, /*keeps_looks=*/true);
    ASSERT_TRUE(merged.is_complete && apart.is_complete);
    EXPECT_GT(apart.states, 4 * merged.states);
    EXPECT_GT(merged.looks.size(), 500u);
    EXPECT_EQ(merged.looks, apart.looks);
  }
}

}  // namespace
}  // namespace snf
