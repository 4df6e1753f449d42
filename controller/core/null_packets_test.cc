// SPDX-License-Identifier: Apache-2.0
//
// Tests how a unit that is to stop is relieved of its flows by null packets
// (U8); timer_packet_test.cc has those for timers.
#include "controller/core/null_packets.h"

#include <optional>
#include <vector>

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr Nanos kKeepWarm = Milliseconds(50);
constexpr UnitId kU0{0}, kU1{1}, kU2{2};
constexpr uint32_t kBusy = 10'000;  // the flow that keeps a unit in use

ControllerOptions Options(uint32_t units = 2) {
  ControllerOptions options;
  options.load_signal = LoadSignal::kDemand;
  options.unit_idle_timeout = Milliseconds(100);
  options.max_flows = 5'000;
  options.max_units = units;
  options.warm_units = units;
  options.unit_queue_packets = options.start_buffer_packets = 2'000;
  options.replicas = 0;
  options.flow_timeout = Seconds(100);
  options.unit_idle_timeout = Milliseconds(20);
  options.keep_warm = kKeepWarm;
  return options;
}

class ScaleInTest : public testing::Test {
 protected:
  void Make(const ControllerOptions& options) {
    driver_.emplace(options, policy_);
    now_ = kStart;
  }
  // Sends the first packets of these flows to `unit`.
  void Run(UnitId unit, uint32_t first_flow, uint32_t flows) {
    policy_.unit = unit;
    for (uint32_t i = 0; i < flows; ++i) {
      driver_->Packet(now_, first_flow + i);
      driver_->ReadyAll(now_);
      driver_->DrainAll(now_);
    }
  }
  // Lets time pass, with a packet of the busy flow at `unit` now and then,
  // until `leaving` is to stop. Returns the commands of the last timers.
  Commands RunUntilStop(UnitId unit, UnitId leaving) {
    policy_.unit = unit;
    for (int i = 0; i < 100; ++i) {
      const Commands commands = driver_->RunTimers(now_);
      if (driver_->state(leaving) == UnitState::kStopping) return commands;
      now_ = now_ + Milliseconds(5);
      driver_->Packet(now_, kBusy);
      driver_->ReadyAll(now_);
      if (drain_) driver_->DrainAll(now_);
    }
    ADD_FAILURE() << "unit " << value(leaving) << " stays";
    return {};
  }
  Instant next_wakeup() { return driver_->controller().next_wakeup(); }
  const ControllerCounters& counters() const { return driver_->counters(); }

  DirectedPolicy policy_;
  std::optional<TestDriver> driver_;
  Instant now_ = kStart;
  bool drain_ = true;
};

TEST_F(ScaleInTest, MovesAFlowByANullPacket) {
  Make(Options());
  Run(kU0, 1, 1);
  Run(kU1, kBusy, 1);
  const Commands commands = RunUntilStop(kU1, kU0);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].kind, Kind::kStopUnit);
  EXPECT_EQ(commands[0].unit, kU0);
  EXPECT_EQ(commands[1].kind, Kind::kEnqueue);
  EXPECT_EQ(commands[1].unit, kU1);
  EXPECT_EQ(commands[1].packet, kNoPacket);
  const PacketMeta& meta = commands[1].meta;
  EXPECT_EQ(meta.flow, MakeFlowId(0, 0, 0));
  EXPECT_EQ(value(meta.clock), 2u);
  EXPECT_EQ(meta.flowlet, 1u);
  EXPECT_EQ(meta.original_length, 0u);
  EXPECT_EQ(meta.source_kind, StateSource::kUnit);
  EXPECT_EQ(meta.source, kU0);
  EXPECT_EQ(meta.flags, PacketMeta::kFirstOfFlowlet | PacketMeta::kNull);
  EXPECT_GT(meta.arrival, kStart + kKeepWarm);

  EXPECT_EQ(counters().null_packets, 1u);
  EXPECT_EQ(counters().evacuations, 1u);
  EXPECT_EQ(counters().enqueued, driver_->enqueued);
  EXPECT_EQ(counters().flowlets_moved, 0u);
  driver_->Stopped(kU0);
  driver_->ExpectStatesAgree();
  driver_->ExpectOwnersAgree();
}

TEST_F(ScaleInTest, GoesOnWithTheNextPacketFromTheReceiver) {
  Make(Options(3));
  Run(kU0, 1, 1);
  Run(kU1, kBusy, 1);
  RunUntilStop(kU1, kU0);
  policy_.unit = kU2;
  const Commands commands = Only(Kind::kEnqueue, driver_->Packet(now_, 1));
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(policy_.last.owner, kU1);
  EXPECT_EQ(commands[0].unit, kU2);
  EXPECT_EQ(value(commands[0].meta.clock), 3u);
  EXPECT_EQ(commands[0].meta.flowlet, 2u);
  EXPECT_EQ(commands[0].meta.source, kU1);
  EXPECT_EQ(commands[0].meta.flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kMoved);
}

TEST_F(ScaleInTest, MovesEachOfManyFlowsOnceAndNoOthers) {
  ControllerOptions options = Options();
  options.evacuate_slots = 64;
  Make(options);
  Run(kU0, 1, 700);
  Run(kU1, kBusy, 500);
  Run(kU0, 701, 300);
  RunUntilStop(kU1, kU0);
  EXPECT_EQ(driver_->null_packets, 1'000u);
  EXPECT_EQ(driver_->evacuated, 1u);
  EXPECT_EQ(driver_->owned(kU0), 0u);
  EXPECT_EQ(driver_->owned(kU1), 1'500u);
  // It ends by itself: nothing is due before the flows' and units' timers.
  EXPECT_GT(next_wakeup(), now_);
}

TEST_F(ScaleInTest, LooksAtSoManySlotsAStep) {
  const auto calls = [&](uint32_t evacuate_slots) {
    ControllerOptions options = Options();
    options.evacuate_slots = evacuate_slots;
    Make(options);
    Run(kU1, kBusy, 35);
    Run(kU0, 1, 1);
    RunUntilStop(kU1, kU0);
    EXPECT_EQ(driver_->null_packets, 1u);
    return driver_->timer_calls;
  };
  // The 36th slot is found in the first of its steps, or in the fourth.
  EXPECT_EQ(calls(10), calls(36) + 3);
  EXPECT_EQ(calls(35), calls(36) + 1);
}

TEST_F(ScaleInTest, GoesRoundTheTableFromWhereItCameTo) {
  ControllerOptions options = Options();
  options.evacuate_slots = 10;
  Make(options);
  Run(kU1, kBusy, 30);
  Run(kU0, 1, 2);
  RunUntilStop(kU1, kU0);
  driver_->Stopped(kU0);
  Run(kU0, kBusy + 1, 2);
  Run(kU0, 1, 1);
  RunUntilStop(kU1, kU0);
  EXPECT_EQ(driver_->null_packets, 5u);
  EXPECT_EQ(driver_->owned(kU0), 0u);
  EXPECT_EQ(driver_->evacuated, 2u);
}

TEST_F(ScaleInTest, RelievesSeveralUnitsInOneScan) {
  const auto calls = [&](uint32_t evacuate_slots) {
    ControllerOptions options = Options(4);
    options.evacuate_slots = evacuate_slots;
    Make(options);
    Run(kU0, 1, 30);
    Run(kU2, 31, 30);
    Run(kU0, 61, 30);
    Run(kU1, kBusy, 1);
    RunUntilStop(kU1, kU0);
    EXPECT_EQ(driver_->state(kU2), UnitState::kStopping);
    EXPECT_EQ(driver_->null_packets, 90u);
    EXPECT_EQ(driver_->evacuated, 2u);
    driver_->ExpectStatesAgree();
    return driver_->timer_calls;
  };
  // A step with commands goes on in the call after it, hence not 9.
  EXPECT_EQ(calls(10), calls(90) + 8);
}

TEST_F(ScaleInTest, GivesNoClockWithoutASlotAndTriesLater) {
  ControllerOptions options = Options();
  options.unit_queue_packets = options.start_buffer_packets = 3;
  Make(options);
  Run(kU0, 1, 10);
  Run(kU1, kBusy, 1);
  RunUntilStop(kU1, kU0);
  const auto expect_moved = [&](uint64_t count) {
    driver_->RunTimers(now_);
    EXPECT_EQ(driver_->null_packets, count);
    EXPECT_EQ(driver_->owned(kU0), 10 - count);
  };
  expect_moved(3);
  EXPECT_LE(next_wakeup(), now_ + Milliseconds(1));
  driver_->Drain(now_, kU1, 2);
  expect_moved(3);
  now_ = now_ + Milliseconds(1);
  expect_moved(5);
  EXPECT_LE(next_wakeup(), now_ + Milliseconds(1));
  now_ = now_ + Milliseconds(1);
  expect_moved(5);
  driver_->DrainAll(now_);
  now_ = now_ + Milliseconds(1);
  expect_moved(8);
  driver_->DrainAll(now_);
  now_ = now_ + Milliseconds(1);
  expect_moved(10);
  EXPECT_EQ(driver_->evacuated, 1u);
}

TEST_F(ScaleInTest, LeavesAFlowThatItsOwnPacketMoves) {
  ControllerOptions options = Options();
  options.unit_queue_packets = options.start_buffer_packets = 1;
  Make(options);
  Run(kU0, 1, 3);
  Run(kU1, kBusy, 1);
  RunUntilStop(kU1, kU0);
  ASSERT_EQ(driver_->null_packets, 1u);  // of flow 1
  driver_->DrainAll(now_);
  const Commands commands = driver_->Packet(now_, 3);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].meta.source, kU0);
  EXPECT_EQ(commands[0].meta.flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kMoved);
  driver_->DrainAll(now_);
  now_ = now_ + Milliseconds(1);
  driver_->RunTimers(now_);
  EXPECT_EQ(driver_->null_packets, 2u);
  EXPECT_EQ(driver_->evacuated, 1u);
  EXPECT_EQ(driver_->owned(kU1), 4u);
}

TEST_F(ScaleInTest, CountsAUnitWhoseLastFlowEndsMeanwhile) {
  ControllerOptions options = Options();
  options.unit_queue_packets = options.start_buffer_packets = 1;
  options.flow_timeout = Milliseconds(100);
  Make(options);
  Run(kU0, 1, 2);
  Run(kU1, kBusy, 1);
  drain_ = false;
  driver_->Packet(now_, kBusy);
  RunUntilStop(kU1, kU0);
  EXPECT_EQ(driver_->null_packets, 0u);
  now_ = kStart + Milliseconds(101);
  driver_->RunTimers(now_);
  EXPECT_EQ(driver_->ended, 2u);
  EXPECT_EQ(driver_->evacuated, 1u);
  EXPECT_EQ(counters().evacuations, 1u);
  driver_->Stopped(kU0);
}

TEST_F(ScaleInTest, EndsAMovedFlowAtItsReceiverAndInTime) {
  ControllerOptions options = Options();
  options.flow_timeout = Milliseconds(200);
  Make(options);
  Run(kU0, 1, 1);
  Run(kU1, kBusy, 1);
  RunUntilStop(kU1, kU0);
  driver_->DrainAll(now_);
  const Commands commands =
      Only(Kind::kEndFlow, driver_->RunTimers(kStart + Milliseconds(201)));
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].unit, kU1);
  EXPECT_EQ(value(commands[0].end.last), 2u);
}

TEST_F(ScaleInTest, KeepsAUnitWarmWhileThereIsNoReceiver) {
  Make(Options());
  Run(kU0, 1, 2);
  driver_->RunTimers(kStart + Seconds(50));
  EXPECT_EQ(driver_->state(kU0), UnitState::kWarm);
  EXPECT_GT(next_wakeup(), kStart + Seconds(50));
  EXPECT_LT(driver_->timer_calls, 30u);
  now_ = kStart + Seconds(50);
  Run(kU1, kBusy, 1);
  const Commands commands = driver_->RunTimers(now_ + Microseconds(33));
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[0].kind, Kind::kStopUnit);
  EXPECT_EQ(commands[1].unit, kU1);
  EXPECT_EQ(driver_->null_packets, 2u);
}

TEST_F(ScaleInTest, StopsAUnitThatWaitsWhenItsLastFlowIsGone) {
  ControllerOptions options = Options();
  options.flow_timeout = Seconds(1);
  Make(options);
  Run(kU0, 1, 2);
  driver_->RunTimers(kStart + Milliseconds(990));
  EXPECT_EQ(driver_->state(kU0), UnitState::kWarm);
  driver_->RunTimers(kStart + Milliseconds(1'001));
  EXPECT_EQ(driver_->state(kU0), UnitState::kStopping);
  EXPECT_EQ(driver_->null_packets, 0u);
  EXPECT_EQ(driver_->evacuated, 0u);
}

TEST_F(ScaleInTest, WaitsQuietlyWhileTheReceiverIsGone) {
  ControllerOptions options = Options(3);
  options.unit_queue_packets = options.start_buffer_packets = 1;
  options.unit_idle_timeout = Microseconds(600);
  Make(options);
  Run(kU0, 1, 2);
  Run(kU1, kBusy, 1);
  drain_ = false;
  RunUntilStop(kU1, kU0);
  // Unit 1 was full at the last try, and is parked before the next.
  driver_->DrainAll(now_);
  driver_->RunTimers(now_ + Microseconds(990));
  ASSERT_EQ(driver_->state(kU1), UnitState::kWarm);
  ASSERT_EQ(driver_->null_packets, 0u);
  const uint64_t calls = driver_->timer_calls;
  now_ = now_ + Seconds(20);
  driver_->RunTimers(now_);
  EXPECT_LT(driver_->timer_calls - calls, 10u);
  EXPECT_EQ(driver_->state(kU0), UnitState::kStopping);
  // Two flows wait at unit 0, and by now one at unit 1.
  Run(kU2, 77, 1);
  for (int i = 0; i < 20; ++i, now_ = now_ + Microseconds(300)) {
    driver_->RunTimers(now_);
    driver_->DrainAll(now_);
    Run(kU2, 77, 1);
  }
  EXPECT_EQ(driver_->null_packets, 3u);
  EXPECT_EQ(driver_->evacuated, 2u);
  EXPECT_EQ(driver_->owned(kU2), 4u);
}

TEST_F(ScaleInTest, PlacesALatePacketAnewThoughTheUnitIsBack) {
  Make(Options());
  Run(kU0, 1, 1);
  Run(kU1, kBusy, 1);
  RunUntilStop(kU1, kU0);
  driver_->Stopped(kU0);
  Run(kU0, 2, 1);
  ASSERT_EQ(driver_->state(kU0), UnitState::kActive);
  const Arrival late = {.key = Flow(1),
                        .time = kStart + Microseconds(100),
                        .original_length = 100,
                        .packet = PacketHandle{5}};
  const Commands commands = driver_->Send(now_, {&late, 1});
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].unit, kU0);
  EXPECT_EQ(commands[0].meta.flowlet, 1u);
  EXPECT_EQ(commands[0].meta.source, kU1);
  EXPECT_EQ(commands[0].meta.flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kMoved);
}

TEST_F(ScaleInTest, ForgetsTheReplicasOfAMovedFlow) {
  ControllerOptions options = Options(3);
  options.replicas = 3;
  options.replica_choice = ReplicaChoice::kDeterministic;
  Make(options);
  Run(kU1, kBusy, 1);
  Run(kU0, 1, 2);
  policy_.unit = kU0;
  driver_->Packet(now_ + Milliseconds(1), 1);
  ASSERT_EQ(policy_.last.replicas.count, 1u);
  driver_->DrainAll(now_ + Milliseconds(1));
  RunUntilStop(kU1, kU0);
  driver_->Packet(now_, 1);
  EXPECT_EQ(policy_.last.owner, kU1);
  EXPECT_EQ(policy_.last.replicas.count, 0u);
}

// Tests where a flow goes when unit 0 leaves, by its demand and by the bytes
// that wait at units 1 and 2 (125 KB are a full unit).
class ReceiverTest : public ScaleInTest {
 protected:
  UnitId ReceiverOf(int64_t demand_bps, uint32_t bytes_1, uint32_t bytes_2) {
    ControllerOptions options = Options(3);
    options.first_demand_bps = demand_bps;
    options.ewma_delta_65536 = 0;  // so that it stays
    Make(options);
    Run(kU0, 1, 1);
    policy_.unit = kU1;
    driver_->Packet(now_, 2, bytes_1);
    policy_.unit = kU2;
    driver_->Packet(now_, 3, bytes_2);
    driver_->ReadyAll(now_);
    const Commands moved =
        Only(Kind::kEnqueue, driver_->RunTimers(now_ + Milliseconds(100)));
    EXPECT_EQ(moved.size(), 1u);
    return moved.empty() ? kNoUnit : moved[0].unit;
  }
};

TEST_F(ReceiverTest, IsTheFullestUnitWithRoomForTheFlowsDemand) {
  EXPECT_EQ(ReceiverOf(100'000'000, 75'000, 25'000), kU1);
  EXPECT_EQ(ReceiverOf(100'000'000, 25'000, 75'000), kU2);
  EXPECT_EQ(ReceiverOf(500'000'000, 75'000, 25'000), kU2);
}

TEST_F(ReceiverTest, IsTheLeastLoadedWhereNoneHasRoom) {
  EXPECT_EQ(ReceiverOf(100'000'000, 130'000, 120'000), kU2);
  EXPECT_EQ(ReceiverOf(1'000'000'000, 25'000, 75'000), kU1);
}

}  // namespace
}  // namespace snf
