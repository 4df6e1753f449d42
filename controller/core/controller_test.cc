// SPDX-License-Identifier: Apache-2.0
//
// Tests of clocks, metadata, the ends of flows, and the contract with the
// driver.
#include "controller/core/controller.h"

#include <tuple>
#include <vector>

#include "base/rng.h"
#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr Nanos kGap = Milliseconds(1);
constexpr UnitId kU0{0}, kU1{1};

ControllerOptions Options(uint32_t flows = 100) {
  ControllerOptions options;
  options.load_signal = LoadSignal::kDemand;
  options.unit_idle_timeout = Milliseconds(100);
  options.alpha_1024 = 256;
  options.max_flows = flows;
  options.max_units = 4;
  options.flow_timeout = Seconds(5);
  return options;
}

PacketMeta MetaOf(const Commands& commands) {
  const Commands enqueued = Only(Kind::kEnqueue, commands);
  EXPECT_EQ(enqueued.size(), 1u);
  return enqueued.empty() ? PacketMeta{} : enqueued[0].meta;
}

TEST(Controller, NamesAndNumbersAFlowsFirstPacket) {
  ControllerOptions options = Options();
  options.controller_id = 7;
  TestDriver driver(options);
  const Commands commands = driver.Packet(kStart, 1, 321);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[1].packet, PacketHandle{0});
  const PacketMeta& meta = commands[1].meta;
  EXPECT_EQ(meta.flow, MakeFlowId(7, 0, 0));
  EXPECT_EQ(value(meta.clock), 1u);
  EXPECT_EQ(meta.arrival, kStart);
  EXPECT_EQ(meta.channel_number, 1u);
  EXPECT_EQ(meta.flowlet, 1u);
  EXPECT_EQ(meta.original_length, 321u);
  EXPECT_EQ(meta.source_kind, StateSource::kNone);
  EXPECT_EQ(meta.flags, PacketMeta::kFirstOfFlowlet | PacketMeta::kNewFlow);
}

TEST(Controller, CountsClocksPerFlowAndNumbersPerUnit) {
  TestDriver driver(Options());
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(value(MetaOf(driver.Packet(kStart, 1)).clock), i);
    const PacketMeta other = MetaOf(driver.Packet(kStart, 2));
    EXPECT_EQ(value(other.clock), i);
    EXPECT_EQ(other.channel_number, 2 * i);
  }
}

TEST(Controller, GivesNoClockToADroppedPacket) {
  ControllerOptions options = Options();
  options.unit_queue_packets = options.start_buffer_packets = 2;
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Packet(kStart, 1);
  EXPECT_EQ(driver.Packet(kStart, 1)[0].kind, Kind::kDrop);
  driver.DrainAll(kStart);
  const PacketMeta meta = MetaOf(driver.Packet(kStart, 1));
  EXPECT_EQ(value(meta.clock), 3u);
  EXPECT_EQ(meta.channel_number, 3u);
}

TEST(Controller, FlagsThePacketOfAFlowletThatIsFirstToBeEnqueued) {
  ControllerOptions options = Options();
  options.unit_queue_packets = options.start_buffer_packets = 1;
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  // The second flowlet's first packet, and all of a new flow's, find no slot.
  EXPECT_EQ(driver.Packet(kStart + kGap, 1)[0].kind, Kind::kDrop);
  EXPECT_EQ(driver.Packet(kStart + kGap, 2)[0].kind, Kind::kDrop);
  driver.DrainAll(kStart + kGap);
  const PacketMeta second = MetaOf(driver.Packet(kStart + kGap, 1));
  EXPECT_EQ(second.flowlet, 2u);
  EXPECT_EQ(second.flags, PacketMeta::kFirstOfFlowlet);
  EXPECT_EQ(second.source_kind, StateSource::kUnit);
  EXPECT_EQ(second.source, kU0);
  driver.DrainAll(kStart + kGap);
  const PacketMeta later = MetaOf(driver.Packet(kStart + kGap + kGap, 2));
  EXPECT_EQ(value(later.clock), 1u);
  EXPECT_EQ(later.flowlet, 2u);
  EXPECT_EQ(later.flags, PacketMeta::kFirstOfFlowlet | PacketMeta::kNewFlow);
  EXPECT_EQ(later.source_kind, StateSource::kNone);
}

TEST(Controller, SaysWhereTheStateOfAMovedFlowletIs) {
  ControllerOptions options = Options();
  options.warm_units = 2;
  options.first_demand_bps = 600'000'000;
  TestDriver driver(options);
  // Each flow has its own unit; then flow 1 needs half of it, and joins flow 2.
  driver.Packet(kStart, 1);
  driver.Packet(kStart + kGap, 2);
  driver.Packet(kStart + kGap, 2);
  const Commands commands =
      Only(Kind::kEnqueue, driver.Packet(kStart + kGap, 1));
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].unit, kU1);
  EXPECT_EQ(commands[0].meta.source, kU0);
  EXPECT_EQ(commands[0].meta.source_kind, StateSource::kUnit);
  EXPECT_EQ(commands[0].meta.flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kMoved);
  EXPECT_EQ(commands[0].meta.channel_number, 3u);
  EXPECT_GE(driver.counters().flowlets_moved, 1u);
  EXPECT_EQ(MetaOf(driver.Packet(kStart + kGap, 1)).flags, 0);
}

TEST(Controller, EndsAFlowAtItsOwnerWithItsLastClock) {
  TestDriver driver(Options());
  const FlowId flow = MetaOf(driver.Packet(kStart, 1)).flow;
  driver.Packet(kStart + kGap, 1);
  const Instant last = kStart + kGap;
  driver.DrainAll(last);
  EXPECT_TRUE(driver.RunTimers(last + Seconds(5) + Nanos{-1}).empty());
  const Commands commands =
      driver.RunTimers(last + Seconds(5) + Microseconds(33));
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kEndFlow);
  EXPECT_EQ(commands[0].unit, kU0);
  EXPECT_EQ(commands[0].end.flow, flow);
  EXPECT_EQ(value(commands[0].end.last), 2u);
  EXPECT_EQ(driver.counters().flows_ended, 1u);
}

TEST(Controller, KeepsAFlowWhosePacketCameInTime) {
  TestDriver driver(Options());
  Instant now = kStart;
  for (int i = 0; i < 10; ++i, now = now + Seconds(5) + Nanos{-1}) {
    driver.Packet(now, 1);
    driver.DrainAll(now);
    driver.ReadyAll(now);
    driver.RunTimers(now + Seconds(4));
  }
  EXPECT_EQ(driver.counters().flows, 1u);
  EXPECT_EQ(driver.ended, 0u);
}

TEST(Controller, GivesTheNextFlowOfASlotAnotherId) {
  TestDriver driver(Options(1));
  Instant now = kStart;
  for (uint32_t generation = 0; generation < 5; ++generation) {
    const PacketMeta meta = MetaOf(driver.Packet(now, generation % 2));
    EXPECT_EQ(slot_of(meta.flow), 0u);
    EXPECT_EQ(generation_of(meta.flow), generation);
    EXPECT_EQ(value(meta.clock), 1u);
    driver.DrainAll(now);
    now = now + Seconds(10);
    driver.RunTimers(now);
  }
}

TEST(Controller, DropsNewFlowsWhileItsTableIsFull) {
  TestDriver driver(Options(2));
  driver.Packet(kStart, 1);
  driver.Packet(kStart, 2);
  const Commands commands = driver.Packet(kStart, 3);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kDrop);
  EXPECT_EQ(commands[0].reason, DropReason::kFlowTableFull);
  EXPECT_EQ(commands[0].packet, PacketHandle{2});
  EXPECT_EQ(driver.counters().flows, 2u);
  EXPECT_EQ(MetaOf(driver.Packet(kStart, 1)).flowlet, 1u);
  driver.DrainAll(kStart);
  const Instant later = kStart + Seconds(6);
  driver.RunTimers(later);
  EXPECT_EQ(MetaOf(driver.Packet(later, 3)).flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kNewFlow);
}

TEST(Controller, NeverForgetsFlowsWhereTheTimeoutIsNever) {
  ControllerOptions options = Options();
  options.flow_timeout = Nanos::max();
  TestDriver driver(options);
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  driver.DrainAll(kStart);
  driver.RunTimers(Instant::max() + Nanos{-1});
  EXPECT_EQ(driver.ended, 0u);
  EXPECT_EQ(driver.parked, 1u);
  EXPECT_EQ(driver.controller().next_wakeup(), Instant::max());
  EXPECT_EQ(MetaOf(driver.Packet({Instant::max().ns - 1}, 1)).flowlet, 2u);
}

TEST(Controller, CostsNothingWhileNothingHappens) {
  constexpr int64_t kYear = 365 * 86'400;
  for (const Nanos flow_timeout : {Seconds(5), Seconds(50 * kYear)}) {
    ControllerOptions options = Options();
    options.flow_timeout = flow_timeout;
    TestDriver driver(options);
    driver.Packet(kStart, 1);
    driver.Packet(kStart, 2);
    driver.Ready(kStart, kU0);
    driver.DrainAll(kStart);
    driver.RunTimers(kStart + Seconds(100 * kYear));
    EXPECT_EQ(driver.ended, 2u);
    EXPECT_EQ(driver.stopped, 1u);
    EXPECT_LE(driver.timer_calls, 40u);
    EXPECT_EQ(MetaOf(driver.Packet(kStart + Seconds(100 * kYear), 1)).flowlet,
              1u);
  }
}

std::vector<Arrival> Burst(uint32_t flows, size_t count) {
  Rng rng(flows);
  std::vector<Arrival> arrivals;
  for (size_t i = 0; i < count; ++i) {
    arrivals.push_back({.key = Flow(static_cast<uint32_t>(rng.Below(flows))),
                        .time = kStart + Microseconds(int64_t(i)),
                        .original_length = 1'400,
                        .packet = PacketHandle{static_cast<uint32_t>(i)}});
  }
  return arrivals;
}

TEST(Controller, StopsWhereTheCommandsOfOneMoreMightNotFit) {
  const std::vector<Arrival> arrivals = Burst(50, 1'000);
  Controller controller(Options(), *FindPlacementPolicy("snf"));
  ControllerOut out;
  const size_t done =
      controller.on_packets(arrivals.back().time, arrivals, out);
  EXPECT_LT(done, arrivals.size());
  EXPECT_GT(done, 200u);
  EXPECT_LT(out.room(), kMaxControllerCommandsPerStep);
  EXPECT_EQ(controller.on_packets(arrivals.back().time, arrivals, out), 0u);
}

TEST(Controller, CommandsTheSameInAnyBurstsExpectedOrNot) {
  const std::vector<Arrival> arrivals = Burst(300, 5'000);
  ControllerOptions options = Options(200);
  options.unit_capacity_bps = 100'000'000;
  std::vector<Commands> all;
  for (const size_t burst : {1, 2, 31, 32, 33, 5'000}) {
    for (const size_t expect_each : {0, 1, 3}) {
      TestDriver driver(options);
      driver.expect_each = expect_each;
      all.push_back(driver.Send(arrivals.back().time, arrivals, burst));
    }
  }
  for (const Commands& commands : all) {
    ASSERT_EQ(commands.size(), all[0].size());
    for (size_t i = 0; i < commands.size(); ++i) {
      ASSERT_EQ(commands[i].kind, all[0][i].kind);
      ASSERT_EQ(commands[i].unit, all[0][i].unit);
      ASSERT_EQ(commands[i].packet, all[0][i].packet);
      if (commands[i].kind != Kind::kEnqueue) continue;
      ASSERT_EQ(commands[i].meta.clock, all[0][i].meta.clock);
      ASSERT_EQ(commands[i].meta.flow, all[0][i].meta.flow);
    }
  }
}

TEST(Controller, BeginsAFlowAnewThatEndedWhileItsPacketsWereExpected) {
  constexpr uint32_t kPackets = 32;
  TestDriver driver(Options());
  const PacketMeta before = MetaOf(driver.Packet(kStart, 1));
  driver.DrainAll(kStart);
  const Instant late = kStart + Seconds(10);
  std::vector<Arrival> batch;
  for (uint32_t i = 0; i < kPackets; ++i) {
    batch.push_back({.key = Flow(1),
                     .time = late,
                     .original_length = 100,
                     .packet = PacketHandle{100 + i}});
    driver.controller().Expect(batch);
  }
  ASSERT_EQ(batch[0].slot, slot_of(before.flow));
  driver.RunTimers(late);
  ASSERT_EQ(driver.ended, 1u);
  const Commands commands = Only(Kind::kEnqueue, driver.Send(late, batch));
  ASSERT_EQ(commands.size(), kPackets);
  for (uint32_t i = 0; i < kPackets; ++i) {
    EXPECT_EQ(value(commands[i].meta.clock), i + 1);
    EXPECT_EQ(slot_of(commands[i].meta.flow), slot_of(before.flow));
    EXPECT_NE(commands[i].meta.flow, before.flow);
  }
}

TEST(Controller, ResumesTimersWhereOutWasFull) {
  ControllerOptions options = Options(2'000);
  Controller controller(options, *FindPlacementPolicy("snf"));
  ControllerOut out;
  for (uint32_t flow = 0; flow < 1'000; ++flow) {
    const Arrival arrival = {
        .key = Flow(flow), .time = kStart, .original_length = 1, .packet = {}};
    out.clear();
    EXPECT_EQ(controller.on_packets(kStart, {&arrival, 1}, out), 1u);
    if (out.commands().back().kind != Kind::kEnqueue) continue;
    controller.on_drained(kStart, {out.commands().back().unit, 1, 1});
  }
  const Instant late = kStart + Seconds(60);
  size_t ended = 0, calls = 0;
  for (; controller.next_wakeup() <= late && calls < 20; ++calls) {
    out.clear();
    controller.on_timers(late, out);
    ended += out.commands().size();
    // A timer that this call arms may be due only in the next one.
  }
  EXPECT_EQ(ended, 1'000u);
  EXPECT_EQ(controller.flows().size(), 0u);
  EXPECT_GE(calls, 1'000u / 256);
}

TEST(Controller, IsAValue) {
  TestDriver driver(Options());
  driver.Packet(kStart, 1);
  driver.Ready(kStart, kU0);
  TestDriver copy = driver;
  const PacketMeta one = MetaOf(driver.Packet(kStart, 1));
  driver.DrainAll(kStart);
  driver.RunTimers(kStart + Seconds(60));
  EXPECT_EQ(driver.controller().flows().size(), 0u);
  EXPECT_EQ(copy.controller().flows().size(), 1u);
  const PacketMeta other = MetaOf(copy.Packet(kStart, 1));
  EXPECT_EQ(one.clock, other.clock);
  EXPECT_EQ(one.flow, other.flow);
  EXPECT_EQ(one.channel_number, other.channel_number);
  copy.DrainAll(kStart);
  copy.RunTimers(kStart + Seconds(60));
  EXPECT_EQ(copy.parked, 1u);
}

// --- What an observer sees ---------------------------------------------------

struct Recorder : DecisionObserver {
  void on_decision(const Decision& decision, const UnitPool& pool) override {
    decisions.push_back(decision);
    loads.push_back(pool.load(decision.placement.unit));
  }
  std::vector<Decision> decisions;
  std::vector<uint32_t> loads;
};

// There are three flowlets of each of two flows.
TEST(Controller, CountsAsDecisionsWhereThePolicyHadAChoice) {
  const auto decisions = [](std::string_view policy) {
    ControllerOptions options = Options();
    options.reassign_period = Milliseconds(2);
    TestDriver driver(options, *FindPlacementPolicy(policy));
    Recorder recorder;
    driver.controller().set_decision_observer(&recorder);
    for (int i = 0; i < 3; ++i) {
      driver.Packet(kStart + Milliseconds(i), 1);
      driver.Packet(kStart + Milliseconds(i), 2);
      driver.ReadyAll(kStart + Milliseconds(i));
      driver.DrainAll(kStart + Milliseconds(i));
    }
    EXPECT_EQ(recorder.decisions.size(), 6u);  // all are shown
    return driver.counters().decisions;
  };
  EXPECT_EQ(decisions("snf"), 6u);
  EXPECT_EQ(decisions("vanilla_flow"), 2u);
  EXPECT_EQ(decisions("hash"), 2u);
  EXPECT_EQ(decisions("smart_flow"), 4u);
}

TEST(Controller, ShowsEachDecisionBeforeItTakesEffect) {
  TestDriver driver(Options());
  Recorder recorder;
  driver.controller().set_decision_observer(&recorder);
  driver.Packet(kStart, 1, 1'500);
  driver.DrainAll(kStart);
  driver.Packet(kStart + kGap, 1, 14'000);
  driver.DrainAll(kStart + kGap);
  driver.Packet(kStart + kGap, 1, 2'000);
  ASSERT_EQ(recorder.decisions.size(), 3u);
  EXPECT_EQ(driver.counters().decisions, 3u);
  const auto& [first, gap, bytes] = std::tie(
      recorder.decisions[0], recorder.decisions[1], recorder.decisions[2]);
  EXPECT_EQ(first.cause, FlowletCause::kNewFlow);
  EXPECT_EQ(first.gap, Nanos{0});
  EXPECT_EQ(first.bytes, 0u);
  EXPECT_EQ(first.demand_bps, 10'000'000);
  EXPECT_EQ(first.request.owner, kNoUnit);
  EXPECT_EQ(recorder.loads[0], 0u);
  EXPECT_EQ(gap.cause, FlowletCause::kGap);
  EXPECT_EQ(gap.gap, kGap);
  EXPECT_EQ(gap.bytes, 1'500u);
  EXPECT_EQ(gap.demand_bps, 17'000'000);  // half of 10, half of 24
  EXPECT_EQ(gap.request.owner, kU0);
  EXPECT_EQ(gap.request.alpha, 256u);
  EXPECT_EQ(recorder.loads[1], 1u);  // 1,500 bytes in 100 ms
  EXPECT_EQ(bytes.cause, FlowletCause::kBytes);
  EXPECT_EQ(bytes.bytes, 14'000u);
  EXPECT_EQ(bytes.flowlet, 3u);
  EXPECT_EQ(driver.units().load(kU0), 124u);  // (17 + 224) / 2 Mbit/s
}

}  // namespace
}  // namespace snf
