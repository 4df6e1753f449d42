// SPDX-License-Identifier: Apache-2.0
//
// A decision with 10 … 10,000 units (performance.md row 6): every unit is
// placeable and loaded to 30–95 %, time advances, loads fade. One iteration is
// one decision with all its upkeep: what came from a unit is reported, the
// index is refreshed, the policy asked, the flowlet opened and one that was
// opened earlier closed. A report costs more the more units there are, for
// their windows lie farther from the cache; BM_DecisionBesideDrains leaves it
// out, and so does BM_DecisionWithThreeReplicas. Compare `units` within one
// run:
//   controller_bench --benchmark_filter=Decision
//       --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "controller/core/placement.h"
#include "controller/core/replica_chooser.h"
#include "controller/core/unit_pool.h"

namespace snf {
namespace {

constexpr int64_t kCapacityBps = 1'000'000'000;
constexpr int64_t kDemandBps = 5'000'000;
constexpr size_t kOpenFlowlets = 8;  // few: loads stay those of the drains

// Units at steady rates between 30 and 95 % of their capacity.
class LoadedUnits {
 public:
  explicit LoadedUnits(uint32_t units)
      : options_(OptionsFor(units)),
        pool_(options_),
        policy_(FindPlacementPolicy("snf")),
        order_(units),
        rate_bps_(units) {
    Rng rng(units);
    std::iota(order_.begin(), order_.end(), uint16_t{0});
    rng.Shuffle(std::span(order_));
    for (int64_t& rate : rate_bps_) {
      rate = rng.Uniform(kCapacityBps * 30 / 100, kCapacityBps * 95 / 100);
    }
    for (uint32_t i = 0; i < units; ++i) {
      out_.clear();
      pool_.OnReady(now_, pool_.TakeWarm(now_, out_));
    }
    SNF_CHECK(pool_.placeable_units() == units);
    for (auto& open : open_) open = UnitId{0};
    for (const UnitId unit : open_) pool_.OpenFlowlet(unit, kDemandBps);
    Fill();
  }

  Instant now() const { return now_; }
  const UnitPool& pool() const { return pool_; }

  // Time goes on, and the next unit reports what left it in `share`.
  void Drain(Nanos step, Nanos share) {
    now_ = now_ + step;
    const UnitId unit{order_[next_drained_]};
    const auto bytes = static_cast<uint32_t>(rate_bps_[next_drained_] *
                                             share.ns / 8'000'000'000);
    next_drained_ = next_drained_ + 1 == order_.size() ? 0 : next_drained_ + 1;
    SNF_CHECK(pool_.TakeSlot(now_, unit, bytes) != 0);
    pool_.OnDrained(now_, {.unit = unit, .packets = 1, .bytes = bytes});
  }
  void Advance(Nanos step) { now_ = now_ + step; }

  UnitId Decide() {
    out_.clear();
    pool_.Refresh(now_);
    const UnitId owner{order_[next_owner_]};
    next_owner_ = next_owner_ + 1 == order_.size() ? 0 : next_owner_ + 1;
    const Placement placement = policy_->Place(
        now_,
        {.demand = pool_.Quanta(kDemandBps), .owner = owner, .alpha = 256},
        pool_, out_);
    pool_.OpenFlowlet(placement.unit, kDemandBps);
    pool_.CloseFlowlet(open_[oldest_], kDemandBps);
    open_[oldest_] = placement.unit;
    oldest_ = (oldest_ + 1) % kOpenFlowlets;
    return placement.unit;
  }

 private:
  static ControllerOptions OptionsFor(uint32_t units) {
    ControllerOptions options;
    options.max_units = units;
    options.warm_units = units;
    options.unit_capacity_bps = kCapacityBps;
    return options;
  }

  // A whole window of traffic at the units' rates.
  void Fill() {
    const Nanos step = options_.load_bucket;
    for (uint32_t i = 0; i < options_.load_buckets; ++i) {
      now_ = now_ + step;
      for (size_t unit = 0; unit < order_.size(); ++unit) Drain({}, step);
    }
    for (size_t i = 0; i < order_.size(); ++i) pool_.Refresh(now_);
  }

  ControllerOptions options_;
  Instant now_{1'000'000'000};
  UnitPool pool_;
  const PlacementPolicy* policy_;
  std::vector<uint16_t> order_;
  std::vector<int64_t> rate_bps_;  // of the units in `order_`
  size_t next_drained_ = 0;
  size_t next_owner_ = 0;
  std::array<UnitId, kOpenFlowlets> open_{};
  size_t oldest_ = 0;
  ControllerOut out_;
};

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

// The same, but for the reports: those of each 500 µs come at once, and not in
// the measured time. What is left is a decision and what it does against decay,
// and the draw of K replicas for it.
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
      chooser.Choose(rng, units.Decide(), units.pool(), set);
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

// A decision every microsecond while nothing drains: all loads fade to nothing
// within the window, and then it begins again.
void BM_DecisionPureDecay(benchmark::State& state) {
  const LoadedUnits full(static_cast<uint32_t>(state.range(0)));
  LoadedUnits units = full;
  const Instant faded = full.now() + Milliseconds(100);
  for (auto _ : state) {
    units.Advance(Microseconds(1));
    benchmark::DoNotOptimize(units.Decide());
    if (units.now() >= faded) {
      state.PauseTiming();
      units = LoadedUnits(full);
      state.ResumeTiming();
    }
  }
}
BENCHMARK(BM_DecisionPureDecay)->Apply(Units);

void UnitsAndReplicas(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"units", "K"});
  for (const int64_t replicas : {3, 16}) {
    for (const int64_t units : {10, 10'000}) bench->Args({units, replicas});
  }
}

// The replicas of a flowlet, for flowlets at one unit after another.
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
    chooser.Choose(rng, UnitId{static_cast<uint16_t>(unit)}, units.pool(), set);
    benchmark::DoNotOptimize(set);
    unit = unit + 1 < count ? unit + 1 : 0;
  }
}
BENCHMARK(BM_ChooseReplicas)->Apply(UnitsAndReplicas);

}  // namespace
}  // namespace snf
