// SPDX-License-Identifier: Apache-2.0
//
// Measures a decision with 10 … 10,000 units
// (platform/commands/bench/budgets.md row 6): every unit is placeable and
// loaded to 30–95 %, time advances, loads fade. One iteration is one decision
// with all its upkeep: a unit's drain is reported, the index refreshed, the
// policy asked, the flowlet opened and an older one closed. A report costs more
// the more units there are, for their windows lie farther from the cache;
// BM_DecisionBesideDrains leaves it out, and so does
// BM_DecisionWithThreeReplicas. Compare `units` within one run:
//   controller_bench --benchmark_filter=Decision
//       --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <cstdint>

#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "controller/core/fixture_loaded_units.h"
#include "controller/core/replica_chooser.h"

namespace snf {
namespace {

void Units(benchmark::internal::Benchmark* bench) {
  bench->ArgName("units")->Arg(10)->Arg(100)->Arg(1'000)->Arg(10'000);
}

// Each unit brings a decision and a drain report a millisecond.
void BM_DecisionTrafficGrowsWithUnits(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  LoadedUnits units(count);
  const Nanos step{Milliseconds(1).ns / count};
  for (auto _ : state) {
    units.Drain(step, Milliseconds(1));
    benchmark::DoNotOptimize(units.Decide());
  }
}
BENCHMARK(BM_DecisionTrafficGrowsWithUnits)->Apply(Units);

// The same of leased units, of four of which the controller has a half: these
// are looked at one by one.
void BM_DecisionAmongLeasedUnits(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  LoadedUnits units(count, 4);
  const Nanos step{Milliseconds(1).ns / count};
  for (auto _ : state) {
    units.Drain(step, Milliseconds(1));
    benchmark::DoNotOptimize(units.Decide());
  }
}
BENCHMARK(BM_DecisionAmongLeasedUnits)->Apply(Units);

void UnitsAndHosts(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"units", "per_host"});
  for (const int64_t units : {1'000, 10'000}) {
    for (const int64_t per_host : {1, 10, 100}) bench->Args({units, per_host});
  }
}

// The same with several units on each host: the fullest on the owner's host is
// looked for as well.
void BM_DecisionOnHosts(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  LoadedUnits units(count, 0, static_cast<uint32_t>(state.range(1)));
  const Nanos step{Milliseconds(1).ns / count};
  for (auto _ : state) {
    units.Drain(step, Milliseconds(1));
    benchmark::DoNotOptimize(units.Decide());
  }
}
BENCHMARK(BM_DecisionOnHosts)->Apply(UnitsAndHosts);

// A decision and a drain report every microsecond, whatever the units.
void BM_DecisionEveryMicrosecond(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  LoadedUnits units(count);
  for (auto _ : state) {
    units.Drain(Microseconds(1), Microseconds(count));
    benchmark::DoNotOptimize(units.Decide());
  }
}
BENCHMARK(BM_DecisionEveryMicrosecond)->Apply(Units);

// Does the same, but the reports of each 500 µs come at once and outside the
// measured time. The rest is a decision with its upkeep against decay, and the
// draw of K replicas for it.
void DecideBesideDrains(benchmark::State& state, uint32_t replicas) {
  constexpr int kDecisions = 500;
  const auto count = static_cast<uint32_t>(state.range(0));
  LoadedUnits units(count);
  ControllerOptions options;
  options.max_units = count;
  options.replicas = replicas;
  const ReplicaChooser chooser(options);
  Rng rng(count);
  ReplicaSet set;
  while (state.KeepRunningBatch(kDecisions)) {
    state.PauseTiming();
    for (int i = 0; i < kDecisions; ++i) {
      units.Drain({}, Microseconds(count));
    }
    state.ResumeTiming();
    for (int i = 0; i < kDecisions; ++i) {
      units.Advance(Microseconds(1));
      chooser.Choose(rng, units.Decide(), units.units(), set);
      benchmark::DoNotOptimize(set);
    }
  }
}

void BM_DecisionBesideDrains(benchmark::State& state) {
  DecideBesideDrains(state, 0);
}
BENCHMARK(BM_DecisionBesideDrains)->Apply(Units);

void BM_DecisionWithThreeReplicas(benchmark::State& state) {
  DecideBesideDrains(state, 3);
}
BENCHMARK(BM_DecisionWithThreeReplicas)->Apply(Units);

void UnitsAndReplicas(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"units", "K"});
  for (const int64_t replicas : {3, 16}) {
    for (const int64_t units : {10, 10'000}) bench->Args({units, replicas});
  }
}

// Chooses the replicas of a flowlet, for flowlets at one unit after another.
void BM_ChooseReplicas(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  const LoadedUnits units(count);
  ControllerOptions options;
  options.max_units = count;
  options.replicas = static_cast<uint32_t>(state.range(1));
  const ReplicaChooser chooser(options);
  Rng rng(count);
  uint32_t unit = 0;
  ReplicaSet set;
  for (auto _ : state) {
    chooser.Choose(rng, UnitId{static_cast<uint16_t>(unit)}, units.units(),
                   set);
    benchmark::DoNotOptimize(set);
    unit = unit + 1 < count ? unit + 1 : 0;
  }
}
BENCHMARK(BM_ChooseReplicas)->Apply(UnitsAndReplicas);

}  // namespace
}  // namespace snf
