// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <set>
#include <string_view>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/system_test/test_controller_faults.h"
#include "platform/system_test/test_schedule.h"

// Random schedules in which the controller dies, some time and more than once,
// and units and loggers before, meanwhile and afterwards. The checker holds
// them to I1 to I4, I6, I7 and I8. SNF_TEST_SEED=n runs the one with that seed;
// SNF_LONG_TESTS=1 runs 50 times as many.
namespace snf {
namespace {

// Runs schedules, and expects of each that all is as promised, and of all that
// everything happened often, but for what is named.
void RunSeeds(uint64_t count, Outcome (*run_any)(Rng&),
              const std::set<std::string_view>& rare = {}) {
  const TestSeeds seeds(count, 50 * count);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    Rng rng(seed);
    const Outcome outcome = run_any(rng);
    ASSERT_EQ(WhatIsWrong(outcome), "") << TestSeeds::Name(seed);
    Add(outcome.run, totals);
  }
  std::cout << fmt::format("seeds {} to {}\n", seeds.first, seeds.last);
  for (const auto& [name, sum] : totals) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, sum);
    if (seeds.is_part || rare.contains(name)) continue;
    EXPECT_GE(sum, 20u) << name;
  }
}

TEST(ControllerFaultsRandom, LeaveChroniclesWhole) {
  RunSeeds(700, RunAnyChronicle);
}

// Schedules in which a unit or a logger once reported behind one from which it
// had heard already.
TEST(ControllerFaultsRandom, ReportBeforeTheyHearOfWhoeverHas) {
  for (const uint64_t seed : {17'714, 18'760}) {
    Rng rng(seed);
    EXPECT_EQ(WhatIsWrong(RunAnyChronicle(rng)), "") << TestSeeds::Name(seed);
  }
}

// The slots of all units fill with packets that wait for clocks that are lost.
TEST(ControllerFaultsRandom, GiveUpFlowsForWhichThereIsNoRoom) {
  Rng rng(21'567);
  const Outcome outcome = RunAnyChronicle(rng);
  EXPECT_EQ(WhatIsWrong(outcome), "");
  EXPECT_GT(outcome.run.controller.failures.flows_given_up, 0u);
}

// A unit waits for an alias when its logger fails, while there is no
// controller: messages take no time, or the next controller waits for what the
// logger reports. Or what was before the alias was asked for is forgotten, or
// older copies are not. Or a unit with pieces does not start; or one has
// stopped that is to go on. Or a unit that was told of a flow's end fails with
// the controller, or one that has run more than its logger knows.
TEST(ControllerFaultsRandom, GoOnWhateverTheNextControllerFinds) {
  for (const uint64_t seed : {1'613, 4'540, 4'796, 6'033, 8'722, 22'070}) {
    Rng rng(seed);
    EXPECT_EQ(WhatIsWrong(RunAnyTinyNat(rng)), "") << TestSeeds::Name(seed);
  }
  for (const uint64_t seed : {1'768, 17'124}) {
    Rng rng(seed);
    EXPECT_EQ(WhatIsWrong(RunAnyNat(rng)), "") << TestSeeds::Name(seed);
  }
}

TEST(ControllerFaultsRandom, HoldTheirPromisesWhateverAnNfDoes) {
  RunSeeds(700, RunAnyAsks);
}

TEST(ControllerFaultsRandom, LeaveEachPortToOneFlow) {
  RunSeeds(700, RunAnyTinyNat);
}

TEST(ControllerFaultsRandom, LeaveNatsTheirPorts) {
  RunSeeds(600, RunAnyNat, {"flows ending"});
}

TEST(ControllerFaultsRandom, AreTheSameForTheSameSeed) {
  const TestSeeds seeds(50, 2'500);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const Schedule schedule = AnySchedule(rng);
    const RunOptions options =
        WithDeaths(schedule.options, schedule.packets, rng);
    RunOptions unchecked = options;
    unchecked.check = false;
    ExpectSame(RunFrames(options, TimelessChronicleNf(), schedule.packets,
                         schedule.policy)
                   .run,
               RunFrames(unchecked, TimelessChronicleNf(), schedule.packets,
                         schedule.policy)
                   .run);
  }
}

}  // namespace
}  // namespace snf
