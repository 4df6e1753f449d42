// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of an event, by the number of units that 100 controllers
// lease; flows are greater with more units, so that as many are under way. It
// should not depend on that number.
#include <cstdint>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"
#include "platform/commands/simulate/lease_simulation.h"

namespace snf {
namespace {

void LeaseEvents(benchmark::State& state) {
  const auto units = static_cast<uint32_t>(state.range(0));
  LeaseOptions options;
  options.controllers = 100;
  options.manager.max_units = units;
  options.manager.max_starts = units;
  options.duration = Seconds(1);
  uint64_t events = 0;
  for (auto _ : state) {
    FlowTraffic traffic = *FlowTraffic::Create(
        {.controllers = options.controllers,
         .rate_bps = int64_t{units} * 800'000'000,
         .flow_rate =
             *Distribution::Parse("exp(" + std::to_string(units) + "kbps)",
                                  Distribution::Unit::kBitRate),
         .flow_duration =
             *Distribution::Parse("exp(1s)", Distribution::Unit::kTime)});
    LeaseSimulation simulation(options, std::move(traffic));
    events += simulation.Run().events;
  }
  state.counters["events"] = benchmark::Counter(static_cast<double>(events),
                                                benchmark::Counter::kIsRate);
  state.counters["time_per_event"] = benchmark::Counter(
      static_cast<double>(events),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(LeaseEvents)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace snf
