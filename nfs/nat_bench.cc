// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of translating a packet whose state is at hand: the NF's
// process_packet on the flow's record, against a NAT that consists of two hash
// maps and the same rewriting. The packets of `flows` inside endpoints come in
// random order, half of them answers; neither side parses. The figure is
// per_packet. Compare within one run:
//   nfs_bench --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <array>
#include <cstring>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/packet/endpoint.h"
#include "base/packet/headers.h"
#include "base/packet/rewrite.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "nfs/test_nat.h"

namespace snf {
namespace {

constexpr size_t kMaxBytes = 64;
const TestEnd kPeer = {V4(192, 0, 9, 9), 443};

struct BenchPacket {
  std::array<std::byte, kMaxBytes> bytes;
  PacketInfo info;
  uint32_t flow = 0;
};

// The packets, and the flows with their mappings.
struct Traffic {
  Traffic(size_t flow_count, uint8_t protocol) {
    Rng rng(1);
    for (uint32_t i = 0; i < flow_count; ++i) {
      const TestEnd inside = {
          IpAddress::FromIpv4(be32(0x0a00'0001 + i / 8)),
          static_cast<uint16_t>(20'000 + rng.Below(40'000))};
      const Frame out = Between(protocol, inside, kPeer);
      const Frame sent =
          nat.FromInside(flows.emplace_back(nat.NewFlow()), out).frame;
      Add(i, Side::kInside, out);
      Add(i, Side::kOutside, Between(protocol, kPeer, SourceOf(sent)));
    }
    for (size_t i = packets.size(); i-- > 1;) {
      std::swap(packets[i], packets[rng.Below(i + 1)]);
    }
  }

  TestNat nat;
  std::vector<TestNat::Flow> flows;
  std::vector<BenchPacket> packets;

 private:
  void Add(uint32_t flow, Side side, const Frame& frame) {
    SNF_CHECK(frame.size() <= kMaxBytes);
    BenchPacket& packet = packets.emplace_back();
    std::memcpy(packet.bytes.data(), frame.data(), frame.size());
    packet.info.length = packet.info.original_length =
        static_cast<uint32_t>(frame.size());
    packet.info.headers = Parse(LinkType::kRawIp, frame);
    packet.info.link = LinkType::kRawIp;
    packet.info.side = side;
    packet.flow = flow;
  }
};

// Calls `translate` with a packet and a fresh copy of its bytes.
template <typename Translate>
void ForEachPacket(benchmark::State& state, const Traffic& traffic,
                   Translate translate) {
  size_t next = 0;
  std::array<std::byte, kMaxBytes> bytes;
  for ([[maybe_unused]] auto _ : state) {
    const BenchPacket& packet = traffic.packets[next++];
    if (next == traffic.packets.size()) next = 0;
    bytes = packet.bytes;
    translate(packet, std::span(bytes).first(packet.info.length));
    benchmark::DoNotOptimize(bytes);
  }
  state.counters["per_packet"] = benchmark::Counter(
      static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Copy(benchmark::State& state) {
  const Traffic traffic(static_cast<size_t>(state.range(0)),
                        static_cast<uint8_t>(state.range(1)));
  ForEachPacket(state, traffic, [](const BenchPacket&, auto) {});
}

void BM_Nat(benchmark::State& state) {
  Traffic traffic(static_cast<size_t>(state.range(0)),
                  static_cast<uint8_t>(state.range(1)));
  size_t dropped = 0;
  ForEachPacket(state, traffic, [&](const BenchPacket& packet, auto bytes) {
    Packet view(packet.info, bytes);
    StateView record(traffic.flows[packet.flow].record);
    FlowState flow(FlowId{1}, packet.info.arrival, Instant::max(), record,
                   traffic.nat);
    dropped += traffic.nat.nf().process_packet(view, flow).kind() !=
                       Verdict::Kind::kForward
                   ? 1
                   : 0;
  });
  SNF_CHECK(dropped == 0);
}

// Translates the same endpoints by hash maps, without state machine, filter or
// timeouts.
class BareNat {
 public:
  struct Mapping {
    be32 address;
    be16 port;
    Instant last;
  };

  static FlowKey KeyOf(std::span<const std::byte> frame,
                       const ParsedPacket& headers, bool source) {
    const auto ip = Ipv4Header<const std::byte>::At(frame, headers.l3_offset);
    const auto ports = PortsView<const std::byte>::At(frame, headers.l4_offset);
    return EndpointKey(
        IpAddress::FromIpv4(source ? ip.source() : ip.destination()),
        source ? ports.source_port() : ports.destination_port(),
        headers.l4_protocol, FlowKeyForm::kIpv4Endpoint);
  }
  // Returns false if there is no mapping.
  bool Translate(const BenchPacket& packet, std::span<std::byte> bytes) {
    const bool out = packet.info.side == Side::kInside;
    auto& map = out ? to_external : to_inside;
    const auto found = map.find(KeyOf(bytes, packet.info.headers, out));
    if (found == map.end()) return false;
    Mapping& mapping = found->second;
    mapping.last = packet.info.arrival;
    if (out) {
      RewriteSource(bytes, packet.info.headers, mapping.address, mapping.port);
    } else {
      RewriteDestination(bytes, packet.info.headers, mapping.address,
                         mapping.port);
    }
    return true;
  }

  absl::flat_hash_map<FlowKey, Mapping, FlowKeyHash> to_external, to_inside;
};

void BM_BareNat(benchmark::State& state) {
  const Traffic traffic(static_cast<size_t>(state.range(0)),
                        static_cast<uint8_t>(state.range(1)));
  BareNat nat;
  for (const BenchPacket& packet : traffic.packets) {
    const bool out = packet.info.side == Side::kInside;
    (out ? nat.to_external : nat.to_inside)
        .emplace(BareNat::KeyOf(packet.bytes, packet.info.headers, out),
                 BareNat::Mapping{be32(0xc000'0201), be16(2000), {}});
  }
  size_t dropped = 0;
  ForEachPacket(state, traffic, [&](const BenchPacket& packet, auto bytes) {
    dropped += nat.Translate(packet, bytes) ? 0 : 1;
  });
  SNF_CHECK(dropped == 0);
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"flows", "protocol"});
  for (const int64_t protocol : {17, 6}) {
    for (const int64_t flows : {1'000, 10'000}) {
      benchmark->Args({flows, protocol});
    }
  }
}
BENCHMARK(BM_Copy)->Apply(Sizes);
BENCHMARK(BM_Nat)->Apply(Sizes);
BENCHMARK(BM_BareNat)->Apply(Sizes);

}  // namespace
}  // namespace snf
