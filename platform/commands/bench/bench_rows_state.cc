// SPDX-License-Identifier: Apache-2.0
//
// Rows 14 and 17: what state costs an NF, and how much memory a flow takes.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/histogram.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/fixture_parse_lookup.h"
#include "controller/core/fixture_filled_controller.h"
#include "platform/commands/bench/bench_redis.h"
#include "platform/commands/bench/bench_rows.h"
#include "runtime/core/fixture_filled_unit.h"
#include "runtime/logger/fixture_filled_logger.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/no_services.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;

// --- Row 14 ------------------------------------------------------------------

constexpr size_t kRecordBytes = 96;  // as of a chain, with its header

// Counts packets: a get and a put each.
class CountingNf final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState& flow) override {
    Count(flow);
    return Verdict::forward();
  }
  void Count(FlowState& flow) { flow.put(count_, flow.get(count_) + 1); }

 private:
  Slot<uint64_t> count_ = declare<uint64_t>("count");
};

// Half of what a get and a put take, with the view that is made for a packet.
absl::StatusOr<BenchCase> MakeLocal() {
  constexpr size_t kFlows = 1'024;
  struct Flows {
    CountingNf nf;
    size_t bytes = nf.schema().record_bytes();
    std::vector<std::byte> records = std::vector<std::byte>(kFlows * bytes);
  };
  auto flows = std::make_shared<Flows>();
  return BenchCase{.sample = [flows](uint64_t operations) {
    return CpuNsOf(operations, [&](uint64_t n) {
      NoServices services;
      uint64_t done = 0;
      for (size_t i = 0; done < n; done += 2, i = (i + 1) % kFlows) {
        StateView view(
            std::span(flows->records).subspan(i * flows->bytes, flows->bytes));
        FlowState flow(FlowId{1}, Instant{}, Instant::max(), view, services);
        flows->nf.Count(flow);
        asm volatile("" : : "r"(&view) : "memory");
      }
      return done;
    });
  }};
}

// Half of what a GET and a SET take, by the wall clock.
absl::StatusOr<BenchCase> MakeRedis() {
  auto started = BenchRedis::Start();
  if (!started.ok()) return started.status();
  const std::shared_ptr<BenchRedis> redis = *std::move(started);
  auto status = std::make_shared<absl::Status>(redis->Put("flow", "00000000"));
  return BenchCase{
      .sample =
          [redis, status](uint64_t operations) {
            const uint64_t pairs = operations / 100 + 1;
            const Instant begin = RealClock::Monotonic();
            for (uint64_t i = 0; i < pairs; ++i) {
              const auto value = redis->Get("flow");
              status->Update(value.status());
              status->Update(redis->Put("flow", value.value_or("")));
            }
            return static_cast<double>((RealClock::Monotonic() - begin).ns) /
                   static_cast<double>(2 * pairs);
          },
      .check = [status] { return *status; }};
}

// Measures round trips of a GET and a SET of a record; the sample is one
// quantile: the parameters of the model of an external store (StoreOptions).
BenchSuite::Make RoundTripOf(uint32_t per_100000) {
  return [per_100000]() -> absl::StatusOr<BenchCase> {
    auto started = BenchRedis::Start();
    if (!started.ok()) return started.status();
    const std::shared_ptr<BenchRedis> redis = *std::move(started);
    auto status = std::make_shared<absl::Status>(redis->Put("flow", ""));
    const std::string record(kRecordBytes, 'x');
    return BenchCase{
        .sample =
            [=](uint64_t operations) {
              Histogram trips;
              for (uint64_t i = 0; i < operations / 100 + 1; ++i) {
                const Instant begin = RealClock::Monotonic();
                status->Update(redis->Put("flow", record));
                const Instant middle = RealClock::Monotonic();
                status->Update(redis->Get("flow").status());
                trips.Record((middle - begin).ns);
                trips.Record((RealClock::Monotonic() - middle).ns);
              }
              return static_cast<double>(trips.Quantile(per_100000));
            },
        .check = [status] { return *status; }};
  };
}

// The time that a request takes the server, which is busy all the time.
absl::StatusOr<BenchCase> MakeRedisOperation() {
  constexpr uint32_t kAtOnce = 1'000;
  auto started = BenchRedis::Start();
  if (!started.ok()) return started.status();
  const std::shared_ptr<BenchRedis> redis = *std::move(started);
  auto status = std::make_shared<absl::Status>();
  const std::string record(kRecordBytes, 'x');
  return BenchCase{
      .sample =
          [=](uint64_t operations) {
            const uint64_t rounds = operations / (10 * kAtOnce) + 1;
            const Instant begin = RealClock::Monotonic();
            for (uint64_t i = 0; i < rounds; ++i) {
              status->Update(redis->PutMany("flow", record, kAtOnce));
            }
            return static_cast<double>((RealClock::Monotonic() - begin).ns) /
                   static_cast<double>(rounds * kAtOnce);
          },
      .check = [status] { return *status; }};
}

BenchRow LocalState(BenchSuite& suite) {
  std::vector<BenchRow::Side> model;
  const std::pair<const char*, uint32_t> quantiles[] = {{"least", 0},
                                                        {"p50", 50'000},
                                                        {"p90", 90'000},
                                                        {"p99", 99'000},
                                                        {"p99.9", 99'900}};
  for (const auto& [name, per_100000] : quantiles) {
    const std::string what = fmt::format("round trip, {}", name);
    model.push_back({what, suite.Add(what, RoundTripOf(per_100000))});
  }
  model.push_back({"request of a busy server",
                   suite.Add("redis operation", MakeRedisOperation)});
  return {.number = 14,
          .what = "Redis round trip against local get or put",
          .of = BenchRow::Of::kInverseRatio,
          .must = {{.limit = 100, .is_least = true}},
          .aim = {{.limit = 400, .is_least = true}},
          .ours = {{"get or put", suite.Add("local state", MakeLocal)}},
          .base = {{"Redis, unix socket, wall clock",
                    suite.Add("redis", MakeRedis)}},
          .beside = std::move(model),
          .notes = {"The round trips and the request, of records of 96 bytes, "
                    "are what --store of snf replay takes as round_trips and "
                    "operation."}};
}

// --- Row 17 ------------------------------------------------------------------

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
}

// By how much making it adds to the memory of this process.
template <typename Make>
BenchSuite::Make MemoryOf(uint32_t flows, const Make& make) {
  return [flows, make]() -> absl::StatusOr<BenchCase> {
    if (ResidentBytes() <= 0) {
      return absl::UnavailableError("no /proc/self/statm");
    }
    return BenchCase{.sample = [flows, make](uint64_t) {
      malloc_trim(0);
      const double before = ResidentBytes();
      const auto made = make(flows);
      return (ResidentBytes() - before) / flows;
    }};
  };
}

void AddMemory(const BenchSizes& sizes, BenchSuite& suite,
               std::vector<BenchRow>& rows) {
  // Makes freed memory go back to the system, so that its reuse is visible.
  mallopt(M_MMAP_THRESHOLD, 1 << 17);
  const uint32_t flows = sizes.memory_flows;
  const auto floor = MemoryOf(flows, [](uint32_t count) {
    auto made = std::make_unique<ParseLookupFloor>(count);
    for (uint32_t i = 0; i < count; ++i) {
      const MadeConnection of = MadeConnection::Number(i);
      const MadeFrame frame = MakeFrame(of.protocol, of.inside, of.far);
      made->One(LinkType::kEthernet, std::span(frame).first(kMadeBytes), 1);
    }
    return made;
  });
  const BenchRow::Side base = {"parse + lookup's table",
                               suite.Add("memory of floor", floor), "B"};
  const auto add = [&](const std::string& what, const std::string& name,
                       const BenchSuite::Make& make, const std::string& note,
                       double must) {
    rows.push_back({.number = 17,
                    .what = "memory a flow, " + what,
                    .variant = InThousands(flows) + " flows",
                    .of = BenchRow::Of::kOurs,
                    .must = {{must}},
                    .ours = {{what, suite.Add(name, make), "B"}},
                    .base = base,
                    .notes = {note}});
  };
  add("controller", "memory of controller",
      MemoryOf(flows,
               [](uint32_t count) {
                 return std::make_unique<FilledController>(count, false);
               }),
      "IPv6 flows that have moved, with 3 replicas.", 128);
  add("unit", "memory of unit",
      MemoryOf(
          flows,
          [](uint32_t count) { return std::make_unique<FilledUnit>(count); }),
      "Without its state; replicas named, a timer armed.", 128);
  add("logger", "memory of logger",
      MemoryOf(
          flows,
          [](uint32_t count) { return std::make_unique<FilledLogger>(count); }),
      "Without its state; a timer armed.", 64);
}

}  // namespace

void AddStateRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows) {
  if (number == 14) {
    rows.push_back(LocalState(suite));
    return;
  }
  SNF_CHECK(number == 17);
  AddMemory(sizes, suite, rows);
}

}  // namespace snf
