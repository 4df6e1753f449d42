// SPDX-License-Identifier: Apache-2.0
//
// Tests of the life of units, packets in and commands out. A unit's capacity is
// 1 Gbit/s.
#include "controller/units/unit_pool.h"

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1};

ControllerOptions Options(uint32_t units, uint32_t warm) {
  ControllerOptions options;
  options.load_signal = LoadSignal::kDemand;
  options.unit_idle_timeout = Milliseconds(100);
  options.max_flows = 1'000;
  options.max_units = units;
  options.warm_units = warm;
  options.flow_timeout = Seconds(5);
  return options;
}

TEST(UnitPool, TakesAWarmUnitForTheFirstPacket) {
  TestDriver driver(Options(2, 1));
  EXPECT_EQ(driver.units().placeable_units(), 0u);
  const Commands commands = driver.Packet(kStart, 1);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].kind, Kind::kStartUnit);
  EXPECT_TRUE(commands[0].warm);
  EXPECT_EQ(commands[1].kind, Kind::kEnqueue);
  EXPECT_EQ(commands[1].unit, kU0);
  driver.Ready(kStart, kU0);
  EXPECT_EQ(driver.Packet(kStart, 2).size(), 1u);
  driver.ExpectStatesAgree();
}

TEST(UnitPool, BuffersPacketsOfAStartingUnitUpToALimit) {
  ControllerOptions options = Options(1, 0);
  options.start_buffer_packets = 3;
  options.unit_queue_packets = 5;
  TestDriver driver(options);
  for (int i = 0; i < 4; ++i) driver.Packet(kStart, 1);
  EXPECT_EQ(driver.enqueued, 3u);
  const Commands full = driver.Packet(kStart, 1);
  ASSERT_EQ(full.size(), 1u);
  EXPECT_EQ(full[0].reason, DropReason::kStartBufferFull);
  driver.Ready(kStart, kU0);
  driver.Packet(kStart, 1);
  driver.Packet(kStart, 1);
  EXPECT_EQ(driver.enqueued, 5u);
  EXPECT_EQ(driver.Packet(kStart, 1)[0].reason, DropReason::kUnitQueueFull);
  EXPECT_EQ(driver.most_queued, 5u);
}

TEST(UnitPool, HasNoMoreRoomBeforeAUnitIsReadyThanAfter) {
  ControllerOptions options = Options(1, 0);
  options.start_buffer_packets = 256;
  options.unit_queue_packets = 5;
  TestDriver driver(options);
  for (int i = 0; i < 10; ++i) driver.Packet(kStart, 1);
  EXPECT_EQ(driver.enqueued, 5u);
}

TEST(UnitPool, UsesAgainTheSlotsThatDrain) {
  ControllerOptions options = Options(1, 1);
  options.unit_queue_packets = 4;
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  for (int i = 0; i < 10; ++i) driver.Packet(kStart, 1);
  EXPECT_EQ(driver.enqueued, 4u);
  EXPECT_EQ(driver.Drain(kStart, kU0, 3), 3u);
  for (int i = 0; i < 10; ++i) driver.Packet(kStart, 1);
  EXPECT_EQ(driver.enqueued, 7u);
  EXPECT_EQ(driver.dropped, 14u);
}

TEST(UnitPool, NeverExceedsTheHardCap) {
  TestDriver driver(Options(3, 1));
  for (uint32_t flow = 0; flow < 500; ++flow) {
    driver.Packet(kStart + Microseconds(flow), flow, 10'000);
    driver.ReadyAll(kStart + Microseconds(flow));
    driver.DrainAll(kStart + Microseconds(flow));
  }
  EXPECT_EQ(driver.units().placeable_units(), 3u);
  EXPECT_EQ(driver.warm + driver.cold, 3u);
  EXPECT_GT(driver.counters().overcommitted, 0u);
  EXPECT_EQ(driver.dropped, 0u);
}

TEST(UnitPool, ParksAUnitWhenItGotNoPacketForTheIdleTimeout) {
  TestDriver driver(Options(1, 1));
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.DrainAll(kStart);
  // A packet restarts the clock.
  const Instant last = kStart + Milliseconds(60);
  driver.RunTimers(last);
  driver.Packet(last, 1);
  driver.DrainAll(last);
  driver.RunTimers(last + Milliseconds(100) + Nanos{-1});
  EXPECT_EQ(driver.parked, 0u);
  driver.RunTimers(last + Milliseconds(100) + Microseconds(33));
  EXPECT_EQ(driver.parked, 1u);
  EXPECT_EQ(driver.units().placeable_units(), 0u);
  driver.ExpectStatesAgree();
}

TEST(UnitPool, RestartsTheIdleClockAlsoAtAPacketWithoutSlot) {
  ControllerOptions options = Options(1, 1);
  options.unit_queue_packets = 1;
  options.start_buffer_packets = 1;
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  const Instant last = kStart + Milliseconds(80);
  driver.Packet(last, 1);
  EXPECT_EQ(driver.dropped, 1u);
  driver.DrainAll(last);
  driver.RunTimers(last + Milliseconds(99));
  EXPECT_EQ(driver.parked, 0u);
  driver.RunTimers(last + Milliseconds(101));
  EXPECT_EQ(driver.parked, 1u);
}

TEST(UnitPool, DoesNotParkAUnitWithPackets) {
  TestDriver driver(Options(1, 1));
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.RunTimers(kStart + Seconds(3));
  EXPECT_EQ(driver.parked, 0u);
  driver.DrainAll(kStart + Seconds(3));
  driver.RunTimers(kStart + Seconds(3) + Milliseconds(101));
  EXPECT_EQ(driver.parked, 1u);
}

TEST(UnitPool, DoesNotParkAUnitWithOpenFlowlets) {
  ControllerOptions options = Options(1, 1);
  options.flowlet_timeout = Seconds(1);
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.DrainAll(kStart);
  driver.RunTimers(kStart + Seconds(1));
  EXPECT_EQ(driver.parked, 0u);
  driver.RunTimers(kStart + Seconds(1) + Milliseconds(101));
  EXPECT_EQ(driver.parked, 1u);
}

TEST(UnitPool, StopsAWarmUnitAfterKeepWarm) {
  ControllerOptions options = Options(1, 1);
  options.flow_timeout = Seconds(1);
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.DrainAll(kStart);
  driver.RunTimers(kStart + Seconds(30));
  EXPECT_EQ(driver.parked, 1u);
  EXPECT_EQ(driver.ended, 1u);
  EXPECT_EQ(driver.stopped, 0u);
  driver.RunTimers(kStart + Seconds(30) + Milliseconds(101));
  EXPECT_EQ(driver.stopped, 1u);
  driver.Stopped(kU0);
  driver.ExpectStatesAgree();
  EXPECT_EQ(driver.controller().next_wakeup(), Instant::max());
}

TEST(UnitPool, KeepsAWarmUnitThatOwnsFlowsUntilTheLastIsGone) {
  ControllerOptions options = Options(1, 1);
  options.flow_timeout = Seconds(200);
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.Packet(kStart + Milliseconds(50), 2);
  driver.DrainAll(kStart + Milliseconds(50));
  driver.RunTimers(kStart + Seconds(200) + Milliseconds(49));
  EXPECT_EQ(driver.ended, 1u);
  EXPECT_EQ(driver.stopped, 0u);
  driver.RunTimers(kStart + Seconds(200) + Milliseconds(51));
  EXPECT_EQ(driver.ended, 2u);
  EXPECT_EQ(driver.stopped, 1u);
}

TEST(UnitPool, TakesBackAUnitThatWaitsForItsFlowsToEnd) {
  ControllerOptions options = Options(1, 1);
  options.flow_timeout = Seconds(200);
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.DrainAll(kStart);
  driver.RunTimers(kStart + Seconds(100));
  const Instant back = kStart + Seconds(100);
  const Commands commands = driver.Packet(back, 1);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_TRUE(commands[0].warm);
  driver.Ready(back, kU0);
  driver.DrainAll(back);
  driver.RunTimers(back + Seconds(199));
  EXPECT_EQ(driver.parked, 2u);
  EXPECT_EQ(driver.stopped, 0u);
  driver.RunTimers(back + Seconds(201));
  EXPECT_EQ(driver.stopped, 1u);
}

TEST(UnitPool, RelievesAUnitOfItsFlowsAfterKeepWarmWhereAnotherIsActive) {
  ControllerOptions options = Options(2, 2);
  options.flow_timeout = Seconds(500);
  options.first_demand_bps = 600'000'000;
  options.replicas = 0;
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Packet(kStart, 2);
  driver.ReadyAll(kStart);
  EXPECT_EQ(driver.queued(kU1), 1u);
  // Flow 2 goes on at unit 1; unit 0 is parked, with flow 1.
  Instant now = kStart;
  const auto go_on_until = [&](Instant end) {
    for (; now < end; now = now + Milliseconds(50)) {
      driver.RunTimers(now);
      driver.Packet(now, 2);
      driver.DrainAll(now);
    }
  };
  go_on_until(kStart + Seconds(30) + Milliseconds(100));
  EXPECT_EQ(driver.state(kU0), UnitState::kWarm);
  EXPECT_EQ(driver.owned(kU0), 1u);
  go_on_until(kStart + Seconds(30) + Milliseconds(200));
  EXPECT_EQ(driver.state(kU0), UnitState::kStopping);
  EXPECT_EQ(driver.owned(kU0), 0u);
  EXPECT_EQ(driver.owned(kU1), 2u);
  EXPECT_FALSE(driver.units().placeable(kU0));
}

TEST(UnitPool, UsesAUnitInWhateverStateItIs) {
  ControllerOptions options = Options(4, 1);
  UnitPool pool(options);
  ControllerOut out;
  const UnitId u2{2}, u3{3};
  EXPECT_TRUE(pool.Use(kStart, kU0, out));  // warm
  ASSERT_EQ(out.commands().size(), 1u);
  EXPECT_TRUE(out.commands()[0].warm);
  EXPECT_TRUE(pool.Use(kStart, u2, out));  // stopped
  ASSERT_EQ(out.commands().size(), 2u);
  EXPECT_EQ(out.commands()[1].unit, u2);
  EXPECT_FALSE(out.commands()[1].warm);
  EXPECT_EQ(pool.StartStopped(kStart, out), kU1);
  ASSERT_EQ(out.commands().size(), 3u);
  EXPECT_FALSE(pool.placeable(kU1));
  EXPECT_EQ(pool.starting_units(), 1u);
  EXPECT_TRUE(pool.Use(kStart, kU1, out));  // starting
  EXPECT_EQ(pool.starting_units(), 0u);
  EXPECT_EQ(pool.placeable_units(), 3u);
  for (const UnitId unit : {kU0, kU1, u2}) pool.on_ready(kStart, unit);
  for (const UnitId unit : {kU0, kU1, u2}) {
    EXPECT_TRUE(pool.Use(kStart, unit, out));  // active
    EXPECT_EQ(pool.Ranked(value(unit)), unit);
  }
  EXPECT_EQ(out.commands().size(), 3u);
  EXPECT_EQ(pool.placeable_units(), 3u);
  EXPECT_EQ(pool.state(u3), UnitState::kStopped);
  EXPECT_EQ(pool.warm_starts(), 1u);
  EXPECT_EQ(pool.cold_starts(), 2u);
}

TEST(UnitPool, DoesNotUseAUnitThatIsStopping) {
  UnitPool pool(Options(2, 1));
  ControllerOut out;
  pool.Use(kStart, kU0, out);
  pool.on_ready(kStart, kU0);
  const Instant later = kStart + Seconds(31);
  while (pool.next_wakeup() <= later) pool.on_timer(pool.next_wakeup(), out);
  ASSERT_EQ(pool.state(kU0), UnitState::kStopping);
  out.clear();
  EXPECT_FALSE(pool.Use(later, kU0, out));
  EXPECT_EQ(pool.TakeWarm(later, out), kNoUnit);
  EXPECT_TRUE(out.empty());
  pool.on_stopped(kU0);
  EXPECT_TRUE(pool.Use(later, kU0, out));
  EXPECT_TRUE(pool.placeable(kU0));
}

TEST(UnitPool, GivesEachStartAHigherIncarnation) {
  UnitPool pool({.max_units = 3, .warm_units = 1, .first_incarnation = 40});
  ControllerOut out;
  EXPECT_TRUE(pool.Use(kStart, UnitId{2}, out));
  EXPECT_TRUE(pool.Use(kStart, kU0, out));
  EXPECT_TRUE(pool.Use(kStart, kU1, out));
  ASSERT_EQ(out.commands().size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out.commands()[i].kind, Kind::kStartUnit);
    EXPECT_EQ(out.commands()[i].incarnation, 40 + i);
  }
}

TEST(UnitPool, ScalesToZeroAndBack) {
  ControllerOptions options = Options(2, 0);
  options.flow_timeout = Seconds(1);
  TestDriver driver(options);
  Instant now = kStart;
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(driver.units().placeable_units(), 0u);
    driver.Packet(now, 1);
    driver.Ready(now + Milliseconds(40), kU0);
    driver.DrainAll(now + Milliseconds(40));
    driver.RunTimers(now + Seconds(40));
    EXPECT_EQ(driver.stopped, uint64_t(round));
    EXPECT_EQ(driver.cold, uint64_t(round));
    driver.Stopped(kU0);
    driver.ExpectStatesAgree();
    EXPECT_EQ(driver.controller().next_wakeup(), Instant::max());
    now = now + Seconds(50);
  }
}

TEST(UnitPool, DropsWhatComesWhileAllUnitsAreStopping) {
  ControllerOptions options = Options(1, 1);
  options.flow_timeout = Seconds(1);
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.DrainAll(kStart);
  Instant now = kStart + Seconds(31);
  driver.RunTimers(now);
  ASSERT_EQ(driver.stopped, 1u);
  for (int i = 0; i < 3; ++i) {
    const Commands commands = driver.Packet(now, 1);
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0].reason, DropReason::kStartBufferFull);
  }
  driver.Stopped(kU0);
  const Commands commands = driver.Packet(now, 1);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].kind, Kind::kStartUnit);
  EXPECT_EQ(commands[1].meta.flowlet, 1u);
  EXPECT_EQ(value(commands[1].meta.clock), 1u);
  EXPECT_EQ(commands[1].meta.flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kNewFlow);
  driver.Ready(now, kU0);
  driver.DrainAll(now);
  driver.RunTimers(now + Seconds(60));
  EXPECT_EQ(driver.stopped, 2u);
}

TEST(UnitPool, ForgetsAFlowThatNeverFoundAUnit) {
  ControllerOptions options = Options(1, 1);
  options.flow_timeout = Seconds(1);
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.DrainAll(kStart);
  driver.RunTimers(kStart + Seconds(31));
  driver.Packet(kStart + Seconds(31), 2);
  EXPECT_EQ(driver.controller().flows().size(), 1u);
  EXPECT_TRUE(driver.RunTimers(kStart + Seconds(33)).empty());
  EXPECT_EQ(driver.controller().flows().size(), 0u);
  EXPECT_EQ(driver.counters().flows_ended, 2u);
}

TEST(UnitPool, CountsWhatStillWaitsAtAUnitAsItsLoad) {
  ControllerOptions options = Options(1, 1);
  options.first_demand_bps = 1'000'000;
  TestDriver driver(options);
  for (uint32_t flow = 0; flow < 100; ++flow) {
    driver.Packet(kStart, flow, 125);
  }
  driver.Ready(kStart, kU0);
  driver.RunTimers(kStart + Milliseconds(1));  // all are closed
  EXPECT_EQ(driver.units().load(kU0), 103u);   // 12.5 KB in 1 ms
  driver.Drain(kStart + Milliseconds(1), kU0, 50);
  EXPECT_EQ(driver.units().load(kU0), 1u + 52u);  // 6.25 KB in 100 ms
  driver.DrainAll(kStart + Milliseconds(1));
  EXPECT_EQ(driver.units().load(kU0), 2u);
}

// Returns a pool of active units, from each of which 1.25 MB drained at kStart.
UnitPool DrainedUnits(uint32_t units) {
  UnitPool pool(Options(units, units));
  ControllerOut out;
  for (uint32_t i = 0; i < units; ++i) {
    out.clear();
    const UnitId unit = pool.TakeWarm(kStart, out);
    pool.on_ready(kStart, unit);
    pool.TakeSlot(kStart, unit, 1'250'000);
    pool.on_drained(kStart, {.unit = unit, .packets = 1, .bytes = 1'250'000});
  }
  EXPECT_EQ(pool.total_load(), units * 103u);
  return pool;
}

TEST(UnitPool, SeesAllLoadsAsTheyAreWithUpTo64Units) {
  UnitPool pool = DrainedUnits(64);
  pool.Refresh(kStart + Milliseconds(99));
  EXPECT_EQ(pool.total_load(), 64 * 103u);
  pool.Refresh(kStart + Milliseconds(100));
  EXPECT_EQ(pool.total_load(), 0u);
}

TEST(UnitPool, Sees64LoadsABucketAnd8ADecisionWithMoreUnits) {
  UnitPool pool = DrainedUnits(65);
  const Instant faded = kStart + Milliseconds(100);
  for (uint32_t i = 1; i <= 8; ++i) {
    pool.Refresh(faded);
    EXPECT_EQ(pool.total_load(), (65 - 8 * i) * 103);
  }
  pool.Refresh(faded);
  EXPECT_EQ(pool.total_load(), 103u);
  for (int i = 0; i < 8; ++i) pool.Refresh(faded + Microseconds(500));
  EXPECT_EQ(pool.total_load(), 0u);
}

// --- One unit ahead of need --------------------------------------------------

// Demands are 100 Mbit/s each: 103 quanta, of which the tenth does not fit.
// Packets have no bytes, so that they do not count themselves.
ControllerOptions Tenths(uint32_t units, uint32_t warm) {
  ControllerOptions options = Options(units, warm);
  options.first_demand_bps = 100'000'000;
  return options;
}

TEST(UnitPool, StartsOneAheadWhenAllAreAbove90Percent) {
  TestDriver driver(Tenths(4, 1));
  driver.Packet(kStart, 0, 0);
  driver.Ready(kStart, kU0);
  for (uint32_t flow = 1; flow < 8; ++flow) driver.Packet(kStart, flow, 0);
  EXPECT_EQ(driver.units().load(kU0), 820u);
  EXPECT_EQ(driver.cold, 0u);
  driver.Packet(kStart, 8, 0);  // 922 > 921
  EXPECT_EQ(driver.units().load(kU0), 922u);
  EXPECT_EQ(driver.cold, 1u);
  EXPECT_EQ(driver.units().starting_units(), 1u);
  EXPECT_FALSE(driver.units().placeable(kU1));
  EXPECT_EQ(driver.counters().overcommitted, 0u);
}

TEST(UnitPool, StartsOnlyOneAheadAtATime) {
  TestDriver driver(Tenths(4, 1));
  driver.Packet(kStart, 0, 0);
  driver.Ready(kStart, kU0);
  for (uint32_t flow = 1; flow < 9; ++flow) driver.Packet(kStart, flow, 0);
  ASSERT_EQ(driver.cold, 1u);
  // Still above 90 %, and the tenth overcommits: no second one.
  driver.Packet(kStart, 9, 0);
  EXPECT_EQ(driver.counters().overcommitted, 1u);
  EXPECT_EQ(driver.cold, 1u);
  driver.Ready(kStart, kU1);
  EXPECT_TRUE(driver.units().placeable(kU1));
  driver.Packet(kStart, 10, 0);
  EXPECT_EQ(driver.cold, 1u);
  EXPECT_EQ(driver.units().load(kU1), 103u);
}

TEST(UnitPool, TakesAWarmUnitAheadBeforeACold) {
  TestDriver driver(Tenths(4, 2));
  driver.Packet(kStart, 0, 0);
  driver.Ready(kStart, kU0);
  for (uint32_t flow = 1; flow < 9; ++flow) driver.Packet(kStart, flow, 0);
  EXPECT_EQ(driver.warm, 2u);
  EXPECT_EQ(driver.cold, 0u);
  EXPECT_TRUE(driver.units().placeable(kU1));
  driver.Packet(kStart, 9, 0);
  EXPECT_EQ(driver.queued(kU1), 1u);
}

TEST(UnitPool, HasNoOpenFlowletsLeftWhenTrafficEnds) {
  TestDriver driver(Tenths(4, 1));
  for (uint32_t flow = 0; flow < 30; ++flow) driver.Packet(kStart, flow);
  driver.ReadyAll(kStart);
  driver.DrainAll(kStart);
  driver.RunTimers(kStart + Milliseconds(1));
  for (uint32_t i = 0; i < 4; ++i) {
    if (!driver.units().placeable(TestDriver::Id(i))) continue;
    EXPECT_LE(driver.units().load(TestDriver::Id(i)), 5u) << i;  // drained only
  }
}

TEST(UnitPool, SeesLoadsFadeAtTheNextDecision) {
  ControllerOptions options = Options(2, 1);
  options.load_signal = LoadSignal::kDrained;
  TestDriver driver(options);
  driver.Packet(kStart, 0);
  driver.Ready(kStart, kU0);
  for (int i = 0; i < 50; ++i) driver.Packet(kStart, 0, 15'000);
  driver.DrainAll(kStart);
  EXPECT_EQ(driver.units().load(kU0), 62u);
  driver.RunTimers(kStart + Milliseconds(90));
  driver.Packet(kStart + Milliseconds(99), 1);
  EXPECT_EQ(driver.units().load(kU0), 62u);
  driver.Packet(kStart + Milliseconds(101), 1);
  EXPECT_EQ(driver.units().load(kU0), 0u);
}

}  // namespace
}  // namespace snf
