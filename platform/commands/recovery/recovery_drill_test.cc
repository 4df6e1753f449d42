// SPDX-License-Identifier: Apache-2.0
//
// A unit dies at random times, and is recovered in three ways; what comes out
// is the unit that did not fail.
#include "platform/commands/recovery/recovery_drill.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "platform/commands/recovery/drill_report.h"
#include "platform/report/recovery_meter.h"
#include "platform/system_test/test_run.h"
#include "traces/loaded_capture.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr std::string_view kNat = "nat(ip=203.0.113.1)";

LoadedCapture SmallCapture() {
  LoadedCapture capture(1 << 30);
  auto reader = MergedReader::Open({"traces/small.pcap.zst"});
  EXPECT_TRUE(reader.ok()) << reader.status();
  CapturedPacket packet;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    EXPECT_TRUE(capture.Add(packet).ok());
  }
  return capture;
}

NfSpec SpecOf(std::string_view text) {
  auto spec = NfSpec::Parse(std::string(text));
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

// SNF_TEST_SEED repeats a run.
uint64_t AnySeed() {
  const char* const given = std::getenv("SNF_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10)
                                         : std::random_device()();
  fmt::print("SNF_TEST_SEED={}\n", seed);
  return seed;
}

DrillOptions Options(uint32_t deaths) {
  DrillOptions options;
  options.run.controller.max_flows = 4'096;
  options.deaths = deaths;
  options.seed = AnySeed();
  options.timed = 0;
  return options;
}

const WayFigures& Find(const DrillResult& result, std::string_view name) {
  for (const WayFigures& way : result.ways) {
    if (way.name == name) return way;
  }
  ADD_FAILURE() << name;
  return result.ways.front();
}

// Whatever the NF and the store.
void ExpectTruth(const DrillResult& result, uint64_t deaths) {
  const DrillTotals& totals = result.totals;
  EXPECT_EQ(totals.packets_in, totals.passed_through + totals.dropped +
                                   totals.nf_dropped + totals.consumed +
                                   totals.released + totals.waiting);
  ASSERT_EQ(result.ways.size(), 3u);
  for (const WayFigures& way : result.ways) {
    SCOPED_TRACE(way.name);
    EXPECT_EQ(way.deaths, deaths);
    EXPECT_GT(way.records, 0u);
    EXPECT_EQ(way.records_wrong, 0u);
    EXPECT_EQ(way.pieces_wrong, 0u);
    EXPECT_EQ(way.outputs_differ, 0u);
  }
  const WayFigures& logger = Find(result, "logger");
  EXPECT_EQ(logger.packets.max(), 0);
  EXPECT_EQ(logger.records_anew, 0u);
  const WayFigures& checkpoint = Find(result, "checkpoint");
  EXPECT_GT(checkpoint.packets.max(), 0);
  EXPECT_GT(checkpoint.outputs_suppressed, 0u);
  EXPECT_EQ(checkpoint.outputs_released, 0u);
  EXPECT_EQ(checkpoint.records_anew, 0u);
}

TEST(RecoveryDrill, MakesTheUnitThatDidNotFail) {
  const LoadedCapture capture = SmallCapture();
  const DrillOptions options = Options(40);
  for (const std::string_view nf :
       {std::string_view("chronicle"), std::string_view("monitor"), kNat,
        std::string_view("policer"),
        std::string_view("nat(ip=203.0.113.1) | monitor")}) {
    SCOPED_TRACE(nf);
    ExpectTruth(RunDrills(SpecOf(nf), capture, options), 40);
  }
}

// Timers, packets that the NF makes and drops among it, and flows that end.
TEST(RecoveryDrill, CoversTimersAndEnds) {
  DrillOptions options = Options(100);
  options.run.controller.flow_timeout = Milliseconds(1);
  LoadedCapture capture(1 << 30);
  const auto frames = FramesThatAskForAnything(20'000, Instant{} + Seconds(5));
  for (size_t i = 0; i < frames.size(); ++i) {
    // The flows of the first half go silent.
    if (i > 10'000 && i % 20 < 10) continue;
    const auto length = static_cast<uint32_t>(frames[i].bytes.size());
    ASSERT_TRUE(capture
                    .Add({.time = frames[i].time,
                          .bytes = frames[i].bytes,
                          .original_bytes = length})
                    .ok());
  }
  ExpectTruth(RunDrills(ChronicleNf(), capture, options), 100);
}

// Packets that took a port leave only when the store has it: run again, they
// may get another, and nobody has seen the first.
TEST(RecoveryDrill, LetsNoPortOutThatASlowStoreDoesNotHave) {
  DrillOptions options = Options(40);
  options.run.store.operation = Microseconds(90);
  options.run.store.round_trips.fill(Milliseconds(20));
  const DrillResult result = RunDrills(SpecOf(kNat), SmallCapture(), options);
  ExpectTruth(result, 40);
  const WayFigures& datastore = Find(result, "datastore");
  EXPECT_GT(datastore.outputs_suppressed, 0u);
  EXPECT_GT(datastore.outputs_released, 0u);
}

// What a way takes without the time of its code, if the unit dies where
// RecoveryMeter thinks of that.
Histogram AtThePaceOf(RecoveryWay& way, const LoadedCapture& capture,
                      const NfSpec& nf, const RunOptions& run,
                      RecoveryMeter& meter) {
  RecoveryDrill drill(nf, run, 1'024, &way, false, &meter);
  Histogram took;
  Instant next = capture.Packet(0, 0).time + RecoveryMeter::kSampleEvery;
  for (size_t i = 0; i < capture.size(); ++i) {
    const CapturedPacket packet = capture.Packet(i, 0);
    for (; next <= packet.time; next = next + RecoveryMeter::kSampleEvery) {
      const Recovered recovered = drill.Die(next).recovered;
      took.Record(recovered.network.ns + recovered.service.ns);
    }
    drill.Take(packet);
  }
  return took;
}

// The model of snf replay --recovery against what is run. It takes all records
// to have their full length, and no header of a store's.
TEST(RecoveryDrill, TakesWhatTheModelSaysAtTheUnitsPace) {
  const LoadedCapture capture = SmallCapture();
  const NfSpec nf = SpecOf("monitor");
  RunOptions run;
  run.controller.max_units = 1;
  run.controller.max_flows = 4'096;
  const uint32_t record_bytes = nf.create()->schema().record_bytes();
  const auto thought = [&](RecoveryWay& way, Histogram& took) {
    RecoveryMeter meter(run, record_bytes);
    took = AtThePaceOf(way, capture, nf, run, meter);
    RunResult result;
    meter.Apply(result);
    EXPECT_EQ(result.recovery.samples, took.count());
    EXPECT_GT(took.count(), 600u);
    return result.recovery;
  };
  const auto nearly = [](const Histogram& took, uint64_t p50, uint64_t p99,
                         double share) {
    const auto of = [&](uint32_t q) {
      return static_cast<double>(took.Quantile(q));
    };
    EXPECT_NEAR(of(50'000) / static_cast<double>(p50), 1, share);
    EXPECT_NEAR(of(99'000) / static_cast<double>(p99), 1, share);
  };
  Histogram took;
  RecoveryFigures figures = thought(*MakeCheckpointWay(nf, run), took);
  nearly(took, figures.checkpoint_p50, figures.checkpoint_p99, 0);
  figures = thought(*MakeLoggerWay(nf, run, 1'024), took);
  nearly(took, figures.logger_p50, figures.logger_p99, 0.1);
  figures = thought(*MakeDatastoreWay(nf, run, 1'024), took);
  nearly(took, figures.datastore_p50, figures.datastore_p99, 0.05);
}

}  // namespace
}  // namespace snf
