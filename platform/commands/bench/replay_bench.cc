// SPDX-License-Identifier: Apache-2.0
//
// What a whole replay costs a packet, held against the least that anything
// which keeps state per flow must do: parse it and look its flow up. The
// figures are `per_packet`, CPU time. Compare within one run:
//   replay_bench --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/packet/fixture_parse_lookup.h"
#include "base/packet/headers.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

// Packets in memory.
struct Trace {
  std::vector<std::vector<std::byte>> frames;
  std::vector<CapturedPacket> packets;

  void Add(const CapturedPacket& packet) {
    frames.emplace_back(packet.bytes.begin(), packet.bytes.end());
    packets.push_back(packet);
    packets.back().bytes = frames.back();
  }
};

// The capture that comes with the project, or the one that SNF_CAPTURE names.
const Trace& Bundled() {
  static const Trace trace = [] {
    const char* named = std::getenv("SNF_CAPTURE");
    const std::string path = named != nullptr ? named : "traces/small.pcap.zst";
    auto reader = MergedReader::Open({path});
    SNF_CHECK(reader.ok());  // run from the source tree
    Trace read;
    for (CapturedPacket packet;
         (*reader)->Next(packet) == ReadResult::kPacket;) {
      read.Add(packet);
    }
    return read;
  }();
  return trace;
}

// 60-byte packets of 10,000 flows at random, 1 µs apart on average: at 0.5
// Gbit/s nearly each begins a flowlet.
const Trace& SmallPackets() {
  static const Trace trace = [] {
    constexpr int kPackets = 200'000;
    constexpr uint32_t kFlows = 10'000;
    Trace made;
    Rng rng(1);
    Instant now{1'000'000'000};
    Frame frame = Ethernet(0x0800, Ipv4({.protocol = 6}, Tcp(5000, 80)));
    frame.resize(60);
    for (int i = 0; i < kPackets; ++i) {
      now = now + Nanos{static_cast<int64_t>(rng.Exponential(1'000))};
      const auto flow = static_cast<uint32_t>(rng.Below(kFlows));
      Ipv4Header<std::byte>::At(frame, 14).set_source(be32(0x0a00'0000 + flow));
      made.Add({.time = now,
                .bytes = frame,
                .original_bytes = 60,
                .link = LinkType::kEthernet});
    }
    return made;
  }();
  return trace;
}

void Report(benchmark::State& state, const Trace& trace) {
  const auto packets = static_cast<double>(trace.packets.size()) *
                       static_cast<double>(state.iterations());
  state.counters["per_packet"] = benchmark::Counter(
      packets, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["packets_per_s"] =
      benchmark::Counter(packets, benchmark::Counter::kIsRate);
}

void Floor(benchmark::State& state, const Trace& trace) {
  for (auto _ : state) {
    ParseLookupFloor floor(1 << 17);
    for (const CapturedPacket& packet : trace.packets) {
      floor.One(packet.link, packet.bytes, packet.time.ns);
    }
    benchmark::DoNotOptimize(floor.flows());
  }
  Report(state, trace);
}

void Replay(benchmark::State& state, const Trace& trace, bool check) {
  RunOptions options;
  options.check = check;
  options.controller.unit_capacity_bps = 300'000'000;
  for (auto _ : state) {
    VirtualDriver driver(options, *FindPlacementPolicy("snf"),
                         *FindNf("passthrough"), {});
    for (const CapturedPacket& packet : trace.packets) driver.Offer(packet);
    benchmark::DoNotOptimize(driver.Finish().digest);
  }
  Report(state, trace);
}

void BM_FloorReal(benchmark::State& state) { Floor(state, Bundled()); }
void BM_ReplayReal(benchmark::State& state) { Replay(state, Bundled(), true); }
void BM_ReplayRealUnchecked(benchmark::State& state) {
  Replay(state, Bundled(), false);
}
void BM_FloorSmallPackets(benchmark::State& state) {
  Floor(state, SmallPackets());
}
void BM_ReplaySmallPackets(benchmark::State& state) {
  Replay(state, SmallPackets(), true);
}
BENCHMARK(BM_FloorReal)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplayReal)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplayRealUnchecked)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FloorSmallPackets)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplaySmallPackets)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace snf
