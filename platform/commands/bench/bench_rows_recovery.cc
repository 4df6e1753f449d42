// SPDX-License-Identifier: Apache-2.0
//
// Row 13: how long flows stand still when the process of their unit is killed,
// without and with states in memory of the host.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/histogram.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/fixture_driven_chain.h"
#include "platform/commands/bench/fixture_one_cpu.h"
#include "platform/run/run_events.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;

// Two threads that wake each other, each from its sleep in a futex, on CPUs of
// their own if there are several.
class PingPong {
 public:
  PingPong() : other_([this] { Answer(); }) {}
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;
  ~PingPong() {
    ends_ = true;
    Ask();
    other_.join();
  }

  // Returns how long it takes until the other has answered.
  Nanos RoundTrip() {
    const Instant begin = RealClock::Monotonic();
    Ask();
    while (!here_.Wait([this] { return answered_ == asked_; }, Seconds(1), 0)) {
    }
    return RealClock::Monotonic() - begin;
  }

 private:
  void Ask() {
    ++asked_;
    there_.Ring();
  }
  void Answer() {
    const OneCpu last(true);
    while (!ends_) {
      if (!there_.Wait([this] { return answered_ != asked_; }, Seconds(1), 0)) {
        continue;
      }
      answered_ = asked_.load();
      here_.Ring();
    }
  }

  Doorbell here_;
  Doorbell there_;
  std::atomic<uint64_t> asked_ = 0;
  std::atomic<uint64_t> answered_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread other_;
};

absl::StatusOr<BenchCase> MakeRoundTrips() {
  return BenchCase{.sample = [](uint64_t operations) {
    PingPong pair;
    const OneCpu first(false);
    Histogram times;
    for (uint64_t i = 0; i < operations / 200 + 10; ++i) {
      times.Record(std::max<int64_t>(pair.RoundTrip().ns, 1));
    }
    return static_cast<double>(times.Quantile(50'000));
  }};
}

// Sees when flows of a unit that failed have run on its states at others.
class Recovered final : public RunObserver {
 public:
  void on_unit_down(Instant now, UnitId /*unit*/) override {
    if (!last_.has_value()) seen_ = now;
  }
  void on_run(Instant now, const PacketMeta& meta) override {
    if (meta.source_kind != StateSource::kLogger) return;
    last_ = now;
  }
  // Returns the time from when the death was seen until the last flow ran; 0 if
  // the unit had no flow.
  Nanos took() const { return last_.value_or(seen_) - seen_; }

 private:
  Instant seen_;
  std::optional<Instant> last_;
};

// Runs in real time, each with one process of units that is killed.
class KilledRuns {
 public:
  // By default flowlets do not end; else flows are idle between packets, and
  // units may show their states.
  struct Options {
    Nanos flowlet_timeout = Seconds(3'600);
    bool host_state = false;
  };
  // Times of one death, in ns.
  struct Times {
    double until_seen;   // from the kill until the controller knows
    double until_moved;  // from then until its flows are with other units
    double until_run;    // … until all of them have run there; 0: no flows
  };

  KilledRuns() = default;
  explicit KilledRuns(const Options& options) : options_(options) {}

  // Makes a run; returns nothing if this run or an earlier one failed.
  std::optional<Times> Run() {
    if (!status_.ok()) return std::nullopt;  // the first failure is told
    Recovered recovered;
    auto chain = DrivenChain::Start(
        {.nf = "nat(ip=203.0.113.1)",
         .flows = kFlows,
         .threads = 4,  // of them two processes
         .speed = {.kind = Speed::Kind::kPackets, .value = kPacketsPerSecond},
         .flowlet_timeout = options_.flowlet_timeout,
         .killed_at = kKilledAt,
         .host_state = options_.host_state,
         .observer = &recovered,
         .seed = ++seed_});
    if (!chain.ok()) {
      status_ = chain.status();
      return std::nullopt;
    }
    (*chain)->Offer(kPackets);
    const RunResult result = (*chain)->Finish();
    status_ = DrivenChain::Check(result);
    if (!status_.ok()) return std::nullopt;
    const FaultFigures& faults = result.faults;
    if (faults.recovery_ns.count() != 1 || faults.detection_ns.count() != 1) {
      status_ = absl::InternalError(
          fmt::format("of one kill, {} deaths were seen and {} recovered from",
                      faults.detection_ns.count(), faults.recovery_ns.count()));
      return std::nullopt;
    }
    const int64_t seen = faults.detection_ns.max();
    return Times{
        .until_seen = static_cast<double>(seen),
        .until_moved = static_cast<double>(faults.recovery_ns.max() - seen),
        .until_run = static_cast<double>(recovered.took().ns)};
  }
  const absl::Status& status() const { return status_; }

 private:
  static constexpr uint32_t kFlows = 200;
  static constexpr int64_t kPacketsPerSecond = 100'000;
  static constexpr uint64_t kPackets = 8'000;
  static constexpr Nanos kKilledAt = Milliseconds(30);

  const Options options_;
  uint64_t seed_ = 0;
  absl::Status status_;
};

// The medians of some deaths.
struct Deaths {
  KilledRuns runs;
  double until_seen = 0;

  double UntilMoved(uint64_t operations) {
    std::vector<double> seen;
    std::vector<double> moved;
    const uint64_t deaths = operations / 25'000 + 1;
    while (moved.size() < deaths) {
      const auto times = runs.Run();
      if (!times.has_value()) return 0;
      seen.push_back(times->until_seen);
      moved.push_back(times->until_moved);
    }
    until_seen = SpreadOf(std::move(seen)).median;
    return SpreadOf(std::move(moved)).median;
  }
  double UntilRun(uint64_t operations) {
    std::vector<double> run;
    const uint64_t deaths = operations / 25'000 + 1;
    // A unit that died may have had no flow.
    for (uint64_t tries = 0; run.size() < deaths; ++tries) {
      const auto times = tries < 10 * deaths ? runs.Run() : std::nullopt;
      if (!times.has_value()) return 0;
      if (times->until_run > 0) run.push_back(times->until_run);
    }
    return SpreadOf(std::move(run)).median;
  }
};

// Adds how long it takes until idle flows have run at other units.
size_t AddIdleFlows(const char* name, bool host_state, BenchSuite& suite) {
  const auto deaths = std::make_shared<Deaths>(
      Deaths{.runs = KilledRuns({.flowlet_timeout = Microseconds(500),
                                 .host_state = host_state})});
  return suite.Add(name, [deaths]() -> absl::StatusOr<BenchCase> {
    return BenchCase{.sample =
                         [deaths](uint64_t operations) {
                           return deaths->UntilRun(operations);
                         },
                     .check = [deaths] { return deaths->runs.status(); }};
  });
}

}  // namespace

void AddRecoveryRows(int number, BenchSuite& suite,
                     std::vector<BenchRow>& rows) {
  SNF_CHECK(number == 13);
  const auto deaths = std::make_shared<Deaths>();
  const auto check = [deaths] { return deaths->runs.status(); };
  const size_t moved = suite.Add(
      "recovery, until flows are moved", [&]() -> absl::StatusOr<BenchCase> {
        return BenchCase{.sample =
                             [deaths](uint64_t operations) {
                               return deaths->UntilMoved(operations);
                             },
                         .check = check};
      });
  // Times of the same deaths.
  const size_t seen =
      suite.Add("recovery, until seen", [&]() -> absl::StatusOr<BenchCase> {
        return BenchCase{.sample = [deaths](uint64_t operations) {
          if (deaths->until_seen == 0) deaths->UntilMoved(operations);
          return deaths->until_seen;
        }};
      });
  const size_t pulled =
      AddIdleFlows("recovery, states of loggers", false, suite);
  const size_t in_place =
      AddIdleFlows("recovery, states of the host", true, suite);
  const size_t round_trip = suite.Add("futex round trip", MakeRoundTrips);
  rows.push_back({.number = 13,
                  .what = "recovery from kill -9 of a unit against a futex "
                          "round trip",
                  .must = {{.limit = 10}},
                  .aim = {{.limit = 10}},
                  .aim_ours = 60'000,
                  .ours = {{"recovery, once the death is seen", moved}},
                  .base = {{"futex round trip", round_trip}},
                  .beside = {{"until the death is seen", seen},
                             {"until idle flows have run", pulled},
                             {"the same with --host_state", in_place}},
                  .notes = {"By the wall clock, medians: a NAT with output "
                            "loggers, in processes, under 100,000 packets/s of "
                            "200 connections. A death is seen when the kernel "
                            "has taken the process's memory down. Idle flows "
                            "have flowlets of 500 us; their time ends when all "
                            "of them have run at another unit."}});
}

}  // namespace snf
