// SPDX-License-Identifier: Apache-2.0
#include "platform/report/recovery_meter.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

constexpr uint32_t kRecordBytes = 60;  // 100 with the header of a state
constexpr UnitId kUnit{1};

// A unit takes 10 us for a packet of 1,250 bytes, and 1 us for a flow's state.
RunOptions Options() {
  RunOptions options;
  options.controller.unit_capacity_bps = 1'000'000'000;
  options.controller.max_units = 4;
  options.hop_delay = Microseconds(1);
  options.state_delay = Microseconds(20);
  options.state_bandwidth_bps = 800'000'000;
  options.logger_delay = Microseconds(3);
  options.store.round_trips.fill(Microseconds(30));
  options.store.operation = Microseconds(2);
  return options;
}

PacketMeta MetaOf(uint64_t flow) {
  PacketMeta meta;
  meta.flow = FlowId{flow};
  meta.original_length = 1'250;
  return meta;
}

void RunPacket(RecoveryMeter& meter, Nanos at, uint64_t flow,
               UnitId unit = kUnit) {
  const PacketMeta meta = MetaOf(flow);
  meter.on_enqueue(Instant{at.ns - 10'000}, unit, meta);
  meter.on_service_end(Instant{at.ns}, unit, meta);
}

RecoveryFigures FiguresOf(const RecoveryMeter& meter) {
  RunResult result;
  meter.Apply(result);
  return result.recovery;
}

// The one sample is at 7.3 ms.
TEST(RecoveryMeter, ThinksOfOneUnitsDeathInThreeWays) {
  RecoveryMeter meter(Options(), kRecordBytes);
  meter.on_start(Instant{});
  for (int i = 1; i <= 200; ++i) {
    RunPacket(meter, Microseconds(20 * i), static_cast<uint64_t>(1 + i % 10));
  }
  // Two packets are queued when it dies.
  for (int i = 0; i < 2; ++i) {
    meter.on_enqueue(Instant{7'000'000}, kUnit, MetaOf(1));
  }
  RunPacket(meter, Microseconds(7'320), 1, UnitId{2});
  const RecoveryFigures figures = FiguresOf(meter);
  EXPECT_EQ(figures.samples, 1u);
  // A hop, and 10 states: 20 us and 1 us each.
  EXPECT_EQ(figures.logger_p50, 1'000u + 30'000u);
  // No checkpoint yet: 200 packets, and those that are queued.
  EXPECT_EQ(figures.checkpoint_p50, 20'000u + 2'000'000u + 20'000u);
  // A round trip, 10 requests, a hop and the states; then those queued.
  EXPECT_EQ(figures.datastore_p50,
            30'000u + 20'000u + 1'000u + 30'000u + 20'000u);
  EXPECT_EQ(figures.logger_path_p50, 3'000u);
  EXPECT_EQ(figures.checkpoint_path_p50, 6'000u);
  EXPECT_EQ(figures.datastore_path_p50, 0u);
  EXPECT_EQ(figures.datastore_requests, 201u);
}

TEST(RecoveryMeter, ReplaysFromTheLastCheckpointOn) {
  RecoveryMeter meter(Options(), kRecordBytes);
  meter.on_start(Instant{});
  for (int i = 1; i <= 100; ++i) RunPacket(meter, Microseconds(490 * i), 1);
  for (int i = 1; i <= 3; ++i)
    RunPacket(meter, Microseconds(50'100 + 20 * i), 2);
  // A sample at 51.1 ms, the seventh.
  RunPacket(meter, Microseconds(51'200), 1);
  const RecoveryFigures figures = FiguresOf(meter);
  EXPECT_EQ(figures.samples, 7u);
  EXPECT_EQ(figures.checkpoints, 1u);
  EXPECT_EQ(figures.checkpoint_bytes, 100u);
  // The longest is that of 43.8 ms, with 89 packets to replay.
  EXPECT_EQ(figures.checkpoint_p99, 20'000u + 890'000u);
  RecoveryMeter after(Options(), kRecordBytes);
  after.on_start(Instant{});
  RunPacket(after, Microseconds(49'990), 1);
  // It is copied for 1 us, and so a packet waits that ends amid it.
  after.on_service_end(Instant{50'000'400}, kUnit, MetaOf(1));
  EXPECT_EQ(FiguresOf(after).checkpoint_path_p99, 6'600u);
}

TEST(RecoveryMeter, FollowsFlowsToOtherUnitsAndForgetsThem) {
  RecoveryMeter meter(Options(), kRecordBytes);
  meter.on_start(Instant{});
  for (uint64_t flow = 1; flow <= 5; ++flow)
    RunPacket(meter, Microseconds(100), flow);
  RunPacket(meter, Microseconds(200), 1, UnitId{2});
  meter.on_end_flow(Instant{300'000}, kUnit, {.flow = FlowId{2}});
  // Flows 3 to 5 are at unit 1, flow 1 at unit 2.
  RunPacket(meter, Microseconds(7'400), 1, UnitId{2});
  const RecoveryFigures figures = FiguresOf(meter);
  EXPECT_EQ(figures.samples, 2u);
  // The histogram is as exact as this.
  EXPECT_EQ(figures.logger_p50 / 100, 220u);
  EXPECT_EQ(figures.logger_p99, 1'000u + 23'000u);
}

TEST(RecoveryMeter, LetsPacketsWaitForAStoreThatCannotKeepUp) {
  RunOptions options = Options();
  options.store.operation = Microseconds(100);
  RecoveryMeter meter(options, kRecordBytes);
  meter.on_start(Instant{});
  for (int i = 1; i <= 1'500; ++i) RunPacket(meter, Microseconds(20 * i), 1);
  // 1,000 updates may be under way; the last packet came to 1,200.
  const RecoveryFigures figures = FiguresOf(meter);
  EXPECT_EQ(figures.datastore_path_p50, 0u);
  EXPECT_GT(figures.datastore_path_p99, 15'000'000u);
  EXPECT_LT(figures.datastore_path_p99, 20'000'000u);
  // All that is not in the store yet would be replayed.
  EXPECT_GT(figures.datastore_p99, figures.datastore_p50);
}

}  // namespace
}  // namespace snf
