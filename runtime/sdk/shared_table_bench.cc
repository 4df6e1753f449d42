// SPDX-License-Identifier: Apache-2.0
//
// Measures an update of a shared table, with random keys, against a hash map.
// Compare within one run:
//   runtime_sdk_bench --benchmark_filter=Table
//       --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/packet/ip_address.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

struct Key {
  std::array<uint64_t, 2> words;
  friend bool operator==(const Key&, const Key&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Key& key) {
    return H::combine(std::move(h), key.words[0], key.words[1]);
  }
};
struct Use {
  uint64_t packets = 0;
  uint64_t bytes = 0;
};

class BenchNf final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  SharedTable<Key, Use> table = declare_shared<Key, Use>("table", 1 << 20);
};

std::vector<Key> Keys(int64_t hosts) {
  Rng rng(1);
  std::vector<Key> keys(1 << 12);
  for (Key& key : keys) {
    key = {{0, rng.Below(static_cast<uint64_t>(hosts)) << 32 | 0xffff}};
  }
  return keys;
}

void Hosts(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("hosts")->Arg(100)->Arg(4'000);
}

void BM_TableUpdate(benchmark::State& state) {
  BenchNf nf;
  const std::vector<Key> keys = Keys(state.range(0));
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    nf.table.update(keys[i++ & (keys.size() - 1)], {1, 100});
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_TableUpdate)->Apply(Hosts);

// Updates are tentative, as in a chain around each packet.
void BM_TableUpdateThatIsUndone(benchmark::State& state) {
  BenchNf nf;
  const std::vector<Key> keys = Keys(state.range(0));
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    nf.BeginTentative();
    nf.table.update(keys[i++ & (keys.size() - 1)], {1, 100});
    nf.EndTentative(false);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_TableUpdateThatIsUndone)->Apply(Hosts);

void BM_TableHashMap(benchmark::State& state) {
  absl::flat_hash_map<Key, Use> map;
  map.reserve(1 << 20);
  const std::vector<Key> keys = Keys(state.range(0));
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    Use& use = map[keys[i++ & (keys.size() - 1)]];
    use.packets += 1;
    use.bytes += 100;
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_TableHashMap)->Apply(Hosts);

}  // namespace
}  // namespace snf
