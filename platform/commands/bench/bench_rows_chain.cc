// SPDX-License-Identifier: Apache-2.0
//
// Rows 1 to 5, 8 to 10, 18 and 19: chains, in units and as a whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/histogram.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/fixture_parse_lookup.h"
#include "base/quantity.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/fixture_captured_tables.h"
#include "platform/commands/bench/fixture_driven_chain.h"
#include "platform/commands/bench/fixture_lone_worker.h"
#include "runtime/core/fixture_lone_unit.h"
#include "runtime/core/fixture_traffic.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/spsc_ring.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;

// One external address has ports for this many connections, and the monitor
// room for them by default.
constexpr uint32_t kFlowsOfOneAddress = 50'000;

std::string Nat(uint32_t flows) {
  if (flows <= kFlowsOfOneAddress) return "nat(ip=203.0.113.1)";
  return fmt::format("nat(ip=203.0.113.1-203.0.113.{})",
                     2 * flows / kFlowsOfOneAddress);
}

// 20 rules, the last of which lets the packets through, and statistics of each
// flow and host.
std::string Chain(uint32_t flows, std::string_view last = "from 10.0.0.0/8") {
  std::string rules;
  for (int i = 0; i < 19; ++i) {
    rules +=
        fmt::format("tcp from 172.16.{}.0/24 to any port {};", i, 1'000 + i);
  }
  const std::string monitor =
      flows <= kFlowsOfOneAddress
          ? "monitor"
          : fmt::format("monitor(max_flows={0},max_hosts={0})", 2 * flows);
  return fmt::format("firewall(default=deny,deny={},allow=any {}) | {} | {}",
                     rules, last, monitor, Nat(flows));
}

std::unique_ptr<NetworkFunction> NfOf(const std::string& text) {
  auto spec = NfSpec::Parse(text);
  SNF_CHECK(spec.ok());
  return spec->create();
}

uint64_t RunTraffic(MadeTraffic& traffic, uint64_t packets) {
  uint64_t done = 0;
  while (done < packets) done += traffic.RunBatch();
  return done;
}

// A runner, and packets for it.
struct Fed {
  explicit Fed(std::unique_ptr<BatchRunner> to, uint32_t flows)
      : runner(std::move(to)), traffic(flows, *runner) {}
  std::unique_ptr<BatchRunner> runner;
  MadeTraffic traffic;
};

size_t AddFed(BenchSuite& suite, const std::string& name, uint32_t flows,
              const std::function<std::unique_ptr<BatchRunner>()>& make) {
  return suite.Add(name, [&]() -> absl::StatusOr<BenchCase> {
    auto fed = std::make_shared<Fed>(make(), flows);
    return BenchCase{.sample = [fed](uint64_t packets) {
      return CpuNsOf(packets,
                     [&](uint64_t n) { return RunTraffic(fed->traffic, n); });
    }};
  });
}

BenchRow::Side Tables(BenchSuite& suite, uint32_t flows, bool with_hosts) {
  const std::string what =
      with_hosts ? "the same with one for hosts" : "the three-table floor";
  return {what, AddFed(suite, fmt::format("{} {}", what, flows), flows, [&] {
            return std::make_unique<FloorRunner>(flows, with_hosts);
          })};
}

BenchRow::Side InUnit(BenchSuite& suite, uint32_t flows) {
  return {"the chain in a unit",
          AddFed(suite, fmt::format("unit {}", flows), flows, [&] {
            return std::make_unique<LoneUnit>(NfOf(Chain(flows)), flows);
          })};
}

// The real-time driver on one thread.
BenchRow::Side Driven(BenchSuite& suite, const std::string& what,
                      const DrivenChain::Options& options) {
  const auto make = [&]() -> absl::StatusOr<BenchCase> {
    auto started = DrivenChain::Start(options);
    if (!started.ok()) return started.status();
    const std::shared_ptr<DrivenChain> chain = *std::move(started);
    const auto offer = [chain](uint64_t packets) {
      chain->Offer(packets);
      return packets;
    };
    return BenchCase{
        .sample = [offer](uint64_t packets) { return CpuNsOf(packets, offer); },
        .check = [chain] { return DrivenChain::Check(chain->Finish()); }};
  };
  return {what,
          suite.Add(fmt::format("driven {} {} {}{}", options.nf, options.flows,
                                options.flowlet_timeout.ns,
                                options.capture != nullptr ? " capture" : ""),
                    make)};
}

BenchRow::Side Path(BenchSuite& suite, uint32_t flows) {
  return Driven(suite, "the whole path", {.nf = Chain(flows), .flows = flows});
}

BenchRow WholePath(BenchSuite& suite, uint32_t flows, double must, double aim) {
  return {.number = 1,
          .what = "whole path, firewall | monitor | nat",
          .variant = InThousands(flows) + " flows",
          .must = {{must}},
          .aim = {{aim}},
          .ours = Path(suite, flows),
          .base = Tables(suite, flows, false),
          .beside = {Tables(suite, flows, true)}};
}

void AddWholePath(const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows) {
  rows.push_back(WholePath(suite, sizes.few_flows, 3.5, 2.1));
  rows.push_back(WholePath(suite, sizes.flows, 4.5, 2.3));
  for (BenchRow& row : rows) {
    if (row.number != 1) continue;
    row.notes = {
        "One thread runs all stages; flowlets end because they are full."};
  }
  const Nanos by_default = ControllerOptions{}.flowlet_timeout;
  rows.push_back({.number = 1,
                  .what = "the same, nearly each packet a flowlet",
                  .variant = InThousands(sizes.flows) + " flows",
                  .ours = Driven(suite, "the whole path",
                                 {.nf = Chain(sizes.flows),
                                  .flows = sizes.flows,
                                  .flowlet_timeout = by_default}),
                  .base = Tables(suite, sizes.flows, false),
                  .notes = {"At the highest speed a flow's packets are farther "
                            "apart than the default flowlet timeout: most "
                            "packets need a decision, a replica or a move."}});
}

// Ours takes only packets that the three tables know, too.
void AddCapture(const BenchSizes& sizes, BenchSuite& suite,
                std::vector<BenchRow>& rows) {
  BenchRow row = {.number = 18,
                  .what = "the bundled capture in a loop, whole path",
                  .must = {{1.6}},
                  .aim = {{1.2}}};
  auto read = PlainCapture::Read(std::string(sizes.capture));
  if (!read.ok()) {
    row.not_measured = std::string(read.status().message());
    rows.push_back(row);
    return;
  }
  const auto capture = std::make_shared<PlainCapture>(*std::move(read));
  const auto tables = [&](const std::string& what, bool with_hosts) {
    return BenchRow::Side{
        what, suite.Add(what, [&]() -> absl::StatusOr<BenchCase> {
          auto of = std::make_shared<CapturedTables>(*capture, with_hosts);
          return BenchCase{.sample = [of, capture](uint64_t packets) {
            return CpuNsOf(packets, [&](uint64_t n) { return of->Run(n); });
          }};
        })};
  };
  row.variant =
      fmt::format("{} connections", FormatCount(capture->connections));
  row.ours = Driven(suite, "the whole path",
                    {.nf = Chain(capture->connections, "from any"),
                     .flows = capture->connections,
                     .capture = &capture->packets});
  row.base = tables("copy, parse and three tables", false);
  row.beside = {tables("these with one for hosts", true)};
  row.notes = {
      "The packets of IPv4 with TCP or UDP, as fast as they are taken."};
  rows.push_back(row);
}

// Nearly each packet begins a flowlet with the default timeout, as in row 1.
void AddFlowletBegin(const BenchSizes& sizes, BenchSuite& suite,
                     std::vector<BenchRow>& rows) {
  rows.push_back(
      {.number = 19,
       .what = "a flowlet's begin, beyond a packet of a running one",
       .variant = InThousands(sizes.flows) + " flows",
       .of = BenchRow::Of::kDifference,
       .must = {{300}},
       .aim = {{150}},
       .ours = Driven(suite, "each packet a flowlet",
                      {.nf = Chain(sizes.flows),
                       .flows = sizes.flows,
                       .flowlet_timeout = ControllerOptions{}.flowlet_timeout}),
       .base = Path(suite, sizes.flows)});
}

void AddInUnit(const BenchSizes& sizes, BenchSuite& suite,
               std::vector<BenchRow>& rows) {
  for (const uint32_t flows : {sizes.few_flows, sizes.flows}) {
    rows.push_back({.number = 2,
                    .what = "the chain inside a unit",
                    .variant = InThousands(flows) + " flows",
                    .must = {{2.5}},
                    .aim = {{1.5}},
                    .ours = InUnit(suite, flows),
                    .base = Tables(suite, flows, false),
                    .beside = {Tables(suite, flows, true)}});
  }
}

BenchRow::Side ParseAndLookUp(BenchSuite& suite, uint32_t flows) {
  const auto make = [flows]() -> absl::StatusOr<BenchCase> {
    return ParseLookupCase(flows);
  };
  return {"parse + lookup", suite.Add(ParseLookupName(flows), make)};
}

void AddPassThrough(const BenchSizes& sizes, BenchSuite& suite,
                    std::vector<BenchRow>& rows) {
  for (const uint32_t flows : {sizes.few_flows, sizes.flows}) {
    rows.push_back(
        {.number = 3,
         .what = "the platform with a pass-through NF",
         .variant = InThousands(flows) + " flows",
         .must = {{4}},
         .aim = {{2.5}},
         .ours =
             Driven(suite, "the whole path",
                    {.nf = "passthrough", .flows = flows, .both_sides = false}),
         .base = ParseAndLookUp(suite, flows)});
  }
}

// Measures the time of a worker's turns for a packet, with or without loggers.
BenchRow::Side Worker(BenchSuite& suite, uint32_t flows, bool logs) {
  const auto make = [flows, logs]() -> absl::StatusOr<BenchCase> {
    auto made = LoneWorker::Make(*NfSpec::Parse(Chain(flows)), logs);
    if (!made.ok()) return made.status();
    const std::shared_ptr<LoneWorker> worker = *std::move(made);
    auto traffic =
        std::make_shared<MadeTraffic>(flows, *worker, worker->TakeBuffers());
    return BenchCase{.sample = [worker, traffic](uint64_t packets) {
      RunTraffic(*traffic, packets / 8);
      const int64_t before = worker->cpu_ns();
      const uint64_t done = RunTraffic(*traffic, packets);
      return static_cast<double>(worker->cpu_ns() - before) /
             static_cast<double>(done);
    }};
  };
  return {
      logs ? "a worker's turns with loggers" : "a worker's turns alone",
      suite.Add(fmt::format("worker {}{}", flows, logs ? " logs" : ""), make)};
}

void AddNfCore(const BenchSizes& sizes, BenchSuite& suite,
               std::vector<BenchRow>& rows) {
  const uint32_t flows = sizes.flows;
  rows.push_back({.number = 4,
                  .what = "million packets a second on the NF core",
                  .variant = InThousands(flows) + " flows",
                  .of = BenchRow::Of::kRate,
                  .must = {{.limit = 3, .is_least = true}},
                  .aim = {{.limit = 6, .is_least = true}},
                  .ours = Worker(suite, flows, false),
                  .base = Tables(suite, flows, false),
                  .notes = {"The floor's time includes parsing, the worker's "
                            "does not: the dispatcher parses."}});
}

void AddLogger(const BenchSizes& sizes, BenchSuite& suite,
               std::vector<BenchRow>& rows) {
  const uint32_t flows = sizes.flows;
  rows.push_back(
      {.number = 10,
       .what = "the NF core with loggers against without",
       .variant = InThousands(flows) + " flows",
       .must = {{1.15}},
       .aim = {{1.05}},
       .ours = Worker(suite, flows, true),
       .base = Worker(suite, flows, false),
       .notes = {
           "The loggers run on another thread; their time is not included."}});
}

void AddManyFlows(const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows) {
  const std::string variant = fmt::format(
      "{} against {}", InThousands(sizes.many_flows), InThousands(sizes.flows));
  rows.push_back({.number = 5,
                  .what = "whole path, many flows against few",
                  .variant = variant,
                  .must = {{2.5}},
                  .aim = {{1.8}},
                  .ours = Path(suite, sizes.many_flows),
                  .base = Path(suite, sizes.flows),
                  .notes = {"Many flows need more external addresses and "
                            "larger tables in the monitor."}});
  rows.push_back({.number = 5,
                  .what = "the chain inside a unit, the same",
                  .variant = variant,
                  .must = {{2.5}},
                  .aim = {{1.8}},
                  .ours = InUnit(suite, sizes.many_flows),
                  .base = InUnit(suite, sizes.flows)});
  rows.push_back({.number = 5,
                  .what = "whole path, five times as many flows",
                  .variant = fmt::format("{} against {}",
                                         InThousands(5 * sizes.many_flows),
                                         InThousands(sizes.flows)),
                  .ours = Path(suite, 5 * sizes.many_flows),
                  .base = Path(suite, sizes.flows)});
}

// --- Row 8 -------------------------------------------------------------------

// Measures the time of each single packet by the wall clock, which is read
// twice for it.
class Timed final : public BatchRunner {
 public:
  explicit Timed(std::unique_ptr<LoneUnit> unit) : unit_(std::move(unit)) {}
  void Run(BatchBuffers& buffers, std::span<const PacketMeta> metas) override {
    for (size_t i = 0; i < metas.size(); ++i) {
      const Instant begin = RealClock::Monotonic();
      if (unit_ != nullptr) {
        unit_->RunOne(buffers.pool(), buffers[i], metas[i]);
      }
      times.Record((RealClock::Monotonic() - begin).ns);
    }
  }
  Histogram times;

 private:
  std::unique_ptr<LoneUnit> unit_;
};

struct TimedNat {
  TimedNat(std::unique_ptr<LoneUnit> unit, uint32_t flows)
      : timed(std::move(unit)), traffic(flows, timed) {}
  void Sample(uint64_t packets) {
    RunTraffic(traffic, packets / 8);
    timed.times.Reset();
    RunTraffic(traffic, packets);
  }
  Timed timed;
  MadeTraffic traffic;
};

void AddNat(const BenchSizes& sizes, BenchSuite& suite,
            std::vector<BenchRow>& rows) {
  const uint32_t flows = sizes.flows;
  auto nat = std::make_shared<TimedNat>(
      std::make_unique<LoneUnit>(NfOf(Nat(flows)), flows), flows);
  auto nothing = std::make_shared<TimedNat>(nullptr, flows);
  const auto quantile = [&suite](const std::string& name,
                                 const std::shared_ptr<TimedNat>& of,
                                 uint32_t per_100000) {
    return suite.Add(name, [of, per_100000]() -> absl::StatusOr<BenchCase> {
      return BenchCase{.sample = [of, per_100000](uint64_t packets) {
        of->Sample(packets);
        return static_cast<double>(of->timed.times.Quantile(per_100000));
      }};
    });
  };
  const std::string read = "the two clock reads alone";
  BenchRow row = {
      .number = 8,
      .what = "NAT in a unit, state local, median",
      .variant = InThousands(flows) + " flows",
      .of = BenchRow::Of::kOurs,
      .must = {{250}},
      .aim = {{150}},
      .ours = {{"a packet", quantile("nat p50", nat, 50'000)}},
      .base = {{read, quantile("clock p50", nothing, 50'000)}},
      .notes = {"By the wall clock, packet by packet, so that nothing is "
                "prefetched; includes the two clock reads."}};
  rows.push_back(row);
  row.what = "NAT in a unit, state local, p99";
  row.must = {};
  row.aim = {{1'000}};
  row.ours = {{"a packet", quantile("nat p99", nat, 99'000)}};
  row.base = {{read, quantile("clock p99", nothing, 99'000)}};
  row.notes = {};
  rows.push_back(row);
}

// --- Row 9 -------------------------------------------------------------------

constexpr int64_t kLowLoadPps = 20'000;

// The median of what a cell takes to another thread, which sends it back, and
// back; both spin. In nanoseconds of the wall clock, which bounds it as well.
double RoundTrip(uint64_t times) {
  constexpr uint32_t kCells = 16;
  struct alignas(128) Memory {
    std::array<std::byte, CellRing::BytesFor(kCells)> bytes{};
  };
  auto there = std::make_unique<Memory>();
  auto back = std::make_unique<Memory>();
  SNF_CHECK(CellRing::Format(there->bytes, kCells).ok());
  SNF_CHECK(CellRing::Format(back->bytes, kCells).ok());
  auto send = *CellRing::Producer::Attach(there->bytes, nullptr);
  auto receive = *CellRing::Consumer::Attach(back->bytes);
  std::atomic<bool> over = false;
  std::thread echo([&there, &back, &over] {
    auto in = *CellRing::Consumer::Attach(there->bytes);
    auto out = *CellRing::Producer::Attach(back->bytes, nullptr);
    Cell cell;
    while (!over.load(std::memory_order_relaxed)) {
      if (in.Pop({&cell, 1}) == 1) out.Push({&cell, 1});
    }
  });
  Histogram trips;
  Cell cell{};
  const Instant begin = RealClock::Monotonic();
  Instant now = begin;
  for (uint64_t i = 0; i < times && now - begin < Milliseconds(500); ++i) {
    send.Push({&cell, 1});
    while (receive.Pop({&cell, 1}) == 0) {
    }
    const Instant after = RealClock::Monotonic();
    trips.Record((after - now).ns);
    now = after;
  }
  over = true;
  echo.join();
  return static_cast<double>(trips.Quantile(50'000));
}

// Makes all threads spin far longer than the packets' gap, as with --busy_poll.
class LongSpins {
 public:
  LongSpins() { Doorbell::set_spins(20 * Doorbell::kSpins); }
  LongSpins(const LongSpins&) = delete;
  LongSpins& operator=(const LongSpins&) = delete;
  ~LongSpins() { Doorbell::ResetSpins(); }
};

void AddLatency(const BenchSizes& sizes, BenchSuite& suite,
                std::vector<BenchRow>& rows) {
  const uint32_t packets = sizes.latency_packets;
  auto result = std::make_shared<absl::Status>();
  const auto make = [packets, result]() -> absl::StatusOr<BenchCase> {
    return BenchCase{
        .sample =
            [packets, result](uint64_t) {
              const LongSpins spins;
              auto chain = DrivenChain::Start(
                  {.nf = Chain(100),
                   .flows = 100,
                   .threads = 2,
                   .speed = {.kind = Speed::Kind::kPackets,
                             .value = kLowLoadPps},
                   .flowlet_timeout = ControllerOptions{}.flowlet_timeout});
              SNF_CHECK(chain.ok());
              (*chain)->Offer(packets);
              const RunResult run = (*chain)->Finish();
              result->Update(DrivenChain::Check(run));
              return static_cast<double>(run.latency_ns.Quantile(50'000));
            },
        .check = [result] { return *result; }};
  };
  rows.push_back(
      {.number = 9,
       .what = "ingress to egress, low load, p50",
       .variant = fmt::format("{} packets/s", FormatCount(kLowLoadPps)),
       .of = BenchRow::Of::kOurs,
       .must = {{5'000}},
       .aim = {{1'200}},
       .ours = {{"the chain, two threads", suite.Add("latency", make)}},
       .base = {{"a cell there and back, two threads",
                 suite.Add("round trip",
                           [packets]() -> absl::StatusOr<BenchCase> {
                             return BenchCase{.sample = [packets](uint64_t) {
                               return RoundTrip(packets);
                             }};
                           })}},
       .notes = {
           "By the wall clock, from when a packet was due; threads spin for "
           "longer than the 50 µs between packets, as with --busy_poll."}});
}

}  // namespace

void AddChainRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows) {
  switch (number) {
    case 1:
      return AddWholePath(sizes, suite, rows);
    case 2:
      return AddInUnit(sizes, suite, rows);
    case 3:
      return AddPassThrough(sizes, suite, rows);
    case 4:
      return AddNfCore(sizes, suite, rows);
    case 5:
      return AddManyFlows(sizes, suite, rows);
    case 8:
      return AddNat(sizes, suite, rows);
    case 9:
      return AddLatency(sizes, suite, rows);
    case 10:
      return AddLogger(sizes, suite, rows);
    case 18:
      return AddCapture(sizes, suite, rows);
    case 19:
      return AddFlowletBegin(sizes, suite, rows);
    default:
      SNF_CHECK(false);
  }
}

}  // namespace snf
