// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of a chain: a packet goes through `nfs` NFs, each of which
// counts the packets of its flow; 10,000 flows take turns. BM_Calls calls the
// NFs one after the other, on the same records, which is the floor. Compare
// within one run:
//   runtime_sdk_chain_bench --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "runtime/sdk/chain.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

class BenchCount final : public NetworkFunction {
 public:
  explicit BenchCount(NfOptions& options) {
    if (options.Flag("pool", false, "may wait")) declare_pool("pool", 1, 1);
    sided_ = options.Flag("sided", false, "has two sides");
  }
  FlowScope flow_scope() const override {
    return sided_ ? FlowScope::kInsideEndpoint : FlowScope::kConnection;
  }
  bool may_wait(const FlowState& flow) const override {
    return !flow.has(packets_);
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"even", "odd"};
    return kLabels;
  }
  Verdict process_packet(Packet&, FlowState& flow) override {
    const uint64_t packets = flow.get(packets_) + 1;
    flow.put(packets_, packets);
    return Verdict::forward(packets % 2);
  }

 private:
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  bool sided_;
};
SNF_REGISTER_NF(BenchCount, "count", "counts packets");

// With a second class here the compiler cannot guess which one is called.
class BenchNothing final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(BenchNothing, "nothing", "does nothing");

constexpr size_t kFlows = 10'000;

// The records of an NF's flows.
class Flows {
 public:
  explicit Flows(const NetworkFunction& nf)
      : bytes_(nf.schema().record_bytes()), records_(kFlows * bytes_) {}
  std::span<std::byte> Next() {
    at_ = (at_ + 7'919) % kFlows;
    return std::span(records_).subspan(at_ * bytes_, bytes_);
  }

 private:
  size_t bytes_;
  std::vector<std::byte> records_;
  size_t at_ = 0;
};

struct BenchPacket {
  PacketInfo info;
  std::array<std::byte, 64> bytes{};
  Packet packet{info, bytes};
};

std::string Repeated(const std::string& nf, int64_t times,
                     const std::string& between) {
  std::string text = nf;
  for (int64_t i = 1; i < times; ++i) text += between + nf;
  return text;
}

void Lengths(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("nfs")->Arg(1)->Arg(2)->Arg(4)->Arg(8);
}

// Calls the NF for each packet with a view and a flow of its own, as a unit
// does.
void RunPackets(benchmark::State& state, NetworkFunction& nf) {
  Flows flows(nf);
  BenchPacket packet;
  for ([[maybe_unused]] auto _ : state) {
    TestFlow test(flows.Next());
    const Verdict verdict = nf.process_packet(packet.packet, test.flow);
    benchmark::DoNotOptimize(verdict.kind());
    benchmark::DoNotOptimize(test.view.dirty());
  }
}

void BM_Calls(benchmark::State& state) {
  // For its record.
  const auto chain =
      NfSpec::Parse(Repeated("count", state.range(0), " | ") + " | {*:}")
          ->create();
  std::vector<std::unique_ptr<NetworkFunction>> nfs;
  for (int64_t i = 0; i < state.range(0); ++i) {
    nfs.push_back(FindNf("count")->create());
  }
  Flows flows(*chain);
  BenchPacket packet;
  for ([[maybe_unused]] auto _ : state) {
    NoServices services;
    StateView view(flows.Next());
    uint32_t index = 0;
    for (const auto& nf : nfs) {
      FlowState flow(FlowId{1}, Instant{}, Instant::max(), view, services,
                     {.first_slot = index, .first_byte = 8 * index});
      ++index;
      const Verdict verdict = nf->process_packet(packet.packet, flow);
      benchmark::DoNotOptimize(verdict.kind());
    }
    benchmark::DoNotOptimize(view.dirty());
  }
}
BENCHMARK(BM_Calls)->Apply(Lengths);

void BM_Chain(benchmark::State& state) {
  const auto chain =
      NfSpec::Parse(Repeated("count", state.range(0), " | ") + " | {*:}")
          ->create();
  RunPackets(state, *chain);
}
BENCHMARK(BM_Chain)->Apply(Lengths);

// Each packet skips half of the NFs that are branches: `nfs` is the number that
// it goes through on average.
void BM_Branches(benchmark::State& state) {
  std::string text = "count | {odd: count, even: count}";
  for (int64_t i = 2; i < state.range(0); i += 2) {
    text += " | count | {odd: count, even: count}";
  }
  RunPackets(state, *NfSpec::Parse(text)->create());
}
BENCHMARK(BM_Branches)->ArgName("nfs")->Arg(2)->Arg(4)->Arg(8);

// The last NF may wait in a new flow.
void BM_MayWait(benchmark::State& state) {
  const auto chain = NfSpec::Parse(Repeated("count", state.range(0), " | ") +
                                   " | count(pool=true)")
                         ->create();
  RunPackets(state, *chain);
}
BENCHMARK(BM_MayWait)->ArgName("nfs")->Arg(1)->Arg(3)->Arg(7);

// The first NF has two sides; others keep state in the table of connections.
void BM_Connections(benchmark::State& state) {
  const auto chain = NfSpec::Parse("count(sided=true) | " +
                                   Repeated("count", state.range(0), " | "))
                         ->create();
  RunPackets(state, *chain);
}
BENCHMARK(BM_Connections)->ArgName("nfs")->Arg(1)->Arg(3)->Arg(7);

void BM_Burst(benchmark::State& state) {
  const auto nf =
      NfSpec::Parse(Repeated("count", state.range(0), " | ") + " | {*:}")
          ->create();
  auto& chain = dynamic_cast<Chain&>(*nf);
  Flows flows(chain);
  BenchPacket packet;
  std::array<Packet*, Chain::kMaxBurst> packets;
  packets.fill(&packet.packet);
  std::vector<Verdict> verdicts(Chain::kMaxBurst, Verdict::forward());
  while (state.KeepRunningBatch(Chain::kMaxBurst)) {
    std::array<std::optional<TestFlow>, Chain::kMaxBurst> tests;
    std::array<FlowState*, Chain::kMaxBurst> states;
    for (size_t i = 0; i < tests.size(); ++i) {
      tests[i].emplace(flows.Next());
      states[i] = &tests[i]->flow;
    }
    chain.process_burst(packets, states, verdicts);
    benchmark::DoNotOptimize(verdicts.data());
  }
}
BENCHMARK(BM_Burst)->Apply(Lengths);

}  // namespace
}  // namespace snf
