// SPDX-License-Identifier: Apache-2.0
//
// The whole path in real time, all stages on one thread: CPU time a packet.
// `snf bench` holds it against floors; this is for looking into it.
#include <fmt/format.h>

#include <string>

#include "base/check.h"
#include "benchmark/benchmark.h"
#include "platform/commands/bench/fixture_driven_chain.h"

namespace snf {
namespace {

void Drive(benchmark::State& state, const DrivenChain::Options& options) {
  constexpr uint64_t kPackets = 4'096;
  auto chain = DrivenChain::Start(options);
  SNF_CHECK(chain.ok());
  (*chain)->Offer(10 * uint64_t{options.flows});
  for (auto _ : state) (*chain)->Offer(kPackets);
  state.SetItemsProcessed(state.iterations() * kPackets);
  SNF_CHECK(DrivenChain::Check((*chain)->Finish()).ok());
}

void PassThrough(benchmark::State& state) {
  Drive(state, {.nf = "passthrough",
                .flows = static_cast<uint32_t>(state.range(0)),
                .both_sides = false});
}

void Nat(benchmark::State& state) {
  Drive(state, {.nf = "nat(ip=203.0.113.1-203.0.113.8)",
                .flows = static_cast<uint32_t>(state.range(0))});
}

void FirewallMonitorNat(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  Drive(state, {.nf = fmt::format("firewall | monitor(max_flows={0},max_hosts="
                                  "{0}) | nat(ip=203.0.113.1-203.0.113.8)",
                                  2 * flows + 1'000),
                .flows = flows});
}

// Nearly each packet begins a flowlet.
void ShortFlowlets(benchmark::State& state) {
  Drive(state, {.nf = "passthrough",
                .flows = static_cast<uint32_t>(state.range(0)),
                .both_sides = false,
                .flowlet_timeout = ControllerOptions{}.flowlet_timeout});
}

BENCHMARK(PassThrough)->Arg(1'000)->Arg(10'000)->Arg(200'000);
BENCHMARK(Nat)->Arg(1'000)->Arg(10'000)->Arg(200'000);
BENCHMARK(FirewallMonitorNat)->Arg(1'000)->Arg(10'000)->Arg(200'000);
BENCHMARK(ShortFlowlets)->Arg(10'000);

}  // namespace
}  // namespace snf
