// SPDX-License-Identifier: Apache-2.0
#include "platform/bypass/bypass_core.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

using Phase = BypassCore::Phase;

constexpr Nanos kPatience = Seconds(1);
constexpr Instant kStart{1'000};

BypassCore GoneAtStart() {
  BypassCore core(kPatience);
  core.on_daemon_gone(kStart);
  return core;
}

BypassCore PassingFromPatience() {
  BypassCore core = GoneAtStart();
  core.Look(kStart + kPatience, false);
  return core;
}

TEST(BypassCoreTest, PassesNothingWhileTheDaemonLives) {
  BypassCore core(kPatience);
  EXPECT_EQ(core.Look(kStart + Seconds(1'000), false), Phase::kArmed);
  EXPECT_EQ(core.Look(kStart + Seconds(1'000), true), Phase::kArmed);
  EXPECT_FALSE(core.is_daemon_gone());
}

TEST(BypassCoreTest, EndsWithADaemonThatEndsCleanly) {
  BypassCore core(kPatience);
  core.on_clean_end();
  core.on_daemon_gone(kStart);
  EXPECT_EQ(core.Look(kStart + kPatience, false), Phase::kEnded);
  EXPECT_FALSE(core.is_daemon_gone());
}

TEST(BypassCoreTest, PassesPacketsOncePatienceIsOver) {
  BypassCore core = GoneAtStart();
  EXPECT_TRUE(core.is_daemon_gone());
  EXPECT_EQ(core.Look(kStart, false), Phase::kWaiting);
  EXPECT_EQ(core.Look(kStart + kPatience + Nanos{-1}, false), Phase::kWaiting);
  EXPECT_EQ(core.Look(kStart + kPatience, false), Phase::kPassing);
  EXPECT_EQ(core.Look(kStart + Seconds(1'000), false), Phase::kPassing);
}

TEST(BypassCoreTest, PassesNothingIfAnotherDaemonCameInTime) {
  BypassCore core = GoneAtStart();
  EXPECT_EQ(core.Look(kStart + kPatience + Nanos{-1}, true), Phase::kGivenWay);
  EXPECT_EQ(core.Look(kStart + kPatience, true), Phase::kGivenWay);
}

TEST(BypassCoreTest, GivesWayToAClaimThatComesWithTheEndOfPatience) {
  BypassCore core = GoneAtStart();
  EXPECT_EQ(core.Look(kStart + kPatience, true), Phase::kGivenWay);
}

TEST(BypassCoreTest, GivesWayWhilePacketsPass) {
  BypassCore core = PassingFromPatience();
  EXPECT_EQ(core.Look(kStart + Seconds(5), true), Phase::kGivenWay);
}

TEST(BypassCoreTest, WaitsAnewIfTheOtherDaemonDiesAsItStarts) {
  BypassCore core = PassingFromPatience();
  core.Look(kStart + Seconds(5), true);
  EXPECT_EQ(core.Look(kStart + Seconds(6), false), Phase::kWaiting);
  EXPECT_EQ(core.Look(kStart + Seconds(7) + Nanos{-1}, false), Phase::kWaiting);
  EXPECT_EQ(core.Look(kStart + Seconds(7), false), Phase::kPassing);
}

TEST(BypassCoreTest, EndsOnceAnotherProcessKeepsTheClaim) {
  BypassCore core = PassingFromPatience();
  const Instant claimed = kStart + Seconds(5);
  core.Look(claimed, true);
  const Instant end = claimed + BypassCore::kMostGivenWay;
  EXPECT_EQ(core.Look(end + Nanos{-1}, true), Phase::kGivenWay);
  EXPECT_EQ(core.Look(end, true), Phase::kEnded);
  EXPECT_EQ(core.Look(end + kPatience, false), Phase::kEnded);
}

TEST(BypassCoreTest, EndsInAnyStateIfItIsTold) {
  for (BypassCore core :
       {BypassCore(kPatience), GoneAtStart(), PassingFromPatience()}) {
    core.on_told_to_end();
    EXPECT_EQ(core.Look(kStart + Seconds(5), false), Phase::kEnded);
  }
}

}  // namespace
}  // namespace snf
