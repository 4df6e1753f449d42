// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_CONTROLLER_FAULTS_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_CONTROLLER_FAULTS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "platform/run/run.h"
#include "platform/system_test/test_run.h"

namespace snf {

// Random runs in which controllers, units and loggers die, at any time and many
// of them while others are dead or recover.

// Adds a death at any time, in half of the cases near that of another.
void AddKill(Kill::Victim victim, std::span<const OfferedFrame> packets,
             Rng& rng, std::vector<Kill>& kills);

// Adds loggers and deaths to the options of a schedule, with trouble between
// units and loggers, and starts that fail.
RunOptions WithDeaths(RunOptions options, std::span<const OfferedFrame> packets,
                      Rng& rng);

// Such runs of chronicles, of an NF that does anything, of tiny NATs and of
// real ones.
Outcome RunAnyChronicle(Rng& rng);
Outcome RunAnyAsks(Rng& rng);
Outcome RunAnyTinyNat(Rng& rng);
Outcome RunAnyNat(Rng& rng);

// Says what is not as promised; "" if all is.
std::string WhatIsWrong(const Outcome& outcome);

// Sums over schedules, by name.
using Totals = std::map<std::string_view, uint64_t>;
void Add(const RunResult& run, Totals& totals);

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_CONTROLLER_FAULTS_H_
