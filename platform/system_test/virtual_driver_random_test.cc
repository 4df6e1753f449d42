// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "nlohmann/json.hpp"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/report/report.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"

// Random schedules. A failure names its seed, which SNF_TEST_SEED=n runs alone,
// and if it can be said in flags, one line of `snf replay` that runs the same.
// SNF_LONG_TESTS=1 runs 50 times as many.
namespace snf {
namespace {

// Sums over schedules, by name.
using Totals = std::map<std::string_view, uint64_t>;

void AddState(const StateFigures& state, Totals& totals) {
  totals["seamless"] += state.seamless;
  totals["pulled"] += state.pulled;
  totals["pushes"] += state.pushes;
  totals["pulls answered"] += state.answers;
  totals["tombstones"] += state.tombstones;
  totals["null packets"] += state.null_packets;
  totals["messages lost"] += state.messages_lost;
  totals["messages that came twice"] += state.messages_duplicated;
  totals["messages repeated"] +=
      state.units.pulls_repeated + state.units.takeovers_repeated;
  totals["replicas taken"] += state.units.replicas_taken;
  totals["replicas evicted"] += state.units.replicas_evicted;
  totals["replicas expired"] += state.units.replicas_expired;
  totals["stale pushes"] +=
      state.units.refused[static_cast<size_t>(StateRefusal::kStale)];
}

void Add(const Schedule& schedule, const Outcome& outcome, Totals& totals) {
  const RunResult& run = outcome.run;
  const ControllerOptions& c = schedule.options.controller;
  ++totals["schedules"];
  totals["of captures"] += schedule.is_synthetic ? 0 : 1;
  totals["of replicas"] += c.replicas > 0 ? 1 : 0;
  totals["of chaos"] += schedule.options.chaos.any() ? 1 : 0;
  totals["packets"] += run.packets_in;
  totals["released"] += run.packets_released;
  totals["flows"] += run.controller.flows;
  totals["flowlets"] += run.controller.flowlets;
  totals["moves"] += run.controller.flowlets_moved;
  totals["overcommitted"] += run.controller.overcommitted;
  totals["cold starts"] += run.cold_starts;
  totals["warm starts"] += run.warm_starts;
  // Stopped in the end: those of the start, less cold starts, plus these.
  totals["scale-ins"] +=
      run.cold_starts + outcome.units_stopped - (c.max_units - c.warm_units);
  totals["scale-ins with flows left"] += run.controller.evacuations;
  totals["generated"] += run.packets_generated;
  totals["consumed"] += run.packets_consumed;
  totals["passed through"] += run.packets_passed_through;
  totals["late"] += run.late_packets;
  for (const uint64_t n : run.nf_dropped) totals["dropped by the nf"] += n;
  for (size_t i = 0; i < kDropReasons; ++i) {
    totals[ToString(static_cast<DropReason>(i))] += run.dropped[i];
  }
  AddState(run.state, totals);
}

// Counts what the figures of a run do not.
class CountingObserver final : public RunObserver {
 public:
  explicit CountingObserver(Totals& totals)
      : tooks_(totals["takeovers"]), held_(totals["held packets"]) {}
  void on_takeover(Instant, UnitId told, const Takeover& takeover) override {
    EXPECT_NE(told, takeover.taker);
    ++tooks_;
  }
  void on_service_begin(Instant, UnitId, const PacketMeta&,
                        Nanos wait) override {
    held_ += wait.ns > 0 ? 1 : 0;
  }

 private:
  uint64_t& tooks_;
  uint64_t& held_;
};

// Forwarded packets leave in the order in which they came, each flow for
// itself; only a flow that ended and began anew may overtake its own past.
void ExpectOrder(const Outcome& outcome) {
  std::map<std::pair<uint32_t, std::byte>, uint32_t> next;
  for (const ReleasedFrame& frame : outcome.released) {
    if (!IsUdpFrame(frame.bytes)) continue;
    const std::byte first_of_source = frame.bytes[26];
    uint32_t& least = next[{FlowOf(frame.bytes), first_of_source}];
    ASSERT_GE(SequenceOf(frame.bytes), least);
    least = SequenceOf(frame.bytes) + 1;
  }
}

// The same on one unit that has room for everything, and whose state therefore
// never moves.
RunResult RunOnOneUnit(const Schedule& schedule) {
  RunOptions big = schedule.options;
  big.controller.max_units = 1;
  big.controller.unit_capacity_bps = 1'000'000'000'000;
  big.controller.unit_queue_packets = 1024;
  big.controller.start_buffer_packets = 1024;
  big.controller.max_flows = 1024;
  big.buffers = {.small = 2048, .medium = 1024, .large = 512};
  // While the only unit is being stopped there is none.
  big.controller.keep_warm = Nanos::max();
  return RunFrames(big, *schedule.nf, schedule.packets).run;
}

void CompareWithOneUnit(const Schedule& schedule, const RunResult& run,
                        Totals& totals) {
  const RunResult reference = RunOnOneUnit(schedule);
  ASSERT_EQ(reference.controller.flowlets_moved, 0u);
  // A flow ends at the first timer of the controller after its timeout, and
  // these follow the units. A packet that comes between the two belongs to
  // either flow.
  if (reference.controller.flows != run.controller.flows) {
    ++totals["incomparable"];
    return;
  }
  EXPECT_EQ(reference.packets_in + reference.packets_generated,
            run.packets_in + run.packets_generated);
  EXPECT_EQ(reference.dropped, run.dropped);
  EXPECT_EQ(reference.nf_dropped, run.nf_dropped);
  EXPECT_EQ(reference.digest, run.digest);
  ++totals["compared with one big unit"];
  const bool stateless = schedule.nf->create()->schema().slots() == 0;
  totals["compared, with state"] += stateless ? 0 : 1;
  totals["compared, moves"] += run.controller.flowlets_moved;
  totals["compared, messages lost"] += run.state.messages_lost;
  totals["compared, null packets"] += run.state.null_packets;
}

// What the NF makes of a flow does not depend on time, and so not on units.
bool IsTimeless(const NfRegistration& nf) {
  return &nf != &ChronicleNf() && &nf != &ScriptedNf() && &nf != &KeepaliveNf();
}

void RunOne(const Schedule& schedule, Rng& rng, Totals& totals) {
  const auto& [options, policy, nf, packets, is_synthetic] = schedule;
  CountingObserver observer(totals);
  const Outcome outcome = RunFrames(options, *nf, packets, policy, &observer);
  const RunResult& run = outcome.run;
  ExpectSound(outcome);
  ASSERT_EQ(run.packets_in, packets.size());
  EXPECT_EQ(outcome.flows_at_units, outcome.flows_with_a_unit);
  if (options.controller.flow_timeout != Nanos::max()) {
    EXPECT_EQ(outcome.flows_at_controller, 0u);
    EXPECT_EQ(outcome.replicas_at_units, 0u);
    EXPECT_EQ(run.controller.flows, run.controller.flows_ended);
  } else if (is_synthetic) {
    ExpectOrder(outcome);
  }
  Add(schedule, outcome, totals);
  if (rng.Chance(16'384)) {
    RunOptions unchecked = options;
    unchecked.check = rng.Chance(32'768);
    ExpectSame(run, RunFrames(unchecked, *nf, packets, policy).run);
    ++totals["run again"];
  }
  uint64_t lost = 0;
  for (const uint64_t n : run.dropped) lost += n;
  if (lost == 0 && IsTimeless(*nf)) CompareWithOneUnit(schedule, run, totals);
}

// Where a test writes the capture of a schedule.
std::string CaptureOf(uint64_t seed) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}snf-{}-{}.pcapng", testing::TempDir(), test->name(),
                     seed);
}

std::string WriteReplayLine(const Schedule& schedule, uint64_t seed) {
  const std::string file = CaptureOf(seed);
  const absl::Status written = WriteFrames(file, schedule.packets);
  return written.ok() ? ReplayLine(schedule, file) : written.ToString();
}

// A failed check ends the program, and a run without end is ended so too.
constexpr uint32_t kMostSecondsOfARun = 120;
std::function<std::string()> how_to_run_again;
void on_abort(int signal) {
  std::cerr << how_to_run_again() << "\n";
  if (signal == SIGALRM) std::cerr << "it does not come to an end\n";
  std::_Exit(1);
}

using AnyOne = std::function<Schedule(Rng&)>;
// A sum, and the least that a run of the CI must reach.
using Floor = std::pair<std::string_view, uint64_t>;

class VirtualDriverRandom : public testing::Test {
 protected:
  // Tables come from the system, untouched, instead of being zeroed for each
  // schedule: four times as fast.
  static void SetUpTestSuite() { mallopt(M_MMAP_THRESHOLD, 1 << 17); }

  enum class As : uint8_t { kReplayLine, kSeedAlone };

  void RunSeeds(uint64_t count, As as, const AnyOne& any,
                std::span<const Floor> floors) {
    const TestSeeds seeds(count, 50 * count);
    Totals totals;
    for (const uint64_t seed : seeds.all()) {
      Rng rng(seed);
      const Schedule schedule = any(rng);
      how_to_run_again = [&] {
        std::string how = TestSeeds::Name(seed);
        if (as == As::kReplayLine) {
          how += " is\n  " + WriteReplayLine(schedule, seed);
        }
        return how;
      };
      std::signal(SIGABRT, on_abort);
      std::signal(SIGALRM, on_abort);
      alarm(kMostSecondsOfARun);
      RunOne(schedule, rng, totals);
      alarm(0);
      std::signal(SIGABRT, SIG_DFL);
      if (HasFailure()) FAIL() << how_to_run_again();
      if (seeds.is_chosen) std::cout << how_to_run_again() << "\n";
    }
    std::cout << fmt::format("seeds {} to {}\n", seeds.first, seeds.last);
    for (const auto& [name, least] : floors) {
      std::cout << fmt::format("  {:28}{:>12}{:>12}\n", name, totals[name],
                               fmt::format("≥ {}", least));
      if (seeds.is_part) continue;
      EXPECT_GE(totals[name], least) << name;
    }
    EXPECT_LE(totals["incomparable"],
              totals["compared with one big unit"] / 100);
    // No controller gives a clock twice, and no frame here is too large.
    EXPECT_EQ(totals["duplicate_clock"] + totals["packet_too_large"], 0u);
  }
};

const std::vector<OfferedFrame>& BundledCapture() {
  static const auto* const packets =
      new auto(ReadFrames("traces/small.pcap.zst"));
  return packets->value();
}

Schedule AnyBundledOrSynthetic(Rng& rng) {
  return rng.Chance(16'384) ? AnySchedule(rng, BundledCapture())
                            : AnySchedule(rng);
}

TEST_F(VirtualDriverRandom, HoldsItsPromisesOnAnySchedule) {
  constexpr Floor kFloors[] = {
      {"schedules", 1'000},
      {"of captures", 120},
      {"of replicas", 390},
      {"of chaos", 230},
      {"packets", 100'000},
      {"released", 82'000},
      {"flows", 19'000},
      {"flowlets", 49'000},
      {"moves", 5'300},
      {"seamless", 420},
      {"pulled", 4'900},
      {"held packets", 17'000},
      {"pushes", 20'000},
      {"replicas taken", 16'000},
      {"replicas evicted", 3'000},
      {"replicas expired", 3'300},
      {"stale pushes", 8'500},
      {"pulls answered", 18'000},
      {"takeovers", 22'000},
      {"messages lost", 11'000},
      {"messages that came twice", 8'400},
      {"messages repeated", 23'000},
      {"tombstones", 610},
      {"overcommitted", 11'000},
      {"cold starts", 4'500},
      {"warm starts", 4'600},
      {"scale-ins", 6'400},
      {"scale-ins with flows left", 1'800},
      {"null packets", 7'800},
      {"passed through", 1'900},
      {"late", 2'000},
      {"compared with one big unit", 320},
      {"compared, with state", 240},
      {"compared, moves", 4'200},
      {"compared, messages lost", 8'500},
      {"compared, null packets", 6'400},
      {"run again", 110},
      {"unit_queue_full", 5'600},
      {"start_buffer_full", 3'700},
      {"flow_table_full", 7'800},
      {"hold_overflow", 610},
  };
  RunSeeds(1'000, As::kReplayLine, AnyBundledOrSynthetic, kFloors);
}

TEST_F(VirtualDriverRandom, HoldsItsPromisesWhateverAnNfDoes) {
  constexpr Floor kFloors[] = {
      {"schedules", 500},
      {"moves", 2'100},
      {"pulled", 1'900},
      {"held packets", 7'200},
      {"stale pushes", 4'500},
      {"replicas evicted", 1'200},
      {"tombstones", 150},
      {"scale-ins", 3'700},
      {"scale-ins with flows left", 1'000},
      {"generated", 32'000},
      {"consumed", 950},
      {"dropped by the nf", 1'800},
      {"compared with one big unit", 85},
      {"compared, with state", 61},
      {"compared, moves", 910},
      {"run again", 68},
      {"buffer_pool_empty", 1'700},
  };
  RunSeeds(500, As::kSeedAlone, AnyScheduleOfAsks, kFloors);
}

// Small ones of captures that are not part of the project.
std::vector<std::vector<OfferedFrame>> SharedCaptures() {
  constexpr uint64_t kMostBytes = 1'000'000;
  const char* const named = std::getenv("SNF_TRACES");
  std::error_code none;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           named != nullptr ? named : "../shared/traces", none)) {
    if (entry.path().extension() == ".pcap" &&
        entry.file_size() <= kMostBytes) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::vector<std::vector<OfferedFrame>> captures;
  for (const std::filesystem::path& file : files) {
    auto packets = ReadFrames(file);
    EXPECT_TRUE(packets.ok()) << packets.status();
    if (packets.ok()) captures.push_back(std::move(*packets));
  }
  return captures;
}

TEST_F(VirtualDriverRandom, HoldsItsPromisesOnOtherCaptures) {
  const std::vector<std::vector<OfferedFrame>> captures = SharedCaptures();
  if (captures.empty()) {
    GTEST_SKIP() << "no *.pcap in ../shared/traces: the real captures are not "
                    "here; name their folder with SNF_TRACES";
  }
  constexpr Floor kFloors[] = {
      {"schedules", 300},
      {"of captures", 150},
      {"packets", 15'000},
      {"flows", 5'300},
      {"moves", 1'000},
      {"seamless", 60},
      {"pulled", 800},
      {"held packets", 6'300},
      {"stale pushes", 2'700},
      {"replicas evicted", 120},
      {"scale-ins", 1'500},
      {"scale-ins with flows left", 320},
      {"passed through", 74},
      {"compared with one big unit", 130},
      {"compared, with state", 100},
      {"compared, moves", 990},
      {"run again", 35},
  };
  const auto any = [&captures](Rng& rng) {
    return AnySchedule(rng, captures[rng.Below(captures.size())]);
  };
  RunSeeds(300, As::kReplayLine, any, kFloors);
}

// Without what the command line adds.
nlohmann::json FiguresOf(const std::string& report) {
  nlohmann::json json = nlohmann::json::parse(report);
  for (const char* key : {"flags", "warnings", "version", "elapsed_s"}) {
    json.erase(key);
  }
  return json;
}

TEST_F(VirtualDriverRandom, IsReproducedByTheLineThatAFailurePrints) {
  constexpr uint64_t kSeeds = 100;
  constexpr std::string_view kProgram = "./snf";
  Totals totals;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Rng rng(seed);
    const Schedule schedule = AnyBundledOrSynthetic(rng);
    const std::string line = WriteReplayLine(schedule, seed);
    SCOPED_TRACE(line);
    ASSERT_TRUE(line.starts_with(kProgram)) << line;
    const std::string file = CaptureOf(seed);
    const std::string report = file + ".json";
    const std::string command =
        fmt::format("'{}'{} --quiet --json='{}' >/dev/null", SNF_PROGRAM,
                    line.substr(kProgram.size()), report);
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream in(report);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const Outcome outcome = RunFrames(schedule.options, *schedule.nf,
                                      schedule.packets, schedule.policy);
    Add(schedule, outcome, totals);
    const RunInfo info = {.version = "",
                          .seed = schedule.options.controller.seed,
                          .nf = std::string(schedule.nf->name),
                          .policy = std::string(schedule.policy),
                          .files = {file},
                          .flags = {},
                          .warnings = {}};
    const std::string direct = JsonReport(schedule.options, outcome.run, info);
    EXPECT_EQ(FiguresOf(text), FiguresOf(direct));
    std::filesystem::remove(report);
    std::filesystem::remove(file);
  }
  for (const char* name : {"of captures", "of chaos", "moves", "stale pushes",
                           "replicas evicted", "scale-ins"}) {
    EXPECT_GT(totals[name], 0u) << name;
  }
}

}  // namespace
}  // namespace snf
