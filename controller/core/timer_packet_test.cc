// SPDX-License-Identifier: Apache-2.0
//
// Tests of timer packets (U11): a unit asks for one, and it is answered if
// nothing of the flow came in between.
#include <optional>
#include <vector>

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1};

ControllerOptions Options(uint32_t units) {
  ControllerOptions options;
  options.max_flows = 1'000;
  options.max_units = units;
  options.warm_units = units;
  options.replicas = 0;
  options.flow_timeout = Seconds(5);
  options.unit_idle_timeout = Milliseconds(20);
  options.unit_queue_packets = 4;
  options.start_buffer_packets = 2;
  return options;
}

class TimerPackets : public testing::Test {
 protected:
  // Brings clock 1 of flow 1 to unit 0.
  void Start(const ControllerOptions& options) {
    driver_.emplace(options, policy_);
    flow_ = Send(kStart).flow;
    driver_->ReadyAll(kStart);
    driver_->DrainAll(kStart);
  }
  PacketMeta Send(Instant at) {
    return Only(Kind::kEnqueue, driver_->Packet(at, 1)).at(0).meta;
  }
  Commands Ask(Instant now, uint64_t applied, UnitId unit) {
    return driver_->On([&](Controller& controller, ControllerOut& out) {
      controller.on_timer_due(now, {flow_, Clock{applied}, unit}, out);
    });
  }
  const ControllerCounters& counters() const { return driver_->counters(); }

  DirectedPolicy policy_;
  std::optional<TestDriver> driver_;
  FlowId flow_{};
};

TEST_F(TimerPackets, HaveTheNextClockAndGoToTheOwner) {
  Start(Options(2));
  const Instant at = kStart + Milliseconds(1);
  const Commands commands = Ask(at, 1, kU0);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kEnqueue);
  EXPECT_EQ(commands[0].unit, kU0);
  EXPECT_EQ(commands[0].packet, kNoPacket);
  EXPECT_EQ(commands[0].meta.clock, Clock{2});
  EXPECT_EQ(commands[0].meta.arrival, at);
  EXPECT_EQ(commands[0].meta.flags, PacketMeta::kNull | PacketMeta::kTimer);
  EXPECT_EQ(counters().timer_packets, 1u);
  EXPECT_EQ(counters().flowlets, 1u);
  EXPECT_EQ(Send(at).clock, Clock{3});
}

TEST_F(TimerPackets, AreRefusedOnceTheFlowWentOnOrHasAnotherOwner) {
  Start(Options(2));
  EXPECT_TRUE(Ask(kStart, 2, kU0).empty());
  EXPECT_EQ(counters().timers_refused_future, 1u);
  EXPECT_TRUE(Ask(kStart, 1, kU1).empty());
  EXPECT_EQ(counters().timers_refused_stale, 1u);
  Send(kStart);
  EXPECT_TRUE(Ask(kStart, 1, kU0).empty());
  EXPECT_EQ(counters().timers_refused_stale, 2u);
  EXPECT_EQ(Ask(kStart, 2, kU0).size(), 1u);
  // The same request again, and one about a flow that is not there.
  EXPECT_TRUE(Ask(kStart, 2, kU0).empty());
  EXPECT_EQ(counters().timers_refused_stale, 3u);
  flow_ = MakeFlowId(0, 7, 0);
  EXPECT_TRUE(Ask(kStart, 1, kU0).empty());
  flow_ = kNoFlow;
  EXPECT_TRUE(Ask(kStart, 1, kU0).empty());
  EXPECT_EQ(counters().timers_refused_unknown, 2u);
}

TEST_F(TimerPackets, ArePutOffWhereTheChannelIsFull) {
  Start(Options(1));
  for (int i = 0; i < 4; ++i) Send(kStart);
  EXPECT_TRUE(Ask(kStart, 5, kU0).empty());
  EXPECT_EQ(counters().timers_without_slot, 1u);
  driver_->DrainAll(kStart);
  EXPECT_EQ(Ask(kStart, 5, kU0).size(), 1u);
}

TEST_F(TimerPackets, AreNoSignOfLifeOfTheFlow) {
  Start(Options(1));
  const Instant late = kStart + Seconds(4);
  driver_->RunTimers(late);
  EXPECT_EQ(Ask(late, 1, kU0).size(), 2u);  // the unit was parked
  driver_->ReadyAll(late);
  driver_->DrainAll(late);
  const Commands commands =
      Only(Kind::kEndFlow,
           driver_->RunTimers(kStart + Seconds(5) + Microseconds(33)));
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].end.last, Clock{2});
}

TEST_F(TimerPackets, TakeTheFlowFromAParkedUnitToOneThatRuns) {
  Start(Options(2));
  policy_.unit = kU1;
  const Instant later = kStart + Milliseconds(100);
  driver_->RunTimers(later);
  ASSERT_EQ(driver_->state(kU0), UnitState::kWarm);
  driver_->Packet(later, 2);
  driver_->ReadyAll(later);
  const Commands commands = Only(Kind::kEnqueue, Ask(later, 1, kU0));
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].unit, kU1);
  EXPECT_EQ(commands[0].meta.source, kU0);
  EXPECT_EQ(commands[0].meta.flags, PacketMeta::kNull | PacketMeta::kTimer |
                                        PacketMeta::kFirstOfFlowlet);
  EXPECT_EQ(driver_->owned(kU1), 2u);
  driver_->ExpectOwnersAgree();
}

TEST_F(TimerPackets, StartAUnitWhereNoneRuns) {
  Start(Options(1));
  const Instant later = kStart + Milliseconds(100);
  driver_->RunTimers(later);
  ASSERT_EQ(driver_->state(kU0), UnitState::kWarm);
  const Commands commands = Ask(later, 1, kU0);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].kind, Kind::kStartUnit);
  EXPECT_EQ(commands[1].meta.flags, PacketMeta::kNull | PacketMeta::kTimer);
}

}  // namespace
}  // namespace snf
