// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/lease_simulation.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "platform/commands/simulate/lease_report.h"

namespace snf {
namespace {

FlowTraffic TrafficFor(const LeaseOptions& options, int64_t rate_bps,
                       uint64_t seed, const char* flow_rate = "exp(10Mbps)") {
  return *FlowTraffic::Create({.controllers = options.controllers,
                               .rate_bps = rate_bps,
                               .flow_rate = *Distribution::Parse(
                                   flow_rate, Distribution::Unit::kBitRate),
                               .flow_duration = *Distribution::Parse(
                                   "exp(100ms)", Distribution::Unit::kTime),
                               .seed = seed});
}

LeaseOptions Short() {
  LeaseOptions options;
  options.warm_up = Milliseconds(500);
  options.duration = Seconds(1);
  return options;
}

TEST(LeaseSimulation, FlowsOfAConstantRateNeedWhatTheyAdd) {
  LeaseOptions options = Short();
  options.controllers = 1;
  options.headroom = LeaseOptions::kOne / 4;
  // 20 flows of 100 Mbit/s that outlive the run.
  FlowTraffic traffic = *FlowTraffic::Create(
      {.controllers = 1,
       .rate_bps = 2'000'000'000,
       .flow_rate =
           *Distribution::Parse("100Mbps", Distribution::Unit::kBitRate),
       .flow_duration =
           *Distribution::Parse("3000s", Distribution::Unit::kTime)});
  LeaseSimulation simulation(options, std::move(traffic));
  const LeaseFigures figures = simulation.Run();
  ASSERT_EQ(figures.controllers.size(), 1u);
  const auto& only = figures.controllers[0];
  EXPECT_NEAR(only.offered_bps, 2e9, 1);
  EXPECT_NEAR(only.leased_bps, 2.5e9, 1e6);
  EXPECT_EQ(only.short_bps, 0);
  EXPECT_EQ(figures.leased_units, 3);
  EXPECT_EQ(simulation.held_by_controllers(), 2'560);
  EXPECT_EQ(simulation.held_by_managers(), 2'560);
  ASSERT_EQ(only.over_bps.size(), 9u);  // the last ends with the run
  EXPECT_NEAR(only.over_bps[0], 0.5e9, 1e6);
  EXPECT_NEAR(only.over_bps[8], 0.5e9, 1e6);
}

TEST(LeaseSimulation, SharedUnitsAreFewerThanThoseOfEachAlone) {
  LeaseOptions options = Short();
  LeaseSimulation shared(options, TrafficFor(options, 22'000'000'000, 1));
  const LeaseFigures together = shared.Run();
  options.shared = false;
  LeaseSimulation independent(options, TrafficFor(options, 22'000'000'000, 1));
  const LeaseFigures alone = independent.Run();
  double leased_together = 0;
  double leased_alone = 0;
  for (size_t c = 0; c < 10; ++c) {
    // The same flows, so the same loads.
    EXPECT_DOUBLE_EQ(together.controllers[c].offered_bps,
                     alone.controllers[c].offered_bps);
    leased_together += together.controllers[c].leased_bps;
    leased_alone += alone.controllers[c].leased_bps;
  }
  // Whole units of which all is leased.
  EXPECT_NEAR(leased_alone / 1e9, alone.leased_units, 0.05);
  EXPECT_LT(leased_together / 1e9, together.leased_units);
  EXPECT_LT(together.leased_units, 0.95 * alone.leased_units);
  EXPECT_LT(leased_together, 0.9 * leased_alone);
}

TEST(LeaseSimulation, IsTheSameBySeed) {
  const LeaseOptions options = Short();
  const auto json = [&](uint64_t seed) {
    LeaseSimulation simulation(options,
                               TrafficFor(options, 5'000'000'000, seed));
    return JsonOf({.options = options,
                   .figures = simulation.Run(),
                   .flags = {},
                   .elapsed = {}});
  };
  EXPECT_EQ(json(1), json(1));
  EXPECT_NE(json(1), json(2));
}

// Any delays, too few units, bursts: nobody is promised what is not there, and
// load that nobody has room for is counted as missing.
TEST(LeaseSimulation, RandomWorldsKeepTheirPromises) {
  uint64_t revoked = 0;
  uint64_t starts = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    LeaseOptions options;
    options.controllers = static_cast<uint32_t>(rng.Uniform(1, 20));
    options.shared = rng.Chance(50'000);
    options.headroom = static_cast<uint32_t>(rng.Uniform(0, 512));
    options.epoch = Milliseconds(rng.Uniform(5, 100));
    options.unit_start_delay = Milliseconds(rng.Uniform(0, 30));
    options.message_delay = Microseconds(rng.Uniform(0, 2'000));
    options.drain_delay = Milliseconds(rng.Uniform(0, 20));
    options.manager.max_units = static_cast<uint32_t>(rng.Uniform(1, 30));
    options.manager.max_starts = static_cast<uint32_t>(rng.Uniform(1, 8));
    options.manager.keep_warm = Milliseconds(rng.Uniform(0, 300));
    options.manager.revoke_grace = Milliseconds(rng.Uniform(1, 100));
    options.warm_up = Milliseconds(rng.Uniform(0, 200));
    options.duration = Milliseconds(700);
    LeaseSimulation simulation(
        options, TrafficFor(options, rng.Uniform(1, 25) * 1'000'000'000, seed,
                            "pareto(5Mbps, 1.2, 2Gbps)"));
    const LeaseFigures figures = simulation.Run();
    EXPECT_EQ(figures.overcommitted, 0u);
    EXPECT_EQ(figures.gone, 0u);
    EXPECT_EQ(figures.flows_refused, 0u);
    const double units =
        options.manager.max_units * (options.shared ? 1 : options.controllers);
    EXPECT_LE(figures.leased_units, figures.up_units + 1e-9);
    EXPECT_LE(figures.most_up_units, units);
    double offered = 0;
    double leased = 0;
    double missing = 0;
    for (const auto& each : figures.controllers) {
      offered += each.offered_bps;
      leased += each.leased_bps;
      missing += each.short_bps;
    }
    EXPECT_LE(leased, figures.leased_units * 1e9 * (1 + 1e-9));
    EXPECT_GE(leased + missing, offered * (1 - 1e-9));
    EXPECT_GT(leased, 0);
    revoked += figures.revoked;
    starts += figures.unit_starts;
  }
  EXPECT_GT(revoked, 100u);
  EXPECT_GT(starts, 100u);
}

}  // namespace
}  // namespace snf
