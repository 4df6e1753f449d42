// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "platform/run/run_setup.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

// Runs in which a unit dies at a moment that was chosen.
namespace snf {
namespace {

// Unit 0 gets a block of ports, and dies before its logger hears of it, with
// the packet for which it had asked.
TEST(Faults, BringBackAGrantThatNoLoggerKnowsOf) {
  TinyNatOptions options = TinyNatTables();
  options.loggers = true;
  options.logger_delay = Milliseconds(3);
  options.unit_start_delay = {};
  options.controller.max_units = 2;
  options.controller.recovery_slots = 4;
  options.controller.flow_timeout = Seconds(2);
  options.faults.kills = {{.unit = UnitId{0}, .at = Milliseconds(1)}};
  std::vector<OfferedFrame> packets;
  for (const int64_t ms : {0, 1'000}) {
    packets.push_back({.time = Instant{} + Milliseconds(ms),
                       .bytes = UdpFrame({.flow = static_cast<uint32_t>(ms)})});
  }
  const Outcome outcome = RunFrames(options, options.nf, packets);
  EXPECT_EQ(outcome.run.violations, 0u);
  EXPECT_EQ(outcome.run.faults.kills, 1u);
  EXPECT_EQ(outcome.run.faults.packets_lost, 1u);
  EXPECT_EQ(outcome.run.packets_released, 1u);
  EXPECT_EQ(outcome.run.controller.pieces.blocks_granted, 2u);
  EXPECT_EQ(outcome.run.controller.pieces.pieces_out, 0u);
}

// The only unit that may be dies: a spare one takes its flow over.
TEST(Faults, OfTheOnlyUnitLoseNoState) {
  TinyNatOptions options = TinyNatTables();
  options.loggers = true;
  options.controller.max_units = 1;
  options.faults.kills = {{.unit = UnitId{0}, .at = Milliseconds(15)}};
  AddSpareUnits(options.controller);
  PrepareForFailures(options.controller);
  std::vector<OfferedFrame> packets;
  for (const int64_t ms : {0, 12, 30, 100}) {
    packets.push_back(
        {.time = Instant{} + Milliseconds(ms), .bytes = UdpFrame({.flow = 1})});
  }
  const Outcome outcome = RunFrames(options, options.nf, packets);
  EXPECT_EQ(outcome.run.violations, 0u);
  EXPECT_EQ(outcome.run.faults.kills, 1u);
  EXPECT_EQ(outcome.run.faults.packets_lost, 0u);
  EXPECT_EQ(outcome.run.packets_released, packets.size());
  EXPECT_EQ(outcome.run.controller.failures.flows_given_up, 0u);
  EXPECT_EQ(outcome.run.controller.flows, 1u);
}

// Three packets of a flow come to unit 0, and its logger gets them 3 ms later.
RunOptions LoggerDies(TinyNatOptions options, Kill kill) {
  options.loggers = true;
  options.logger_delay = Milliseconds(3);
  options.unit_start_delay = {};
  options.controller.max_units = 1;
  options.faults.kills = {kill};
  return options;
}

Outcome RunThreePackets(Kill kill) {
  const TinyNatOptions options = TinyNatTables();
  std::vector<OfferedFrame> packets;
  for (const int64_t ms : {0, 2, 20}) {
    packets.push_back(
        {.time = Instant{} + Milliseconds(ms), .bytes = UdpFrame({.flow = 1})});
  }
  return RunFrames(LoggerDies(options, kill), options.nf, packets);
}

TEST(Faults, OfALoggersHostLoseWhatWasOnItsWayThereAndKeepWhatItDid) {
  const Outcome outcome = RunThreePackets(
      {.victim = Kill::Victim::kLoggerHost, .at = Milliseconds(4)});
  const RunResult& run = outcome.run;
  EXPECT_EQ(run.violations, 0u);
  EXPECT_EQ(run.faults.logger_kills, 1u);
  // The second was under way; the first had left.
  EXPECT_EQ(run.faults.logger_packets_lost, 1u);
  EXPECT_EQ(run.faults.records_restored, 1u);
  EXPECT_EQ(run.packets_released, 2u);
  EXPECT_EQ(run.controller.pieces.pieces_out, 0u);
  // Detection, and the way to the unit and back.
  EXPECT_EQ(run.faults.logger_recovery_ns.max(), Milliseconds(7).ns);
}

TEST(Faults, OfALoggersProcessLoseNothingThatIsInItsRing) {
  const Outcome outcome = RunThreePackets(
      {.victim = Kill::Victim::kLoggerProcess, .at = Milliseconds(10)});
  EXPECT_EQ(outcome.run.violations, 0u);
  EXPECT_EQ(outcome.run.faults.logger_kills, 1u);
  EXPECT_EQ(outcome.run.faults.logger_packets_lost, 0u);
  EXPECT_EQ(outcome.run.packets_released, 3u);
}

}  // namespace
}  // namespace snf
