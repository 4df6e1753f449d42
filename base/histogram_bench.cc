// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"

namespace snf {
namespace {

// Returns random latencies like those that a run records.
std::vector<int64_t> Latencies() {
  Rng rng(1);
  std::vector<int64_t> values(4'096);
  for (int64_t& value : values) value = 20'000 + rng.Exponential(150'000);
  return values;
}

void BM_HistogramRecord(benchmark::State& state) {
  const std::vector<int64_t> values = Latencies();
  Histogram histogram;
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    histogram.Record(values[i++ % values.size()]);
  }
  benchmark::DoNotOptimize(histogram);
}
BENCHMARK(BM_HistogramRecord);

void BM_HistogramQuantile(benchmark::State& state) {
  Histogram histogram;
  for (int64_t value : Latencies()) histogram.Record(value);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(histogram.Quantile(99'900));
  }
}
BENCHMARK(BM_HistogramQuantile);

void BM_HistogramMerge(benchmark::State& state) {
  Histogram histogram;
  const Histogram other;
  for ([[maybe_unused]] auto _ : state) {
    histogram.Merge(other);
  }
  benchmark::DoNotOptimize(histogram);
}
BENCHMARK(BM_HistogramMerge);

void BM_RngNext(benchmark::State& state) {
  Rng rng(1);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(rng.Next());
  }
}
BENCHMARK(BM_RngNext);

void BM_RngBelow(benchmark::State& state) {
  Rng rng(1);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(rng.Below(1'000));
  }
}
BENCHMARK(BM_RngBelow);

void BM_RngExponential(benchmark::State& state) {
  Rng rng(1);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(rng.Exponential(500'000));
  }
}
BENCHMARK(BM_RngExponential);

}  // namespace
}  // namespace snf
