// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of an NF's access to state, and of a unit's check of a
// record from elsewhere, against a copy of the whole record, by the record's
// bytes. A view is made for each packet, so it is part of every figure. Compare
// within one run:
//   runtime_sdk_bench --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

// A counter, and a blob that fills the rest of the record but for its last
// eighth.
class BenchNf final : public NetworkFunction {
 public:
  explicit BenchNf(uint32_t record_bytes)
      : blob(declare_blob("blob", record_bytes - 24)),
        record(schema().record_bytes()) {
    TestFlow test(record);
    test.flow.put(count, 1);
    test.flow.put(blob, std::vector<std::byte>(size_t{blob.max_bytes()} / 8 * 7,
                                               std::byte{1}));
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }

  Slot<uint64_t> count = declare<uint64_t>("count");
  Blob blob;
  std::vector<std::byte> record;
};

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("record_bytes")->Arg(64)->Arg(1'024)->Arg(4'096);
}

// Calls `packet` with a new view of one record, again and again.
template <typename F>
void ForEachPacket(benchmark::State& state, F packet) {
  BenchNf nf(static_cast<uint32_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    TestFlow test(nf.record);
    packet(nf, test.flow);
    benchmark::DoNotOptimize(test.view.dirty());
    benchmark::ClobberMemory();
  }
}

// The floor.
void BM_RecordCopy(benchmark::State& state) {
  const std::vector<std::byte> from(static_cast<size_t>(state.range(0)));
  std::vector<std::byte> to(from.size());
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_RecordCopy)->Apply(Sizes);

void BM_StateView(benchmark::State& state) {
  ForEachPacket(state, [](BenchNf&, FlowState&) {});
}
BENCHMARK(BM_StateView)->Apply(Sizes);

// Budget: ≤ 2 ns more than BM_StateView.
void BM_StateGet(benchmark::State& state) {
  ForEachPacket(state, [](BenchNf& nf, FlowState& flow) {
    benchmark::DoNotOptimize(flow.get(nf.count));
  });
}
BENCHMARK(BM_StateGet)->Apply(Sizes);

void BM_StatePut(benchmark::State& state) {
  uint64_t value = 0;
  ForEachPacket(state, [&](BenchNf& nf, FlowState& flow) {
    flow.put(nf.count, ++value);
  });
}
BENCHMARK(BM_StatePut)->Apply(Sizes);

void BM_StateGetAndPut(benchmark::State& state) {
  ForEachPacket(state, [](BenchNf& nf, FlowState& flow) {
    flow.put(nf.count, flow.get(nf.count) + 1);
  });
}
BENCHMARK(BM_StateGetAndPut)->Apply(Sizes);

void BM_StatePatchBlob(benchmark::State& state) {
  const std::array<std::byte, 16> bytes{};
  ForEachPacket(state, [&](BenchNf& nf, FlowState& flow) {
    benchmark::DoNotOptimize(flow.patch(nf.blob, 8, bytes));
  });
}
BENCHMARK(BM_StatePatchBlob)->Apply(Sizes);

// Checks a record that ends in zeros, which must be looked at.
void BM_IsWellFormed(benchmark::State& state) {
  const BenchNf nf(static_cast<uint32_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(nf.schema().IsWellFormed(nf.record));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_IsWellFormed)->Apply(Sizes);

// Checks a new flow's record, which is all zeros.
void BM_IsWellFormedEmpty(benchmark::State& state) {
  const BenchNf nf(static_cast<uint32_t>(state.range(0)));
  const std::vector<std::byte> record(nf.record.size());
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(nf.schema().IsWellFormed(record));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_IsWellFormedEmpty)->Apply(Sizes);

}  // namespace
}  // namespace snf
