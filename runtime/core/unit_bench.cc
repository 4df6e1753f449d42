// SPDX-License-Identifier: Apache-2.0
// Row 17 of the budgets, and the cost of a packet and of a hand-over in a unit.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {
namespace {

class Forward final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

PacketMeta Meta(uint64_t flow, uint64_t clock) {
  PacketMeta meta;
  meta.flow = MakeFlowId(0, static_cast<uint32_t>(flow), 1);
  meta.clock = Clock{clock};
  return meta;
}

// A unit with one packet for each of `n` flows behind it.
struct WarmUnit {
  explicit WarmUnit(uint32_t n)
      : unit(UnitId{0},
             {.max_flows = n, .queue_packets = 64, .packets_elsewhere = 0},
             nf.schema()),
        packet(pool.Allocate(60)) {
    pool.info(packet).length = 60;
    for (uint32_t flow = 0; flow < n; ++flow) Run(Meta(flow, 1));
  }
  void Run(const PacketMeta& meta) {
    unit.on_packet(packet, meta);
    out.clear();
    if (unit.begin(Instant{}, out) == Unit::Next::kService) {
      unit.finish(Instant{}, {nf, pool}, out);
    }
  }

  BufferPool pool{{.small = 64, .medium = 0, .large = 0}};
  Forward nf;
  Unit unit;
  UnitOut out;
  PacketHandle packet;
};

// Packets of flows at random, 32 at a time.
void BM_UnitPacket(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  WarmUnit warm(flows);
  Rng rng(1);
  std::vector<uint32_t> order(1 << 16);
  for (uint32_t& flow : order) flow = static_cast<uint32_t>(rng.Below(flows));
  std::vector<uint64_t> clocks(flows, 1);
  size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (int i = 0; i < 32; ++i) {
      const uint32_t flow = order[next++ % order.size()];
      warm.unit.on_packet(warm.packet, Meta(flow, ++clocks[flow]));
    }
    while (true) {
      warm.out.clear();
      if (warm.unit.begin(Instant{}, warm.out) != Unit::Next::kService) break;
      warm.unit.finish(Instant{}, {warm.nf, warm.pool}, warm.out);
      benchmark::DoNotOptimize(warm.out);
    }
  }
  state.SetItemsProcessed(state.iterations() * 32);
}
BENCHMARK(BM_UnitPacket)->Arg(1'000)->Arg(10'000)->Arg(200'000);

// A flow goes to the other unit: held packet, Pull, State, service, Took.
void BM_UnitHandOver(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  WarmUnit warm(flows);
  Unit units[2] = {
      warm.unit,
      Unit(UnitId{1},
           {.max_flows = flows, .queue_packets = 64, .packets_elsewhere = 0},
           warm.nf.schema())};
  UnitOut& out = warm.out;
  constexpr Instant now;
  Rng rng(1);
  std::vector<uint64_t> clocks(flows, 1);
  for ([[maybe_unused]] auto _ : state) {
    const uint64_t flow = rng.Below(flows);
    PacketMeta meta = Meta(flow, ++clocks[flow]);
    const size_t to = clocks[flow] % 2 == 0 ? 1 : 0;
    meta.source_kind = StateSource::kUnit;
    meta.source = UnitId{static_cast<uint16_t>(1 - to)};
    units[to].on_packet(warm.packet, meta);
    out.clear();
    units[to].begin(now, out);
    const Pull pull = out.commands()[0].pull;
    out.clear();
    units[1 - to].on_pull(now, pull, out);
    const State handed = out.commands()[0].state;
    out.clear();
    units[to].on_state(now, handed, {}, out);
    units[to].begin(now, out);
    units[to].finish(now, {warm.nf, warm.pool}, out);
    const Took took = out.commands()[1].took;
    out.clear();
    units[1 - to].on_took(now, took, out);
    const TookAck ack = out.commands()[0].took_ack;
    units[to].on_took_ack(now, ack, out);
    out.clear();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_UnitHandOver)->Arg(1'000)->Arg(10'000)->Arg(200'000);

void BM_BufferPoolAllocateAndFree(benchmark::State& state) {
  BufferPool pool({.small = 1'024, .medium = 16, .large = 1});
  for ([[maybe_unused]] auto _ : state) {
    const PacketHandle packet = pool.Allocate(60);
    benchmark::DoNotOptimize(packet);
    pool.Free(packet);
  }
}
BENCHMARK(BM_BufferPoolAllocateAndFree);

size_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  size_t total = 0;
  size_t resident = 0;
  const int fields = std::fscanf(file, "%zu %zu", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident * static_cast<size_t>(getpagesize()) : 0;
}

// Resident bytes a flow, timers armed, with as many flows as it may keep.
// Once only: freed memory that is used again is resident already.
void BM_UnitMemoryOfAFlow(benchmark::State& state) {
  class Alarm final : public NetworkFunction {
    Verdict process_packet(Packet&, FlowState& flow) override {
      flow.set_timer(Seconds(1));
      return Verdict::forward();
    }
  };
  const auto flows = static_cast<uint32_t>(state.range(0));
  for ([[maybe_unused]] auto _ : state) {
    const size_t before = ResidentBytes();
    Alarm nf;
    WarmUnit warm(0);
    Unit unit(UnitId{1},
              {.max_flows = flows, .queue_packets = 64, .packets_elsewhere = 0},
              nf.schema());
    for (uint32_t flow = 0; flow < flows; ++flow) {
      unit.on_packet(warm.packet, Meta(flow, 1));
      warm.out.clear();
      unit.begin(Instant{}, warm.out);
      unit.finish(Instant{}, {nf, warm.pool}, warm.out);
    }
    state.counters["bytes_per_flow"] =
        static_cast<double>(ResidentBytes() - before) / flows;
  }
}
BENCHMARK(BM_UnitMemoryOfAFlow)->Arg(1'000'000)->Iterations(1)->Repetitions(1);

}  // namespace
}  // namespace snf
