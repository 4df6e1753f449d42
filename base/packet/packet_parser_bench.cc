// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of finding the name of a packet's flow, and the floor with
// which other benchmarks are compared (platform/commands/bench/budgets.md). The
// packets are 60-byte TCP over Ethernet, of flows in random order, read from
// memory as from an mmapped capture. The figure is per_packet. Compare within
// one run:
//   base_parse_bench --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/packet/checksum.h"
#include "base/packet/classifier.h"
#include "base/packet/fixture_parse_lookup.h"
#include "base/packet/headers.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"

namespace snf {
namespace {

constexpr size_t kPacketBytes = 60;
constexpr size_t kStride = 64;  // a record's header is 16 bytes in a capture
constexpr size_t kBatch = ParseLookupFloor::kBatch;

using Bytes = std::span<const std::byte>;

// Packets of `flows` flows, contiguous in memory, at least 256 K of them.
class Traffic {
 public:
  explicit Traffic(size_t flows)
      : count_(std::max<size_t>(1 << 18, std::bit_ceil(flows))),
        bytes_(count_ * kStride) {
    Frame packet = Ethernet(0x0800, Ipv4({.protocol = 6}, Tcp(5000, 80)));
    packet.resize(kPacketBytes);
    Rng rng(1);
    for (size_t i = 0; i < count_; ++i) {
      // Every flow once, then at random.
      const auto flow = static_cast<uint32_t>(i < flows ? i : rng.Below(flows));
      Ipv4Header<std::byte>::At(packet, 14)
          .set_source(be32(0x0a00'0000 + flow / 16));
      TcpHeader<std::byte>::At(packet, 34)
          .set_source_port(be16(static_cast<uint16_t>(40'000 + flow % 16)));
      std::memcpy(&bytes_[i * kStride], packet.data(), kPacketBytes);
    }
    for (size_t i = count_; i-- > 1;) Swap(i, rng.Below(i + 1));
  }

  size_t count() const { return count_; }
  Bytes frame(size_t i) const {
    return Bytes(bytes_).subspan(i * kStride, kPacketBytes);
  }

 private:
  void Swap(size_t i, size_t j) {
    std::swap_ranges(&bytes_[i * kStride], &bytes_[i * kStride] + kStride,
                     &bytes_[j * kStride]);
  }

  size_t count_;
  std::vector<std::byte> bytes_;
};

// Returns the traffic of so many flows. It is made at first use and shared by
// repetitions.
const Traffic& TrafficOf(size_t flows) {
  static std::vector<std::pair<size_t, std::unique_ptr<Traffic>>> all;
  for (const auto& [n, traffic] : all) {
    if (n == flows) return *traffic;
  }
  return *all.emplace_back(flows, std::make_unique<Traffic>(flows)).second;
}

// Calls `batch` with the next kBatch frames for as long as the benchmark runs.
template <typename Batch>
void Walk(benchmark::State& state, const Traffic& traffic, Batch batch) {
  std::array<Bytes, kBatch> frames;
  size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (Bytes& frame : frames) frame = traffic.frame(next++);
    if (next == traffic.count()) next = 0;
    batch(frames);
  }
  state.counters["per_packet"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kBatch,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Walk(benchmark::State& state) {
  Walk(state, TrafficOf(10'000), [](const auto& frames) {
    for (const Bytes frame : frames) {
      auto first = LoadAs<uint64_t>(frame.data());
      benchmark::DoNotOptimize(first);
    }
  });
}
BENCHMARK(BM_Walk);

void BM_Parse(benchmark::State& state) {
  Walk(state, TrafficOf(10'000), [](const auto& frames) {
    for (const Bytes frame : frames) {
      ParsedPacket packet = Parse(LinkType::kEthernet, frame);
      benchmark::DoNotOptimize(packet);
    }
  });
}
BENCHMARK(BM_Parse);

void BM_ParseKeyHash(benchmark::State& state) {
  const FlowKeyHash flow_hash(1);
  Walk(state, TrafficOf(10'000), [&](const auto& frames) {
    for (const Bytes frame : frames) {
      const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
      uint64_t hash = flow_hash(FiveTuple(frame, packet, false));
      benchmark::DoNotOptimize(hash);
    }
  });
}
BENCHMARK(BM_ParseKeyHash);

void BM_Hash(benchmark::State& state) {
  const FlowKeyHash flow_hash(1);
  std::array<FlowKey, kBatch> keys;
  for (size_t i = 0; i < kBatch; ++i) {
    const Bytes frame = TrafficOf(10'000).frame(i);
    keys[i] = FiveTuple(frame, Parse(LinkType::kEthernet, frame), false);
  }
  Walk(state, TrafficOf(10'000), [&](const auto&) {
    for (const FlowKey& key : keys) {
      uint64_t hash = flow_hash(key);
      benchmark::DoNotOptimize(hash);
    }
  });
}
BENCHMARK(BM_Hash);

void BM_Classify(benchmark::State& state) {
  FlowClassifier classifier({.kind = static_cast<FlowKeyKind>(state.range(0))});
  Walk(state, TrafficOf(10'000), [&](const auto& frames) {
    for (const Bytes frame : frames) {
      ParsedPacket packet;
      FlowKey key;
      classifier.Classify({}, LinkType::kEthernet, frame, packet, key);
      benchmark::DoNotOptimize(key);
    }
  });
}
BENCHMARK(BM_Classify)
    ->ArgName("kind")
    ->Arg(static_cast<int>(FlowKeyKind::kConnection))
    ->Arg(static_cast<int>(FlowKeyKind::k5Tuple))
    ->Arg(static_cast<int>(FlowKeyKind::k3Tuple));

// Returns a floor that has seen every flow.
ParseLookupFloor WarmFloor(const Traffic& traffic, size_t flows) {
  ParseLookupFloor floor(flows);
  for (size_t i = 0; i < traffic.count(); ++i) {
    floor.One(LinkType::kEthernet, traffic.frame(i), 0);
  }
  SNF_CHECK(floor.flows() == flows);
  return floor;
}

void BM_FloorOneByOne(benchmark::State& state) {
  const auto flows = static_cast<size_t>(state.range(0));
  ParseLookupFloor floor = WarmFloor(TrafficOf(flows), flows);
  Walk(state, TrafficOf(flows), [&](const auto& frames) {
    for (const Bytes frame : frames) floor.One(LinkType::kEthernet, frame, 1);
  });
}
BENCHMARK(BM_FloorOneByOne)
    ->ArgName("flows")
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(200'000)
    ->Arg(1'000'000);

void BM_FloorBatches(benchmark::State& state) {
  const auto flows = static_cast<size_t>(state.range(0));
  ParseLookupFloor floor = WarmFloor(TrafficOf(flows), flows);
  Walk(state, TrafficOf(flows), [&](const auto& frames) {
    floor.Batch(LinkType::kEthernet, frames, 1);
  });
}
BENCHMARK(BM_FloorBatches)
    ->ArgName("flows")
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(200'000)
    ->Arg(1'000'000);

void BM_Checksum(benchmark::State& state) {
  std::vector<std::byte> bytes(static_cast<size_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    be16 checksum = InternetChecksum(bytes);
    benchmark::DoNotOptimize(checksum);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          state.range(0));
}
BENCHMARK(BM_Checksum)->Arg(20)->Arg(64)->Arg(1500);

}  // namespace
}  // namespace snf
