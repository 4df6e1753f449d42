// SPDX-License-Identifier: Apache-2.0
//
// Measures the controller's cost for a packet of a running flowlet, against the
// floor of parse + lookup (platform/commands/bench/budgets.md rows 5 and 7),
// for one that begins a flowlet and names K replicas for it, and the memory for
// a flow (row 17). Packets of 60 bytes come in bursts of 32, of flows in random
// order, one packet each 100 ns. The controller's side includes all calls of
// its driver: packets, timers, and a drain report for each unit of a burst. The
// figure is ns_per_packet; compare within one run:
//   controller_bench --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
//       --benchmark_filter='Floor|Running'
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/fixture_parse_lookup.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "controller/core/controller.h"
#include "controller/core/fixture_filled_controller.h"
#include "controller/core/fixture_lone_controller.h"

namespace snf {
namespace {

constexpr size_t kPacketBytes = 60;
constexpr size_t kBatch = ParseLookupFloor::kBatch;

using Bytes = std::span<const std::byte>;

// Returns the packets of so many flows. They are made at first use and shared
// by repetitions.
const MadeFrames& TrafficOf(size_t flows) {
  static std::vector<std::pair<size_t, std::unique_ptr<MadeFrames>>> all;
  for (const auto& [n, traffic] : all) {
    if (n == flows) return *traffic;
  }
  return *all.emplace_back(flows, std::make_unique<MadeFrames>(
                                      static_cast<uint32_t>(flows)))
              .second;
}

// Calls `batch` with the next kBatch frames for as long as the benchmark runs.
template <typename Batch>
void Walk(benchmark::State& state, const MadeFrames& traffic, Batch batch) {
  std::array<Bytes, kBatch> frames;
  size_t next = 0;
  for (auto _ : state) {
    for (Bytes& frame : frames) frame = traffic.frame(next++);
    if (next == traffic.count()) next = 0;
    batch(frames);
  }
  state.counters["ns_per_packet"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kBatch * 1e-9,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Floor(benchmark::State& state) {
  const auto flows = static_cast<size_t>(state.range(0));
  const MadeFrames& traffic = TrafficOf(flows);
  ParseLookupFloor floor(flows);
  for (size_t i = 0; i < traffic.count(); ++i) {
    floor.One(LinkType::kEthernet, traffic.frame(i), 0);
  }
  Walk(state, traffic, [&](const auto& frames) {
    floor.Batch(LinkType::kEthernet, frames, 1);
  });
}

void BM_RunningFlowlets(benchmark::State& state) {
  const auto flows = static_cast<size_t>(state.range(0));
  const MadeFrames& traffic = TrafficOf(flows);
  LoneController running(flows);
  std::array<Bytes, kBatch> frames;
  for (size_t i = 0; i < traffic.count();) {
    for (Bytes& frame : frames) frame = traffic.frame(i++);
    running.Burst(frames);
  }
  const uint64_t decisions = running.counters().decisions;
  Walk(state, traffic, [&](const auto& batch) { running.Burst(batch); });
  SNF_CHECK(running.counters().flows == flows);
  state.counters["decisions_per_packet"] =
      static_cast<double>(running.counters().decisions - decisions) /
      static_cast<double>(state.iterations() * kBatch);
}

void Flows(benchmark::internal::Benchmark* bench) {
  bench->ArgName("flows")->Arg(1'000)->Arg(10'000)->Arg(200'000);
}
BENCHMARK(BM_Floor)->Apply(Flows);
BENCHMARK(BM_RunningFlowlets)->Apply(Flows);

// Every packet begins a flowlet, for the one before is full. The cost includes
// measuring and closing the old one, placing and opening the new one, and
// choosing and sending its replicas.
void BM_NewFlowlets(benchmark::State& state) {
  const auto flows = static_cast<size_t>(state.range(0));
  const MadeFrames& traffic = TrafficOf(flows);
  LoneController running(flows, kPacketBytes,
                         static_cast<uint32_t>(state.range(1)));
  std::array<Bytes, kBatch> frames;
  for (size_t i = 0; i < traffic.count();) {
    for (Bytes& frame : frames) frame = traffic.frame(i++);
    running.Burst(frames);
  }
  const uint64_t decisions = running.counters().decisions;
  Walk(state, traffic, [&](const auto& batch) { running.Burst(batch); });
  SNF_CHECK(running.counters().decisions - decisions >=
            static_cast<uint64_t>(state.iterations()) * kBatch);
  state.counters["units"] = running.placeable_units();
}
BENCHMARK(BM_NewFlowlets)
    ->ArgNames({"flows", "replicas"})
    ->ArgsProduct({{1'000, 200'000}, {0, 1, 3, 16}});

// Like BM_RunningFlowlets, but without the classifier, for packets that come by
// alias, or not.
void BM_RunningFlowletsFound(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  ControllerOptions options;
  options.max_flows = flows;
  options.warm_units = options.max_units;
  options.flowlet_timeout = Seconds(100);
  options.flowlet_bytes = 1'000'000'000;
  options.first_demand_bps = 4'800'000'000 / flows;
  options.unit_queue_packets = options.start_buffer_packets = 1 << 30;
  Controller controller(options, *FindPlacementPolicy("snf"));
  auto out = std::make_unique<ControllerOut>();
  const Instant now{1'000'000'000};
  std::vector<Arrival> arrivals(1 << 18);
  for (uint32_t i = 0; i < flows; ++i) {
    Arrival arrival = {.key = {}, .time = now, .original_length = 60};
    arrival.key.form = FlowKeyForm::kIpv4Endpoint;
    std::memcpy(&arrival.key.source.bytes[12], &i, sizeof i);
    controller.on_packets(now, {&arrival, 1}, *out);
    const PacketMeta meta = out->commands().back().meta;
    arrival.key.destination_port = be16(1);  // differs
    controller.on_alias({.key = arrival.key,
                         .flow = meta.flow,
                         .clock = meta.clock,
                         .group = i / 16,
                         .unit = UnitId{}},
                        *out);
    out->clear();
  }
  SNF_CHECK(controller.aliases().size() == flows);
  Rng rng(1);
  for (Arrival& arrival : arrivals) {
    const auto flow = static_cast<uint32_t>(rng.Below(flows));
    arrival = {.key = {}, .time = now, .original_length = 60};
    arrival.by_alias = state.range(1) != 0;
    arrival.key.form = FlowKeyForm::kIpv4Endpoint;
    arrival.key.destination_port = be16(arrival.by_alias ? 1 : 0);
    std::memcpy(&arrival.key.source.bytes[12], &flow, sizeof flow);
  }
  size_t next = 0;
  for (auto _ : state) {
    controller.on_packets(now, std::span(arrivals).subspan(next, kBatch), *out);
    out->clear();
    next = next + kBatch == arrivals.size() ? 0 : next + kBatch;
  }
  state.counters["ns_per_packet"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kBatch * 1e-9,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_RunningFlowletsFound)
    ->ArgNames({"flows", "by_alias"})
    ->ArgsProduct({{1'000, 200'000}, {0, 1}});

// Measures a flow that gets another alias.
void BM_Alias(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  AliasTable table(flows, 0);
  Alias alias;
  Rng rng(1);
  uint32_t next = 0;
  for (auto _ : state) {
    std::memcpy(&alias.key.source.bytes[12], &next, sizeof next);
    const auto slot = static_cast<uint32_t>(rng.Below(flows));
    alias.group = slot / 16;
    SNF_CHECK(table.Set(slot, alias) == AliasResult::kGranted);
    ++next;
  }
}
BENCHMARK(BM_Alias)->ArgName("flows")->Arg(1'000)->Arg(200'000);

// Measures a request to a pool of 65,536 pieces, and the return of the pieces.
// Every word has `pieces` free ones; 64 is the best case, others look at all
// words.
void BM_Pieces(benchmark::State& state) {
  const auto pieces = static_cast<int>(state.range(0));
  PiecePools pools(64);
  PieceCounters counters;
  auto out = std::make_unique<ControllerOut>();
  pools.Add(0, 65'535);
  const Instant now{1'000'000'000};
  const uint64_t mask = ~uint64_t{0} >> (64 - pieces);
  for (uint32_t i = 0; i < 1'024; ++i) {
    pools.on_request(now, {.pool = 0, .unit = UnitId{}}, counters, *out);
    out->clear();
  }
  for (uint32_t i = 0; i < 1'024; ++i) {
    pools.on_returned(now, {i, 0, UnitId{}, mask}, counters, *out);
  }
  for (auto _ : state) {
    pools.on_request(now, {.pool = 0, .unit = UnitId{}}, counters, *out);
    pools.on_returned(now, out->commands()[0].pieces, counters, *out);
    out->clear();
  }
  SNF_CHECK(counters.pieces_faulty == 0 && counters.requests_refused == 0);
}
BENCHMARK(BM_Pieces)->ArgName("pieces")->Arg(1)->Arg(64);

// --- Memory ------------------------------------------------------------------

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  SNF_CHECK(resident > 0);
  return resident * sysconf(_SC_PAGESIZE);
}

// Measures the memory by which the process grows for a controller with a
// million IPv6 flows (FilledController).
void BM_MemoryOfAMillionFlows(benchmark::State& state) {
  constexpr uint32_t kFlows = 1'000'000;
  double bytes_per_flow = 0;
  // With this, free memory goes back to the system instead of being reused
  // unseen.
  mallopt(M_MMAP_THRESHOLD, 1 << 17);
  for (auto _ : state) {
    const int64_t before = ResidentBytes();
    const FilledController filled(kFlows, state.range(0) != 0);
    bytes_per_flow =
        static_cast<double>(ResidentBytes() - before) / double{kFlows};
  }
  state.counters["bytes_per_flow"] = bytes_per_flow;
}
BENCHMARK(BM_MemoryOfAMillionFlows)
    ->ArgName("aliases")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace snf
