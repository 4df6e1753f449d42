// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/run/run_events.h"
#include "platform/system_test/test_controller_faults.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"
#include "runtime/sdk/nf.h"

// Random schedules of an NF whose packets read a shared table, in which
// controllers, units and loggers die (proto/protocol.md T6). SNF_TEST_SEED=n
// runs the one with that seed; SNF_LONG_TESTS=1 runs 50 times as many.
namespace snf {
namespace {

constexpr size_t kKeys = 8;
using Counts = std::array<uint64_t, kKeys>;

// Counts the updates and reads of all units, lost ones as well.
struct AllReads {
  Counts made{};
  uint64_t too_high = 0;  // reads above all updates made
  uint64_t of_others = 0;
  Counts peaks{};
};

// The greatest of numbers, which has no inverse; and calls of the trigger.
struct Peak {
  static constexpr uint64_t kMany = 900;
  uint64_t most = 0;
  uint64_t alarms = 0;
  friend bool operator==(const Peak&, const Peak&) = default;
};

// Counts packets by key, and reads the counts; with `peaks`, also the greatest
// number of the packets.
class CountingReader final : public NetworkFunction {
 public:
  explicit CountingReader(NfOptions& options)
      : room_(static_cast<uint32_t>(
            options.Integer("room", 1'000, 1, 1'000, "entries"))),
        erases_(options.Flag("erases", false, "erase keys")) {
    if (!options.Flag("peaks", false, "keep the greatest numbers")) return;
    peaks_.emplace(declare_shared<uint64_t, Peak>(
        "peaks", 1'000, [](Peak& peak, const Peak& more) {
          peak.most = std::max(peak.most, more.most);
          peak.alarms = std::max(peak.alarms, more.alarms);
        }));
    peaks_->when([](const Peak& peak) { return peak.most >= Peak::kMany; },
                 [](Peak& peak) { ++peak.alarms; });
  }

  static uint64_t NumberOf(std::span<const std::byte> frame) {
    uint64_t number = 0;
    for (const std::byte byte : frame) {
      number = number * 31 + std::to_integer<uint64_t>(byte);
    }
    return number % 1'000;
  }
  static uint64_t KeyOf(std::span<const std::byte> frame) {
    return IsUdpFrame(frame) ? FlowOf(frame) % kKeys : 0;
  }
  Verdict process_packet(Packet& packet, FlowState&) override {
    const uint64_t key = KeyOf(packet.bytes());
    const uint64_t read = counts_.get(key);
    all.too_high += read > all.made[key] ? 1 : 0;
    all.of_others += read > own_[key] ? 1 : 0;
    if (erases_ && all.made[key] % 16 == 7) counts_.erase(key);
    counts_.update(key, 1);
    ++all.made[key];
    ++own_[key];
    if (peaks_.has_value()) KeepPeak(key, NumberOf(packet.bytes()));
    return Verdict::forward();
  }
  NfReport report() const override {
    NfReport::Table table = {.title = "counts", .columns = {}, .rows = {}};
    counts_.for_each([&](uint64_t key, uint64_t count) {
      table.rows.push_back({key, count});
    });
    table.rows.push_back({uint64_t{kKeys}, counts_.rest()});
    NfReport::Table peaks = {.title = "peaks", .columns = {}, .rows = {}};
    if (peaks_.has_value()) {
      peaks_->for_each([&](uint64_t key, const Peak& peak) {
        peaks.rows.push_back({key, peak.most, peak.alarms});
      });
    }
    return {.tables = {table, peaks}, .files = {}};
  }

  static inline AllReads all;

 private:
  void KeepPeak(uint64_t key, uint64_t number) {
    const Peak before = peaks_->get(key);
    all.too_high += before.most > all.peaks[key] ? 1 : 0;
    peaks_->update(key, {.most = number});
    all.peaks[key] = std::max(all.peaks[key], number);
  }

  uint32_t room_;
  bool erases_;
  Counts own_{};
  SharedTable<uint64_t, uint64_t> counts_ =
      declare_shared<uint64_t, uint64_t>("counts", room_);
  std::optional<SharedTable<uint64_t, Peak>> peaks_;
};
SNF_REGISTER_NF(CountingReader, "counting_reader", "for tests");

// Counts the packets whose clock is in a logger, as these ran last.
class LoggedKeys final : public RunObserver {
 public:
  void on_enqueue(Instant /*now*/, UnitId /*unit*/,
                  const PacketMeta& meta) override {
    ran_.erase({meta.flow, meta.clock});
  }
  void on_nf_begin(const PacketInfo& /*info*/,
                   std::span<const std::byte> bytes) override {
    key_ = CountingReader::KeyOf(bytes);
    number_ = CountingReader::NumberOf(bytes);
  }
  void on_nf_end(Instant /*now*/, UnitId /*unit*/, const PacketMeta& meta,
                 const NfOutcome& /*outcome*/) override {
    if (meta.has_payload()) ran_[{meta.flow, meta.clock}] = {key_, number_};
  }
  void on_logged(Instant /*now*/, UnitId /*unit*/,
                 const PacketMeta& meta) override {
    const auto ran = ran_.find({meta.flow, meta.clock});
    if (ran == ran_.end()) return;
    const auto [key, number] = ran->second;
    ++counts_[key];
    peaks_[key] = std::max(peaks_[key], number);
    ran_.erase(ran);
  }
  const Counts& counts() const { return counts_; }
  const Counts& peaks() const { return peaks_; }

 private:
  uint64_t key_ = 0;
  uint64_t number_ = 0;
  // Key and number of each packet.
  std::map<std::pair<FlowId, Clock>, std::pair<uint64_t, uint64_t>> ran_;
  Counts counts_{};
  Counts peaks_{};
};

// Runs a schedule, and expects that each packet counts once: in the home, in
// all copies, and in each read.
void RunOne(uint64_t seed, Totals& totals, bool has_peaks = false) {
  Rng rng(seed);
  const Schedule schedule = AnySchedule(rng);
  RunOptions options = WithDeaths(schedule.options, schedule.packets, rng);
  options.table_period = Nanos{static_cast<int64_t>(1 + rng.Below(3'000'000))};
  const bool is_full = rng.Below(3) == 0;
  const bool erases = rng.Below(3) == 0;
  const std::string text =
      fmt::format("room={}{}{}", is_full ? 3 : 1'000,
                  erases ? ",erases=true" : "", has_peaks ? ",peaks=true" : "");
  CountingReader::all = {};
  LoggedKeys logged;
  const Outcome outcome =
      RunFrames(options, {*FindNf("counting_reader"), *NfOptions::Parse(text)},
                schedule.packets, schedule.policy, &logged);
  EXPECT_EQ(WhatIsWrong(outcome), "");
  const AllReads& all = CountingReader::all;
  EXPECT_EQ(all.too_high, 0u);
  std::map<uint64_t, uint64_t> sums;
  uint64_t sum = 0;
  const RunResult& run = outcome.run;
  for (const auto& row : run.nf_reports.at(0).report.tables.at(0).rows) {
    sum += sums[std::get<uint64_t>(row[0])] = std::get<uint64_t>(row[1]);
  }
  const Counts& counts = logged.counts();
  EXPECT_EQ(sum, std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  for (uint64_t key = 0; !is_full && !erases && key < kKeys; ++key) {
    EXPECT_EQ(sums[key], counts[key]) << key;
  }
  for (const auto& row : run.nf_reports.at(0).report.tables.at(1).rows) {
    const uint64_t peak = std::get<uint64_t>(row[1]);
    const uint64_t alarms = std::get<uint64_t>(row[2]);
    EXPECT_EQ(peak, logged.peaks()[std::get<uint64_t>(row[0])]);
    EXPECT_EQ(alarms, peak >= Peak::kMany ? 1u : 0u);
    totals["alarms"] += alarms;
    totals["peaks without alarm"] += 1 - alarms;
  }
  Add(run, totals);
  totals.erase("i6 compared");  // every packet reads
  totals["packets counted"] += sum;
  totals["reads of others' updates"] += all.of_others;
  totals["in the rest"] += sums[kKeys];
  totals["messages repeated"] += run.tables.at(0).repeated;
}

// Between a successor's question and its report, a unit obeys a Stop that the
// dead controller had withdrawn. Then the packets in its channel are reported.
TEST(ReadTablesRandom, AUnitThatStoppedWithPackets) {
  Totals totals;
  RunOne(12'564, totals);
}

// A flow is given up whose null packet found no slot: its clock was not given.
TEST(ReadTablesRandom, AFlowThatIsGivenUpWithoutItsNullPacket) {
  Totals totals;
  RunOne(13'076, totals);
}

TEST(ReadTablesRandom, CountEachPacketOnceWhateverDies) {
  const TestSeeds seeds(400, 20'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunOne(seed, totals);
    if (HasFailure()) break;
  }
  std::cout << fmt::format("seeds {} to {}\n", seeds.first, seeds.last);
  totals.erase("alarms");
  totals.erase("peaks without alarm");
  for (const auto& [name, sum] : totals) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, sum);
    if (seeds.is_part || HasFailure()) continue;
    EXPECT_GE(sum, 20u) << name;
  }
}

// A merge without an inverse, and a trigger that is called once for each key.
TEST(ReadTablesRandom, KeepPeaksWhateverDies) {
  const TestSeeds seeds(200, 20'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunOne(seed, totals, /*has_peaks=*/true);
    if (HasFailure()) break;
  }
  std::cout << fmt::format("seeds {} to {}\n", seeds.first, seeds.last);
  for (const auto& [name, sum] : totals) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, sum);
    if (seeds.is_part || HasFailure()) continue;
    EXPECT_GE(sum, 20u) << name;
  }
}

}  // namespace
}  // namespace snf
