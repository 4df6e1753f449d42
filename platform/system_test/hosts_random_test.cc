// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/system_test/test_controller_faults.h"
#include "platform/system_test/test_nat_traffic.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"
#include "platform/system_test/test_tiny_nat_schedule.h"

// Random schedules with several units on a host, and hosts that fail with all
// their units and all loggers on them, while units, loggers and controllers
// fail as well. The checker holds them to I1 to I4, I6, I7 and I8.
// SNF_TEST_SEED=n runs the one with that seed; SNF_LONG_TESTS=1 runs 20 times
// as many.
namespace snf {
namespace {

RunOptions WithHosts(RunOptions options, Rng& rng) {
  ControllerOptions& c = options.controller;
  constexpr std::array<uint32_t, 6> kPerHost = {1, 2, 2, 3, 4, 8};
  c.units_per_host = kPerHost[rng.Below(kPerHost.size())];
  constexpr std::array<int64_t, 4> kDelays = {0, 1'000, 60'000, 3'000'000};
  options.local_handover = Nanos{kDelays[rng.Below(kDelays.size())]};
  return options;
}

RunOptions WithHostDeaths(RunOptions options,
                          std::span<const OfferedFrame> packets, Rng& rng) {
  options = WithHosts(WithDeaths(std::move(options), packets, rng), rng);
  std::vector<Kill>& kills = options.faults.kills;
  ControllerOptions& c = options.controller;
  c.max_units = std::max(c.max_units, c.units_per_host + 1);
  if (rng.Below(3) == 0) c.spare_units = 1;
  for (uint64_t i = 1 + rng.Below(4); i > 0; --i) {
    AddKill(Kill::Victim::kHost, packets, rng, kills);
    // Units are taken from the lowest on.
    if (rng.Below(2) == 0) kills.back().host = static_cast<int>(rng.Below(2));
  }
  if (rng.Below(2) == 0) {
    kills.push_back({.victim = Kill::Victim::kHost,
                     .chance_65536 = static_cast<uint32_t>(rng.Below(2'000))});
  }
  return options;
}

void AddHosts(const RunResult& run, Totals& totals) {
  Add(run, totals);
  totals["hosts killed"] += run.faults.host_kills;
  totals["kills without host"] += run.faults.kills_without_host;
  totals["packets lost with units"] += run.faults.packets_lost;
  totals["packets lost with loggers"] += run.faults.logger_packets_lost;
  totals["moves within hosts"] += run.state.moves_within_host;
  totals["moves between hosts"] +=
      run.state.seamless + run.state.pulled - run.state.moves_within_host;
  totals["states handed over"] += run.state.answers_within_host;
  totals["pushes"] += run.state.pushes;
  totals["flows moved by failures"] += run.controller.failures.flows_moved;
}

void RunSeeds(uint64_t count, Outcome (*run_any)(Rng&),
              const std::set<std::string_view>& rare = {}) {
  const TestSeeds seeds(count, 20 * count);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    Rng rng(seed);
    const Outcome outcome = run_any(rng);
    ASSERT_EQ(WhatIsWrong(outcome), "") << TestSeeds::Name(seed);
    AddHosts(outcome.run, totals);
  }
  std::cout << fmt::format("seeds {} to {}\n", seeds.first, seeds.last);
  for (const auto& [name, sum] : totals) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, sum);
    if (seeds.is_part || rare.contains(name)) continue;
    EXPECT_GE(sum, name == "kills in vain" ? 1u : 20u) << name;
  }
}

TEST(HostsRandom, LeaveChroniclesWholeWhenTheyFail) {
  RunSeeds(300, [](Rng& rng) {
    const Schedule any = AnySchedule(rng);
    return RunFrames(WithHostDeaths(any.options, any.packets, rng),
                     TimelessChronicleNf(), any.packets, any.policy);
  });
}

TEST(HostsRandom, HoldTheirPromisesWhateverAnNfDoes) {
  RunSeeds(200, [](Rng& rng) {
    const Schedule any = AnyScheduleOfAsks(rng);
    return RunFrames(WithHostDeaths(any.options, any.packets, rng), *any.nf,
                     any.packets, any.policy);
  });
}

TEST(HostsRandom, LeaveEachPortToOneFlow) {
  RunSeeds(200, [](Rng& rng) {
    const Schedule any = AnyScheduleOfAsks(rng);
    const TinyNatOptions options = AnyTinyNat(rng, any.options);
    const std::vector<OfferedFrame> packets =
        AnyTinyTraffic(rng, !options.inside.empty());
    return RunFrames(WithHostDeaths(options, packets, rng), options.nf, packets,
                     any.policy);
  });
}

TEST(HostsRandom, LeaveNatsTheirPorts) {
  RunSeeds(200,
           [](Rng& rng) {
             const NatSchedule any = AnyNatSchedule(rng);
             return RunFrames(WithHostDeaths(any.options, any.packets, rng),
                              any.nf, any.packets, *any.policy, nullptr);
           },
           {"flows ending"});
}

// All packets find room, and no flow is forgotten, so that the same packets are
// released.
RunOptions WithRoom(RunOptions options) {
  constexpr uint32_t kRoomForAll = 1'024;
  ControllerOptions& c = options.controller;
  c.unit_queue_packets = c.start_buffer_packets = kRoomForAll;
  c.max_flows = options.hold_packets = kRoomForAll;
  c.flow_timeout = Nanos::max();
  options.buffers = SmallTables().buffers;
  return options;
}

// Returns how many packets were dropped for another reason than the NF's.
uint64_t Lost(const RunResult& run) {
  return std::accumulate(run.dropped.begin(), run.dropped.end(), uint64_t{0});
}

// Packets in, packets out: where nothing is lost, each flow's packets are the
// same however many units a host has.
TEST(HostsRandom, ReleaseTheSameHoweverManyUnitsAHostHas) {
  const TestSeeds seeds(150, 3'000);
  uint64_t compared = 0, within = 0, pushes = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const Schedule any = AnySchedule(rng);
    RunOptions options = WithRoom(WithHosts(any.options, rng));
    options.controller.units_per_host = 1;
    const RunResult one =
        RunFrames(options, TimelessChronicleNf(), any.packets, any.policy).run;
    EXPECT_EQ(one.state.answers_within_host, 0u);
    for (const uint32_t per_host : {2u, 4u, 8u}) {
      options.controller.units_per_host = per_host;
      const Outcome outcome =
          RunFrames(options, TimelessChronicleNf(), any.packets, any.policy);
      ExpectSound(outcome);
      const RunResult& run = outcome.run;
      within += run.state.moves_within_host;
      pushes += run.state.pushes;
      if (Lost(run) + Lost(one) > 0) continue;
      EXPECT_EQ(run.packets_released, one.packets_released);
      EXPECT_EQ(run.digest, one.digest);
      ++compared;
    }
  }
  std::cout << fmt::format(
      "seeds {} to {}: {} compared, {} moves within hosts, {} pushes\n",
      seeds.first, seeds.last, compared, within, pushes);
  if (seeds.is_part) return;
  EXPECT_GE(compared, 60u);
  EXPECT_GE(within, 500u);
  EXPECT_GE(pushes, 500u);
}

}  // namespace
}  // namespace snf
