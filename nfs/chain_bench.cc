// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost per packet of NFs and of a chain of them inside a unit, and
// the floor: the same three NFs written by hand into one loop, each with a hash
// table of its own (platform/commands/bench/budgets.md, rows 2 and 5). In both,
// packets are copied into buffers and parsed, 32 at a time; then they are
// looked up, processed and, by a NAT, rewritten. Each of `flows` inside
// endpoints has one connection, half of them TCP; packets come in random order,
// as many from the inside as from the outside. Compare within one run:
//   nfs_bench --benchmark_filter='InUnit|Tables|OnlyParse'
//       --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"
#include "runtime/core/fixture_lone_unit.h"
#include "runtime/core/fixture_traffic.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

// Measures the runner that `make` makes for a number of flows. The runner is
// kept for repetitions.
template <typename Make>
void MeasureKept(benchmark::State& state, const std::string& name, Make make) {
  struct Kept {
    std::unique_ptr<BatchRunner> runner;
    std::unique_ptr<MadeTraffic> traffic;
  };
  static std::map<std::pair<std::string, int64_t>, Kept> all;
  const auto flows = static_cast<uint32_t>(state.range(0));
  Kept& kept = all[{name, state.range(0)}];
  if (kept.runner == nullptr) {
    kept.runner = make(flows);
    kept.traffic = std::make_unique<MadeTraffic>(flows, *kept.runner);
  }
  while (state.KeepRunningBatch(BatchBuffers::kBatch)) {
    kept.traffic->RunBatch();
    benchmark::ClobberMemory();
  }
}

std::string Firewall() {
  std::string rules;
  for (int i = 0; i < 19; ++i) {
    rules += "tcp from 172.16." + std::to_string(i) + ".0/24 to any port " +
             std::to_string(1'000 + i) + ";";
  }
  return "firewall(default=deny,deny=" + rules + ",allow=any from 10.0.0.0/8)";
}
const std::string kNat = "nat(ip=192.0.2.1-192.0.2.8)";

void BM_InUnit(benchmark::State& state, const std::string& spec) {
  MeasureKept(state, spec, [&](uint32_t flows) {
    return std::make_unique<LoneUnit>(NfSpec::Parse(spec)->create(), flows);
  });
}
BENCHMARK_CAPTURE(BM_InUnit, passthrough, "passthrough")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, firewall, Firewall())->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, monitor, "monitor")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, policer, "policer(rate=1Gbps)")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, udp_whitelister, "udp_whitelister")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, nat, kNat)->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, chain, Firewall() + " | monitor | " + kNat)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(200'000);

// --- The floor --------------------------------------------------------------

void BM_Tables(benchmark::State& state, bool with_hosts) {
  MeasureKept(state, with_hosts ? "four" : "three", [&](uint32_t flows) {
    return std::make_unique<FloorRunner>(flows, with_hosts);
  });
}
// Three tables: connections of the firewall, flows of the monitor, mappings of
// the NAT.
BENCHMARK_CAPTURE(BM_Tables, three, false)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(200'000);
// A fourth table has the monitor's hosts.
BENCHMARK_CAPTURE(BM_Tables, four, true)->Arg(1'000)->Arg(10'000)->Arg(200'000);

class Nothing final : public BatchRunner {
  void Run(BatchBuffers&, std::span<const PacketMeta>) override {}
};
void BM_OnlyParse(benchmark::State& state) {
  MeasureKept(state, "nothing",
              [](uint32_t) { return std::make_unique<Nothing>(); });
}
BENCHMARK(BM_OnlyParse)->Arg(1'000)->Arg(10'000)->Arg(200'000);

}  // namespace
}  // namespace snf
