// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/system_test/test_run.h"

// Runs of several units: flowlets that move, units that come and go, and what
// of it may show in the result.
namespace snf {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

OfferedFrame At(int64_t ns, const FrameFields& fields = {}) {
  return {.time = Instant{ns}, .bytes = UdpFrame(fields)};
}

Outcome Forward(const RunOptions& options,
                const std::vector<OfferedFrame>& packets) {
  const Outcome outcome = RunFrames(options, ForwardingNf(), packets);
  ExpectSound(outcome);
  EXPECT_EQ(outcome.run.packets_in, packets.size());
  return outcome;
}

// --- Starts that fail
// ---------------------------------------------------------

// Nothing is lost, and whoever waits for a unit gets one in the end.
TEST(VirtualDriverStarts, ThatFailAreMadeAgain) {
  uint64_t failed = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    RunOptions options = SmallTables();
    options.controller.seed = seed;
    options.controller.warm_units = 0;
    options.controller.max_units = 1 + static_cast<uint32_t>(seed % 4);
    options.controller.unit_capacity_bps = 10'000'000;
    options.controller.unit_idle_timeout = Milliseconds(5);
    options.controller.keep_warm = Milliseconds(5);
    options.controller.start_timeout = Milliseconds(50);
    options.chaos.start_failure_65536 = 40'000;
    std::vector<OfferedFrame> packets;
    for (uint32_t i = 0; i < 60; ++i) {
      packets.push_back(At(i * 40 * kMs, {.flow = i % 7, .sequence = i}));
    }
    const Outcome outcome = Forward(options, packets);
    EXPECT_EQ(outcome.run.packets_released, packets.size());
    failed += outcome.run.failed_starts;
  }
  EXPECT_GT(failed, 200u);
}

TEST(VirtualDriverStarts, DoNotFailWithoutChaos) {
  RunOptions options = SmallTables();
  options.controller.warm_units = 0;
  options.controller.start_timeout = {2 * options.unit_start_delay.ns};
  EXPECT_EQ(Forward(options, {At(0), At(kMs)}).run.failed_starts, 0u);
}

// --- Moved flowlets
// -----------------------------------------------------------

// Two units of 10 Mbit/s, and flows that ask for more than one.
RunOptions SmallUnits() {
  RunOptions options = SmallTables();
  options.controller.unit_capacity_bps = 10'000'000;
  options.controller.warm_units = 2;
  options.controller.alpha_1024 = 0;
  options.flow = {};
  return options;
}

std::vector<OfferedFrame> Crowd(uint32_t flows, uint32_t packets_each) {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < packets_each; ++i) {
    for (uint32_t flow = 0; flow < flows; ++flow) {
      packets.push_back(
          At(i * kMs + flow * 17 * kUs, {.flow = flow,
                                         .sequence = i,
                                         .bytes = 200 + flow * 70,
                                         .from_responder = (i % 3) == 1}));
    }
  }
  return packets;
}

void ExpectEachFlowInOrder(const Outcome& outcome) {
  std::map<uint32_t, int64_t> last;
  for (const ReleasedFrame& frame : outcome.released) {
    if (!IsUdpFrame(frame.bytes)) continue;
    const auto [entry, is_new] = last.try_emplace(FlowOf(frame.bytes), -1);
    const int64_t sequence = SequenceOf(frame.bytes);
    ASSERT_LT(entry->second, sequence) << "flow " << entry->first;
    entry->second = sequence;
  }
}

TEST(VirtualDriverUnits, KeepsTheOrderOfFlowsWhoseFlowletsMove) {
  RunOptions options = SmallUnits();
  options.controller.max_units = 8;
  const Outcome outcome = Forward(options, Crowd(12, 100));
  ExpectEachFlowInOrder(outcome);
  EXPECT_EQ(outcome.run.packets_dropped(), 0u);
  EXPECT_GT(outcome.run.controller.flowlets_moved, 100u);
  EXPECT_GT(outcome.run.state.pulled, 10u);
  EXPECT_GT(outcome.run.held_packets_max, 1u);
  EXPECT_GT(outcome.run.units_max, 2u);
  EXPECT_EQ(outcome.flows_at_controller, 0u);
  EXPECT_EQ(outcome.flows_at_units, 0u);
  EXPECT_EQ(outcome.units_stopped, 8u);
}

TEST(VirtualDriverUnits, KeepsFlowsWhereTheyAreWhenTheyNeverEnd) {
  RunOptions options = SmallUnits();
  options.controller.flow_timeout = Nanos::max();
  const Outcome outcome = Forward(options, Crowd(12, 20));
  EXPECT_EQ(outcome.flows_at_controller, 12u);
  EXPECT_EQ(outcome.flows_at_units, 12u);
}

// A flow that ends is forgotten by the controller while its packets still wait;
// the next one takes its slot.
TEST(VirtualDriverUnits, FollowsFlowsThatEndWhileTheirPacketsWait) {
  RunOptions options = SmallUnits();
  options.controller.flow_timeout = Microseconds(700);
  options.controller.max_units = 2;
  const Outcome outcome = Forward(options, Crowd(6, 60));
  EXPECT_EQ(outcome.run.packets_dropped(), 0u);
  EXPECT_GT(outcome.run.controller.flows, 300u);
  EXPECT_EQ(outcome.flows_at_units, 0u);
  options.controller.unit_capacity_bps = 1'000'000'000;
  EXPECT_EQ(Forward(options, Crowd(6, 60)).run.digest, outcome.run.digest);
}

// --- Scaling
// ------------------------------------------------------------------

TEST(VirtualDriverUnits, ScalesToZeroAndBack) {
  RunOptions options = SmallTables();
  options.controller.flow_timeout = Seconds(1);
  options.controller.keep_warm = Milliseconds(500);
  const auto burst = [](int64_t start, std::vector<OfferedFrame>& packets) {
    for (uint32_t i = 0; i < 5; ++i) packets.push_back(At(start + i * kMs));
  };
  std::vector<OfferedFrame> packets;
  burst(0, packets);
  burst(300 * kMs, packets);     // the unit is warm
  burst(10'000 * kMs, packets);  // and now it is stopped
  const Outcome outcome = Forward(options, packets);
  EXPECT_EQ(outcome.run.warm_starts, 2u);
  EXPECT_EQ(outcome.run.cold_starts, 1u);
  EXPECT_EQ(outcome.run.units_max, 1u);
  // 104 + 104 + 10 ms of the 10,010 ms until the last packet left.
  EXPECT_EQ(outcome.run.units_mean_1000, 21);
  EXPECT_EQ(outcome.units_stopped, 64u);
  // 480 ns of service and a hop after the unit is ready.
  ASSERT_EQ(outcome.released.size(), 15u);
  EXPECT_EQ(outcome.released[0].time.ns, 30 * kUs + 1'480);
  EXPECT_EQ(outcome.released[5].time.ns, 300 * kMs + 30 * kUs + 1'480);
  EXPECT_EQ(outcome.released[10].time.ns, 10'000 * kMs + 10 * kMs + 1'480);
  // 4 ms of packets, 100 ms until it is idle, three times; the last time it
  // was provisioned when it was ordered, and idle from when it was ready.
  int64_t unit_ns = 0;
  for (const EpochSample& sample : outcome.run.epochs) {
    unit_ns += sample.unit_ns;
  }
  EXPECT_NEAR(static_cast<double>(unit_ns), (104 + 104 + 110) * 1e6, 0.5e6);
}

TEST(VirtualDriverUnits, SpendsNoMoreOnAGapOfYearsThanOnOneOfASecond) {
  const auto with_gap = [](int64_t gap_ns) {
    RunOptions options = SmallTables();
    options.controller.flow_timeout = Milliseconds(500);
    return Forward(options, {At(0), At(kMs), At(gap_ns), At(gap_ns + kMs)});
  };
  const Outcome second = with_gap(1'000 * kMs);
  const Outcome years = with_gap(int64_t{200} * 365 * 86'400 * 1'000 * kMs);
  EXPECT_LT(years.events, second.events + 30);
  EXPECT_LE(years.run.epochs.size(), second.run.epochs.size() + 2);
  EXPECT_EQ(years.run.digest, second.run.digest);
}

TEST(VirtualDriverUnits, CountsTheUnitsThatAreUpAtATime) {
  RunOptions options = SmallTables();
  options.controller.unit_capacity_bps = 10'000'000;
  options.controller.warm_units = 5;
  options.controller.max_units = 5;
  options.controller.demand_rule = DemandRule::kBurst;
  options.controller.first_demand_bps = 10'000'000;
  // Every flow asks for a whole unit.
  const auto units_of = [&](uint32_t flows) {
    std::vector<OfferedFrame> packets;
    for (uint32_t i = 0; i < flows; ++i) packets.push_back(At(i, {.flow = i}));
    return Forward(options, packets).run;
  };
  EXPECT_EQ(units_of(1).units_max, 2u);  // the second one is started ahead
  EXPECT_EQ(units_of(3).units_max, 4u);
  EXPECT_EQ(units_of(5).units_max, 5u);
  EXPECT_EQ(units_of(9).units_max, 5u);
  EXPECT_EQ(units_of(9).controller.overcommitted, 4u);
}

// --- The result
// ---------------------------------------------------------------

TEST(VirtualDriverUnits, GivesTheSameResultTwice) {
  const std::vector<OfferedFrame> packets = Crowd(12, 60);
  ExpectSame(Forward(SmallUnits(), packets).run,
             Forward(SmallUnits(), packets).run);
}

TEST(VirtualDriverUnits, GivesTheSameResultUnchecked) {
  RunOptions options = SmallUnits();
  const RunResult checked = Forward(options, Crowd(12, 60)).run;
  options.check = false;
  ExpectSame(checked, Forward(options, Crowd(12, 60)).run);
}

TEST(VirtualDriverUnits, HasADigestThatUnitsDoNotChange) {
  const std::vector<OfferedFrame> packets = Crowd(12, 60);
  RunOptions options = SmallTables();
  const uint64_t digest = Forward(options, packets).run.digest;
  uint64_t moved = 0;
  for (const int64_t capacity_bps : {2'000'000, 7'000'000, 50'000'000}) {
    for (const uint32_t units : {1u, 3u, 32u}) {
      options.controller.unit_capacity_bps = capacity_bps;
      options.controller.max_units = units;
      const Outcome outcome = Forward(options, packets);
      ASSERT_EQ(outcome.run.packets_dropped(), 0u);
      EXPECT_EQ(outcome.run.digest, digest);
      moved += outcome.run.controller.flowlets_moved;
    }
  }
  EXPECT_GT(moved, 100u);
}

TEST(VirtualDriverUnits, HasADigestThatAnyByteChanges) {
  std::vector<OfferedFrame> packets = Crowd(3, 5);
  packets.push_back(
      {.time = Instant{kMs}, .bytes = Ethernet(0x0806, Frame(28))});
  const uint64_t digest = Forward(SmallTables(), packets).run.digest;
  for (OfferedFrame& packet : packets) {
    packet.bytes.back() ^= std::byte{1};
    EXPECT_NE(Forward(SmallTables(), packets).run.digest, digest);
    packet.bytes.back() ^= std::byte{1};
  }
}

TEST(VirtualDriverUnits, HasNothingToSayOfNothing) {
  const Outcome outcome = Forward(SmallTables(), {});
  EXPECT_EQ(outcome.run.digest, 0u);
  EXPECT_TRUE(outcome.run.epochs.empty());
  EXPECT_EQ(outcome.events, 0u);
}

}  // namespace
}  // namespace snf
