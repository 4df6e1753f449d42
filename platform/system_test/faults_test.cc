// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "platform/run/run_events.h"
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

// --- Scale to zero: the last unit is parked, with its flows (U8). ---

// Notes when units go out of use.
class UnitsDown final : public RunObserver {
 public:
  void on_unit_down(Instant now, UnitId /*unit*/) override {
    if (first_ == Instant::max()) first_ = now;
  }
  Instant first() const { return first_; }

 private:
  Instant first_ = Instant::max();
};

constexpr Instant kParkedAt = Instant{} + Milliseconds(50);

// A flow of three packets, of which the last comes long after its unit is
// parked and would have been stopped.
Outcome RunToZero(std::vector<Kill> kills, Nanos flow_timeout = Seconds(5)) {
  TinyNatOptions options = TinyNatTables();
  options.loggers = true;
  options.controller.max_units = 2;
  options.controller.recovery_slots = 4;
  options.controller.unit_idle_timeout = Milliseconds(1);
  options.controller.keep_warm = Milliseconds(5);
  options.controller.flow_timeout = flow_timeout;
  options.faults.kills = std::move(kills);
  std::vector<OfferedFrame> packets;
  for (const int64_t ms : {0, 15, 300}) {
    packets.push_back(
        {.time = Instant{} + Milliseconds(ms), .bytes = UdpFrame({.flow = 1})});
  }
  UnitsDown down;
  Outcome outcome = RunFrames(options, options.nf, packets, "snf", &down);
  EXPECT_LT(down.first(), kParkedAt);
  EXPECT_EQ(outcome.run.violations, 0u);
  EXPECT_EQ(outcome.run.packets_released, packets.size());
  EXPECT_EQ(outcome.run.faults.packets_lost, 0u);
  EXPECT_EQ(outcome.run.controller.failures.flows_given_up, 0u);
  // In the end all is over, and nobody has anything.
  EXPECT_EQ(outcome.flows_at_units, 0u);
  EXPECT_EQ(outcome.run.controller.pieces.pieces_out, 0u);
  return outcome;
}

uint8_t CountIn(const ReleasedFrame& frame) {
  return static_cast<uint8_t>(frame.bytes[kNumberAt]);
}

TEST(Faults, AtZeroAParkedUnitKeepsTheFlows) {
  const Outcome outcome = RunToZero({});
  EXPECT_EQ(outcome.run.controller.flows, 1u);
  EXPECT_EQ(outcome.run.controller.null_packets, 0u);
  EXPECT_EQ(CountIn(outcome.released.back()), 3);
}

TEST(Faults, AtZeroThatUnitMayDie) {
  const Outcome outcome =
      RunToZero({{.unit = UnitId{0}, .at = kParkedAt - Instant{}}});
  EXPECT_EQ(outcome.run.faults.kills, 1u);
  EXPECT_EQ(outcome.run.controller.failures.flows_moved, 1u);
  EXPECT_EQ(outcome.run.controller.flows, 1u);
  EXPECT_EQ(CountIn(outcome.released.back()), 3);
}

TEST(Faults, AtZeroItsLoggerMayDie) {
  const Outcome outcome = RunToZero(
      {{.victim = Kill::Victim::kLoggerHost, .at = kParkedAt - Instant{}}});
  EXPECT_EQ(outcome.run.faults.logger_kills, 1u);
  EXPECT_EQ(outcome.run.faults.records_restored, 1u);
  EXPECT_EQ(outcome.run.controller.flows, 1u);
  EXPECT_EQ(CountIn(outcome.released.back()), 3);
}

TEST(Faults, AtZeroNobodyIsLeftWithoutFlows) {
  const Outcome outcome = RunToZero({}, Milliseconds(40));
  EXPECT_EQ(outcome.run.controller.flows, 2u);
  EXPECT_EQ(CountIn(outcome.released.back()), 1);
  EXPECT_EQ(outcome.units_up, 0u);
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
