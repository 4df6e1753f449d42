// SPDX-License-Identifier: Apache-2.0
// Row 17 of the budgets, and what a packet, a push, a replica and a hand-over
// cost a unit. The figures are CPU time; compare within one run:
//   runtime_core_bench --benchmark_filter=Unit --benchmark_repetitions=5
//       --benchmark_enable_random_interleaving=true
//       --benchmark_report_aggregates_only=true
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "runtime/core/fixture_filled_unit.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {
namespace {

constexpr Nanos kPacketGap{100};
constexpr uint32_t kMaxRecordBytes = 256;

// Forwards packets, and rewrites all that it keeps of their flow: a record of
// so many bytes, none of them without value; 0 is no record.
class Keeper final : public NetworkFunction {
 public:
  explicit Keeper(uint32_t record_bytes) {
    SNF_CHECK(record_bytes <= kMaxRecordBytes);
    if (record_bytes == 0) return;
    constexpr uint32_t kPresence = 8;
    state_ = declare_blob(
        "state", record_bytes - kPresence - StateSchema::kBlobHeaderBytes);
    SNF_CHECK(schema().record_bytes() == record_bytes);
  }

 private:
  Verdict process_packet(Packet&, FlowState& flow) override {
    static constexpr std::array<std::byte, kMaxRecordBytes> kBytes{};
    if (state_.has_value()) {
      flow.put(*state_, std::span(kBytes).first(state_->max_bytes()));
    }
    return Verdict::forward();
  }

  std::optional<Blob> state_;
};

PacketMeta Meta(uint32_t flow, uint64_t clock) {
  PacketMeta meta;
  meta.flow = MakeFlowId(0, flow, 1);
  meta.clock = Clock{clock};
  return meta;
}

constexpr uint8_t kReplicas = 3;
ReplicaSet ReplicasOf(FlowId flow) {
  return {.flow = flow,
          .units = {UnitId{1}, UnitId{2}, UnitId{3}},
          .count = kReplicas};
}

// Each flow once, at random.
std::vector<uint32_t> Shuffled(uint32_t flows) {
  std::vector<uint32_t> order(flows);
  std::iota(order.begin(), order.end(), 0);
  Rng rng(1);
  rng.Shuffle(std::span(order));
  return order;
}

// A unit with one packet for each of `n` flows behind it.
struct WarmUnit {
  explicit WarmUnit(uint32_t n, uint32_t record_bytes = 0,
                    uint32_t max_replicas = 65'536)
      : nf(record_bytes),
        unit(UnitId{0},
             {.max_flows = n,
              .queue_packets = 64,
              .packets_elsewhere = 0,
              .max_replicas = max_replicas},
             nf.schema()),
        packet(pool.Allocate(60)) {
    pool.info(packet).length = 60;
    for (uint32_t flow = 0; flow < n; ++flow) Run(Meta(flow, 1));
  }
  void Run(const PacketMeta& meta) {
    unit.on_packet(packet, meta);
    out.clear();
    if (unit.begin(now, out)) {
      unit.finish(now, {nf, pool}, out);
    }
  }

  BufferPool pool{{.small = 64, .medium = 0, .large = 0}};
  Keeper nf;
  Unit unit;
  UnitOut out;
  PacketHandle packet;
  Instant now;
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
      if (!warm.unit.begin(Instant{}, warm.out)) break;
      warm.unit.finish(Instant{}, {warm.nf, warm.pool}, warm.out);
      benchmark::DoNotOptimize(warm.out);
    }
  }
  state.SetItemsProcessed(state.iterations() * 32);
}
BENCHMARK(BM_UnitPacket)->Arg(1'000)->Arg(10'000)->Arg(200'000);

void FlowsAndBytes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"flows", "bytes"});
  bench->ArgsProduct({{10'000, 200'000}, {32, 256}});
}

// Does all that is due, and puts each record that is sent into a message, as a
// driver does. Returns the number of States.
int64_t SendWhatIsDue(WarmUnit& warm) {
  std::array<std::byte, kMaxRecordBytes> message;
  int64_t states = 0;
  while (warm.unit.next_wakeup() <= warm.now) {
    warm.out.clear();
    warm.unit.on_timers(warm.now, warm.out);
    for (const UnitCommand& command : warm.out.commands()) {
      SNF_CHECK(command.kind == UnitCommand::Kind::kSendState);
      const auto record =
          warm.unit.state_bytes(command.state.flow).first(command.state.bytes);
      std::memcpy(message.data(), record.data(), record.size());
      benchmark::DoNotOptimize(message);
      ++states;
    }
  }
  return states;
}

// All flows ran a packet each, and idle: one State of each to three replicas.
// The time is that of a State. All flows at once is the worst case: those that
// idle a few at a time are nearer.
void BM_UnitPush(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  WarmUnit warm(flows, static_cast<uint32_t>(state.range(1)));
  const std::vector<uint32_t> order = Shuffled(flows);
  warm.now = warm.now + Milliseconds(1);
  SNF_CHECK(SendWhatIsDue(warm) == 0);
  for (const uint32_t flow : order) {
    warm.unit.on_replicas(ReplicasOf(Meta(flow, 1).flow));
  }
  uint64_t clock = 1;
  while (state.KeepRunningBatch(int64_t{flows} * kReplicas)) {
    state.PauseTiming();
    ++clock;
    for (const uint32_t flow : order) {
      warm.now = warm.now + kPacketGap;
      warm.Run(Meta(flow, clock));
    }
    warm.now = warm.now + Milliseconds(1);
    state.ResumeTiming();
    SNF_CHECK(SendWhatIsDue(warm) == int64_t{flows} * kReplicas);
  }
}
BENCHMARK(BM_UnitPush)->Apply(FlowsAndBytes);

// What becomes of a unit's replicas when each flow's State has come once.
enum class Between { kNothing, kForgetAll };

// A unit keeps replicas for `flows` flows and nothing else, and is pushed those
// of `pushed` flows, round after round. The time is that of a State.
void AcceptPushes(benchmark::State& state, uint32_t pushed, Between between) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  const auto bytes = static_cast<uint32_t>(state.range(1));
  const WarmUnit source(1, bytes);
  const auto record = source.unit.state_bytes(Meta(0, 1).flow);
  WarmUnit warm(0, bytes, flows);
  const std::vector<uint32_t> order = Shuffled(pushed);
  State push = {
      .schema = warm.nf.schema().hash(), .bytes = bytes, .pushed = true};
  uint64_t taken = 0;
  const auto accept_all = [&] {
    push.applied = push.applied + 1;
    for (const uint32_t flow : order) {
      push.flow = Meta(flow, 1).flow;
      warm.now = warm.now + kPacketGap;
      warm.unit.on_state(warm.now, push, record, warm.out);
    }
    taken += pushed;
  };
  const auto forget_all = [&] {
    warm.unit.on_stop(warm.out);
    warm.unit.on_start();
    warm.out.clear();
    SNF_CHECK(warm.unit.replicas() == 0);
  };
  accept_all();
  while (state.KeepRunningBatch(pushed)) {
    if (between == Between::kForgetAll) {
      state.PauseTiming();
      forget_all();
      state.ResumeTiming();
    }
    accept_all();
  }
  SNF_CHECK(warm.unit.counters().replicas_taken == taken);
  SNF_CHECK(warm.unit.replicas() == flows && warm.out.empty());
}

// Of flows of which there is nothing here.
void BM_UnitAcceptNew(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  AcceptPushes(state, flows, Between::kForgetAll);
}
BENCHMARK(BM_UnitAcceptNew)->Apply(FlowsAndBytes);

// The same in a unit that is full: each takes the place of the oldest.
void BM_UnitAcceptNewAndEvict(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  AcceptPushes(state, 2 * flows, Between::kNothing);
}
BENCHMARK(BM_UnitAcceptNewAndEvict)->Apply(FlowsAndBytes);

// Of flows of which there is an older replica.
void BM_UnitAcceptNewer(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  AcceptPushes(state, flows, Between::kNothing);
}
BENCHMARK(BM_UnitAcceptNewer)->Apply(FlowsAndBytes);

// A flow goes to the other unit and was not pushed there: held packet, Pull,
// State, service, Takeover, its acknowledgement. The time is that of both
// units.
void BM_UnitHandOver(benchmark::State& state) {
  using Kind = UnitCommand::Kind;
  const auto flows = static_cast<uint32_t>(state.range(0));
  WarmUnit warm(flows, static_cast<uint32_t>(state.range(1)));
  Unit units[2] = {
      warm.unit,
      Unit(UnitId{1},
           {.max_flows = flows, .queue_packets = 64, .packets_elsewhere = 0},
           warm.nf.schema())};
  UnitOut& out = warm.out;
  // The only command, or the first of that kind.
  const auto take = [&](Kind kind, size_t i = 0) {
    SNF_CHECK(out.commands().size() > i && out.commands()[i].kind == kind);
    const UnitCommand command = out.commands()[i];
    out.clear();
    return command;
  };
  constexpr Instant now;
  Rng rng(1);
  std::vector<uint64_t> clocks(flows, 1);
  out.clear();
  for ([[maybe_unused]] auto _ : state) {
    const auto flow = static_cast<uint32_t>(rng.Below(flows));
    PacketMeta meta = Meta(flow, ++clocks[flow]);
    const size_t to = clocks[flow] % 2 == 0 ? 1 : 0;
    meta.source_kind = StateSource::kUnit;
    meta.source = UnitId{static_cast<uint16_t>(1 - to)};
    meta.flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kMoved;
    units[to].on_packet(warm.packet, meta);
    units[to].begin(now, out);
    units[1 - to].on_pull(now, take(Kind::kSendPull).pull, out);
    const State handed = take(Kind::kSendState).state;
    const auto record = units[1 - to].state_bytes(meta.flow);
    units[to].on_state(now, handed, record.first(handed.bytes), out);
    units[to].begin(now, out);
    units[to].finish(now, {warm.nf, warm.pool}, out);
    units[1 - to].on_takeover(now, take(Kind::kSendTakeover, 1).takeover, out);
    units[to].on_takeover_ack(now, take(Kind::kSendTakeoverAck).takeover_ack,
                              out);
  }
  SNF_CHECK(units[0].flows() + units[1].flows() == flows);
}
BENCHMARK(BM_UnitHandOver)
    ->ArgNames({"flows", "bytes"})
    ->ArgsProduct({{1'000, 10'000, 200'000}, {0, 32, 256}});

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

// Resident bytes a flow, replicas named and timers armed, with as many flows as
// it may keep. Once only: freed memory that is used again is resident already.
void BM_UnitMemoryOfAFlow(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  for ([[maybe_unused]] auto _ : state) {
    const size_t before = ResidentBytes();
    const FilledUnit filled(flows);
    state.counters["bytes_per_flow"] =
        static_cast<double>(ResidentBytes() - before) / flows;
  }
}
BENCHMARK(BM_UnitMemoryOfAFlow)->Arg(1'000'000)->Iterations(1)->Repetitions(1);

}  // namespace
}  // namespace snf
