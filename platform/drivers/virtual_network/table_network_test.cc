// SPDX-License-Identifier: Apache-2.0
//
// Shared tables in runs. SNF_LONG_TESTS=1 runs 50 times as many random ones;
// SNF_TEST_SEED=n the one with that seed.
#include "platform/drivers/virtual_network/table_network.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"

namespace snf {
namespace {

struct Use {
  uint64_t packets;
  uint64_t bytes;
  friend bool operator==(const Use&, const Use&) = default;
};
using Uses = std::map<uint64_t, Use>;
constexpr uint64_t kRest = ~uint64_t{0};

// Counts the packets of flows in a table, and by a second one the longest of
// each; "reads" makes it look.
class Tally final : public NetworkFunction {
 public:
  explicit Tally(NfOptions& options)
      : room_(static_cast<uint32_t>(
            options.Integer("room", 1'000, 1, 1'000'000, "entries"))),
        reads_(options.Flag("reads", false, "write what is known")) {}

  Verdict process_packet(Packet& packet, FlowState&) override {
    if (!IsUdpFrame(packet.bytes())) return Verdict::forward();
    const uint64_t flow = FlowOf(packet.bytes());
    uses_.update(flow, {1, packet.original_length()});
    longest_.update(flow, packet.original_length());
    if (reads_) {
      packet.bytes().back() =
          static_cast<std::byte>(uses_.get(flow).packets & 0xff);
    }
    return Verdict::forward();
  }
  NfReport report() const override {
    NfReport::Table uses = {.title = "uses", .columns = {}, .rows = {}};
    uses_.for_each([&](uint64_t flow, const Use& use) {
      uses.rows.push_back({flow, use.packets, use.bytes});
    });
    uses.rows.push_back({kRest, uses_.rest().packets, uses_.rest().bytes});
    NfReport::Table longest = {.title = "longest", .columns = {}, .rows = {}};
    longest_.for_each([&](uint64_t flow, uint64_t bytes) {
      longest.rows.push_back({flow, uint64_t{1}, bytes});
    });
    return {.tables = {uses, longest}, .files = {}};
  }

 private:
  uint32_t room_;
  bool reads_;
  SharedTable<uint64_t, Use> uses_ =
      declare_shared<uint64_t, Use>("uses", room_);
  SharedTable<uint64_t, uint64_t> longest_ = declare_shared<uint64_t, uint64_t>(
      "longest", 1'000, [](uint64_t& value, const uint64_t& more) {
        value = std::max(value, more);
      });
};
SNF_REGISTER_NF(Tally, "tally", "for tests: counts packets of flows");

NfSpec TallyNf(const std::string& options = "") {
  return {*FindNf("tally"), *NfOptions::Parse(options)};
}

Uses TableOf(const RunResult& run, size_t index) {
  Uses uses;
  for (const auto& row : run.nf_reports.at(0).report.tables.at(index).rows) {
    uses[std::get<uint64_t>(row[0])] = {std::get<uint64_t>(row[1]),
                                        std::get<uint64_t>(row[2])};
  }
  return uses;
}

// What the tables should be: of what came out, as the NF forwards everything.
std::pair<Uses, Uses> Counted(const Outcome& outcome) {
  Uses uses;
  Uses longest;
  for (const ReleasedFrame& frame : outcome.released) {
    if (!IsUdpFrame(frame.bytes)) continue;
    Use& use = uses[FlowOf(frame.bytes)];
    ++use.packets;
    use.bytes += frame.original_length;
    Use& most = longest[FlowOf(frame.bytes)];
    most = {1, std::max<uint64_t>(most.bytes, frame.original_length)};
  }
  return {uses, longest};
}

Use Sum(const Uses& uses) {
  Use sum{};
  for (const auto& [flow, use] : uses) {
    sum.packets += use.packets;
    sum.bytes += use.bytes;
  }
  return sum;
}

// 8 flows, packets 100 µs apart, on units of 1 Mbit/s: several of them.
std::vector<OfferedFrame> Packets(uint32_t count) {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < count; ++i) {
    packets.push_back({.time = {int64_t{i} * 100'000},
                       .bytes = UdpFrame({.flow = i % 8, .sequence = i})});
  }
  return packets;
}
RunOptions SmallUnits() {
  RunOptions options = SmallTables();
  options.controller.unit_capacity_bps = 1'000'000;
  options.controller.max_units = 8;
  options.controller.flow_timeout = Seconds(1);
  return options;
}

void ExpectTables(const Outcome& outcome, bool full) {
  ExpectSound(outcome);
  const auto [uses, longest] = Counted(outcome);
  Uses table = TableOf(outcome.run, 0);
  EXPECT_EQ(TableOf(outcome.run, 1), longest);
  EXPECT_EQ(Sum(table), Sum(uses));
  if (full) return;
  EXPECT_EQ(table[kRest], Use{});
  table.erase(kRest);
  EXPECT_EQ(table, uses);
}

TEST(TableNetwork, MergesWhatAllUnitsWrote) {
  const Outcome outcome = RunFrames(SmallUnits(), TallyNf(), Packets(2'000));
  EXPECT_GT(outcome.run.units_max, 3u);
  ExpectTables(outcome, false);
  ASSERT_EQ(outcome.run.tables.size(), 2u);
  const TableFigures& figures = outcome.run.tables[0];
  EXPECT_EQ(figures.name, "uses");
  EXPECT_EQ(figures.nf, "");
  EXPECT_EQ(figures.entries, 8u);
  EXPECT_EQ(figures.max_entries, 1'000u);
  EXPECT_EQ(figures.updates, outcome.run.packets_released);
  EXPECT_EQ(figures.refused, 0u);
  EXPECT_EQ(figures.repeated, 0u);
  EXPECT_GT(figures.messages, 100u);
  EXPECT_GT(figures.bytes, 56 * figures.messages);
  EXPECT_EQ(outcome.run.i6_not_compared, 0u);
}

TEST(TableNetwork, WhoReadsSeesAnUpdateWithinTheBound) {
  for (const int64_t ms : {1, 10, 50}) {
    RunOptions options = SmallUnits();
    options.table_period = Milliseconds(ms);
    const Outcome outcome =
        RunFrames(options, TallyNf("reads=true"), Packets(3'000));
    ExpectSound(outcome);
    const TableFigures& figures = outcome.run.tables[0];
    EXPECT_GT(figures.staleness_ns.count(), 10u);
    // Two periods, one in which a unit says that it reads, ticks of the home,
    // and four messages either way.
    const int64_t period = ms * 1'000'000 + 32'768;
    EXPECT_LT(figures.staleness_ns.max(), 3 * period + 10'000);
    EXPECT_GT(figures.staleness_ns.max(), ms * 1'000'000);
    EXPECT_EQ(figures.spread_ns.count(), figures.staleness_ns.count());
    EXPECT_LT(figures.spread_ns.max(),
              (TableOptions::kUnreadPeriods + 2) * period);
  }
}

TEST(TableNetwork, TellsUnitsMoreThatRead) {
  const Outcome writers = RunFrames(SmallUnits(), TallyNf(), Packets(3'000));
  const Outcome readers =
      RunFrames(SmallUnits(), TallyNf("reads=true"), Packets(3'000));
  ExpectTables(writers, false);
  EXPECT_LT(writers.run.tables[0].messages,
            readers.run.tables[0].messages * 2 / 3);
}

TEST(TableNetwork, SendsLessWithLongerPeriods) {
  RunOptions options = SmallUnits();
  uint64_t last = ~uint64_t{0};
  for (const int64_t ms : {1, 10, 100}) {
    options.table_period = Milliseconds(ms);
    const Outcome outcome = RunFrames(options, TallyNf(), Packets(3'000));
    EXPECT_LT(outcome.run.tables[0].messages, last / 3);
    last = outcome.run.tables[0].messages;
  }
}

TEST(TableNetwork, AFullTableLosesNothing) {
  const Outcome outcome =
      RunFrames(SmallUnits(), TallyNf("room=3"), Packets(2'000));
  ExpectTables(outcome, true);
  EXPECT_EQ(outcome.run.tables[0].entries, 3u);
  EXPECT_GT(outcome.run.tables[0].refused, 0u);
  EXPECT_GT(TableOf(outcome.run, 0)[kRest].packets, 0u);
}

TEST(TableNetwork, AFlowIsNotComparedOnceTheNfHasReadATableForIt) {
  const Outcome outcome =
      RunFrames(SmallUnits(), TallyNf("reads=true"), Packets(500));
  ExpectSound(outcome);
  EXPECT_EQ(outcome.run.i6_compared, 0u);
  EXPECT_EQ(outcome.run.i6_not_compared, 500u);
  EXPECT_EQ(outcome.run.i6_after_table_read, 500u);
}

TEST(TableNetwork, IsTheSameWithAndWithoutTheChecker) {
  RunOptions options = SmallUnits();
  options.chaos = {.state_delay_min = {},
                   .state_delay_max = Milliseconds(1),
                   .state_loss_65536 = 10'000,
                   .state_duplicate_65536 = 10'000};
  const Outcome first = RunFrames(options, TallyNf(), Packets(1'000));
  options.check = false;
  const Outcome second = RunFrames(options, TallyNf(), Packets(1'000));
  ExpectTables(first, false);
  ExpectSame(first.run, second.run);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(TableOf(first.run, i), TableOf(second.run, i));
    EXPECT_EQ(first.run.tables[i].messages, second.run.tables[i].messages);
    EXPECT_EQ(first.run.tables[i].staleness_ns,
              second.run.tables[i].staleness_ns);
  }
  EXPECT_GT(first.run.tables[0].repeated, 0u);
}

TEST(TableNetwork, HoldsInRandomRuns) {
  const TestSeeds seeds(200, 10'000);
  std::map<std::string, uint64_t> totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    Schedule schedule =
        rng.Chance(32'768) ? AnySchedule(rng) : AnyScheduleOfAsks(rng);
    schedule.options.table_period = {rng.Uniform(1, 30'000'000)};
    const int64_t room = rng.Chance(16'384) ? rng.Uniform(1, 4) : 100'000;
    const Outcome outcome =
        RunFrames(schedule.options, TallyNf(fmt::format("room={}", room)),
                  schedule.packets, schedule.policy);
    ExpectTables(outcome, room < 100'000);
    const TableFigures& figures = outcome.run.tables[0];
    totals["updates"] += figures.updates;
    totals["messages"] += figures.messages;
    totals["repeated"] += figures.repeated;
    totals["refused"] += figures.refused;
    totals["units"] += outcome.run.units_max;
    totals["stopped"] += outcome.units_stopped;
    totals["full"] += figures.entries == figures.max_entries ? 1 : 0;
    if (HasFailure()) return;
  }
  for (const auto& [name, n] : totals) {
    std::cout << fmt::format("  {:12}{:>12}\n", name, n);
    if (seeds.is_part) continue;
    EXPECT_GE(n, seeds.count() / 10) << name;
  }
}

}  // namespace
}  // namespace snf
