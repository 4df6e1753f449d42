// SPDX-License-Identifier: Apache-2.0
//
// The delta of a packet that counts itself and writes a part of a blob, by the
// record's bytes and the part's: 16, or all (0). The floor is a copy of as many
// bytes as the delta takes. Compare within one run:
//   runtime_logger_bench --benchmark_filter=Delta
//       --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "runtime/logger/delta.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

class BenchNf final : public NetworkFunction {
 public:
  explicit BenchNf(uint32_t record_bytes)
      : blob(declare_blob("blob", record_bytes - 24)) {}
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  Slot<uint64_t> count = declare<uint64_t>("count");
  Blob blob;
};

// A record with one packet's changes, and the delta of them.
struct Changed {
  explicit Changed(const benchmark::State& state)
      : nf(static_cast<uint32_t>(state.range(0))),
        record(nf.schema().record_bytes()),
        test(record),
        delta(MaxDeltaBytes(nf.schema())) {
    const auto most = nf.blob.max_bytes();
    const auto part = static_cast<size_t>(state.range(1));
    TestFlow(record).flow.put(nf.blob, std::vector<std::byte>(most));
    test.flow.put(nf.count, 1);
    test.flow.patch(nf.blob, 0, std::vector<std::byte>(part ? part : most));
    delta.resize(EncodeDelta(nf.schema(), test.view, delta));
  }

  BenchNf nf;
  std::vector<std::byte> record;
  TestFlow test;
  std::vector<std::byte> delta;
};

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"record_bytes", "part"})
      ->ArgsProduct({{64, 1'024, 4'096}, {16, 0}});
}

void BM_DeltaCopy(benchmark::State& state) {
  const Changed changed(state);
  std::vector<std::byte> to(changed.delta.size());
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.data(), changed.delta.data(), to.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.counters["delta_bytes"] = static_cast<double>(to.size());
}
BENCHMARK(BM_DeltaCopy)->Apply(Sizes);

void BM_DeltaEncode(benchmark::State& state) {
  Changed changed(state);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        EncodeDelta(changed.nf.schema(), changed.test.view, changed.delta));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_DeltaEncode)->Apply(Sizes);

void BM_DeltaApply(benchmark::State& state) {
  Changed changed(state);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        ApplyDelta(changed.nf.schema(), changed.delta, changed.record));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_DeltaApply)->Apply(Sizes);

}  // namespace
}  // namespace snf
