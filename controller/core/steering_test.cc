// SPDX-License-Identifier: Apache-2.0
//
// What may change while a controller runs: units that are drained, and options.
#include <optional>
#include <vector>

#include "base/rng.h"
#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1}, kU2{2};

ControllerOptions Options(uint32_t units = 3) {
  ControllerOptions options;
  options.max_units = units;
  options.warm_units = 1;
  options.max_flows = 1'000;
  options.flow_timeout = Seconds(100);
  options.unit_queue_packets = options.start_buffer_packets = 1'000;
  options.unit_idle_timeout = Milliseconds(20);
  options.keep_warm = Seconds(10);
  return options;
}

class SteeringTest : public testing::Test {
 protected:
  void Make(const ControllerOptions& options,
            const PlacementPolicy& policy = *FindPlacementPolicy("snf")) {
    options_ = options;
    driver_.emplace(options, policy);
  }
  // A packet of each flow, which all leave their units.
  void Run(uint32_t flows) {
    for (uint32_t i = 1; i <= flows; ++i) {
      driver_->Packet(now_, i);
      Settle();
    }
  }
  void Settle() {
    driver_->ReadyAll(now_);
    driver_->DrainAll(now_);
    driver_->RunTimers(now_);
    driver_->ReadyAll(now_);
    driver_->DrainAll(now_);
  }
  void Wait(Nanos time) {
    const Instant end = now_ + time;
    while (now_ < end) {
      now_ = now_ + Milliseconds(1);
      Settle();
    }
  }
  bool Drain(UnitId unit) { return driver_->controller().Drain(now_, unit); }
  bool Tune() { return driver_->controller().Tune(now_, options_); }
  UnitState state(UnitId unit) const { return driver_->units().state(unit); }

  void StopThoseThatAreEmpty(uint32_t units) {
    for (uint32_t i = 0; i < units; ++i) {
      const UnitId unit = TestDriver::Id(i);
      if (driver_->state(unit) == UnitState::kStopping &&
          driver_->owned(unit) == 0) {
        driver_->Stopped(unit);
      }
    }
  }
  // One random event of a daemon's life; returns true if it was a packet.
  bool RandomStep(Rng& rng, uint32_t units) {
    const UnitId unit = TestDriver::Id(static_cast<uint32_t>(rng.Below(units)));
    switch (rng.Below(10)) {
      case 0:
        Drain(unit);
        return false;
      case 1:
        driver_->controller().Undrain(unit);
        return false;
      case 2:
        options_.max_units = static_cast<uint32_t>(rng.Uniform(1, units));
        options_.flowlet_timeout = Microseconds(rng.Uniform(50, 500));
        options_.alpha_1024 = static_cast<uint32_t>(rng.Below(1'025));
        options_.replicas = static_cast<uint32_t>(rng.Below(4));
        Tune();
        return false;
      default:
        driver_->Packet(now_, static_cast<uint32_t>(rng.Below(40)));
        return true;
    }
  }

  ControllerOptions options_;
  std::optional<TestDriver> driver_;
  Instant now_ = kStart;
};

TEST_F(SteeringTest, FlowsOfADrainedUnitMoveAndItStops) {
  Make(Options());
  Run(10);
  ASSERT_EQ(driver_->owned(kU0), 10u);
  ASSERT_TRUE(Drain(kU0));
  Wait(Milliseconds(10));
  EXPECT_EQ(state(kU0), UnitState::kStopping);
  EXPECT_EQ(driver_->owned(kU0), 0u);
  EXPECT_EQ(driver_->owned(kU1), 10u);
  EXPECT_EQ(driver_->counters().null_packets, 10u);
  driver_->Stopped(kU0);
  Run(10);
  EXPECT_EQ(driver_->owned(kU1), 10u);
  EXPECT_EQ(driver_->dropped, 0u);
  driver_->ExpectStatesAgree();
  driver_->ExpectOwnersAgree();
}

TEST_F(SteeringTest, AFlowletEndsWhereItBegan) {
  Make(Options());
  Run(1);
  ASSERT_TRUE(Drain(kU0));
  now_ = now_ + Microseconds(100);
  const Commands goes_on = Only(Kind::kEnqueue, driver_->Packet(now_, 1));
  ASSERT_EQ(goes_on.size(), 1u);
  EXPECT_EQ(goes_on[0].unit, kU0);
  driver_->DrainAll(now_);
  now_ = now_ + Milliseconds(1);
  const Commands next = Only(Kind::kEnqueue, driver_->Packet(now_, 1));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].unit, kU1);
}

TEST_F(SteeringTest, AParkedUnitIsRelievedOfItsFlowsThoughNothingComes) {
  Make(Options());
  Run(10);
  Wait(Milliseconds(100));
  ASSERT_EQ(state(kU0), UnitState::kWarm);
  ASSERT_TRUE(Drain(kU0));
  Wait(Milliseconds(5));
  EXPECT_EQ(driver_->owned(kU0), 0u);
  EXPECT_EQ(state(kU0), UnitState::kStopping);
}

TEST_F(SteeringTest, AUnitThatStartsIsDrainedWhenItIsReady) {
  ControllerOptions options = Options();
  options.warm_units = 0;
  Make(options);
  driver_->Packet(now_, 1);
  ASSERT_EQ(state(kU0), UnitState::kStarting);
  ASSERT_TRUE(Drain(kU0));
  Wait(Milliseconds(20));
  EXPECT_EQ(state(kU0), UnitState::kStopping);
  EXPECT_EQ(driver_->owned(kU1), 1u);
  EXPECT_EQ(driver_->dropped, 0u);
}

TEST_F(SteeringTest, AUnitThatStartsAheadAndIsDrainedGetsNothing) {
  Make(Options());
  driver_->Packet(now_, 1);
  ASSERT_EQ(state(kU1), UnitState::kStarting);
  ASSERT_TRUE(Drain(kU1));
  ASSERT_TRUE(Drain(kU0));
  driver_->Packet(now_, 2);
  EXPECT_EQ(driver_->owned(kU1), 0u);
  Wait(Milliseconds(20));
  EXPECT_EQ(driver_->owned(kU2), 2u);
  EXPECT_EQ(driver_->dropped, 0u);
}

TEST_F(SteeringTest, ADrainedUnitIsUsedAgainOnceItIsNot) {
  Make(Options(2));
  Run(1);
  ASSERT_TRUE(Drain(kU0));
  EXPECT_TRUE(driver_->units().drained(kU0));
  Wait(Milliseconds(5));
  driver_->Stopped(kU0);
  driver_->controller().Undrain(kU0);
  EXPECT_FALSE(driver_->units().drained(kU0));
  ASSERT_TRUE(Drain(kU1));
  Wait(Milliseconds(5));
  EXPECT_EQ(driver_->owned(kU0), 1u);
}

TEST_F(SteeringTest, TheLastUsableUnitIsNotDrained) {
  Make(Options(2));
  Run(5);
  ASSERT_TRUE(Drain(kU1));
  EXPECT_FALSE(Drain(kU0));
  EXPECT_FALSE(driver_->units().drained(kU0));
  // Nor are there fewer units than that.
  driver_->controller().Undrain(kU1);
  ASSERT_TRUE(Drain(kU0));
  options_.max_units = 1;
  EXPECT_FALSE(Tune());
  EXPECT_EQ(driver_->units().usable_units(), 2u);
}

TEST_F(SteeringTest, AUnitThatStopsIsNoneToDrainOthersFor) {
  Make(Options(2));
  Run(5);
  ASSERT_TRUE(Drain(kU0));
  Wait(Milliseconds(5));
  ASSERT_EQ(state(kU0), UnitState::kStopping);
  driver_->controller().Undrain(kU0);
  EXPECT_FALSE(Drain(kU1));
  driver_->Stopped(kU0);
  EXPECT_TRUE(Drain(kU1));
}

TEST_F(SteeringTest, ADrainedUnitThatIsNotEmptyYetGetsNothingNew) {
  ControllerOptions options = Options(2);
  options.warm_units = 2;  // so that none is started ahead
  Make(options);
  driver_->Packet(now_, 1);
  driver_->ReadyAll(now_);
  ASSERT_TRUE(Drain(kU0));
  driver_->RunTimers(now_);
  ASSERT_EQ(state(kU0), UnitState::kActive);
  const Commands other = Only(Kind::kEnqueue, driver_->Packet(now_, 2));
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].unit, kU1);
}

TEST_F(SteeringTest, EveryPolicyKeepsAwayFromADrainedUnit) {
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    SCOPED_TRACE(policy->name());
    now_ = kStart;
    Make(Options(), *policy);
    ASSERT_TRUE(Drain(kU1));
    for (int i = 0; i < 20; ++i) {
      Run(30);
      Wait(Milliseconds(1));
    }
    EXPECT_EQ(driver_->owned(kU1), 0u);
    EXPECT_EQ(state(kU1), UnitState::kStopped);
    EXPECT_EQ(driver_->dropped, 0u);
  }
}

TEST_F(SteeringTest, FewerUnitsAreUsedThanBeforeAndThenAsMany) {
  Make(Options(3), *FindPlacementPolicy("hash"));
  Run(60);
  ASSERT_GT(driver_->owned(kU2), 0u);
  options_.max_units = 1;
  ASSERT_TRUE(Tune());
  EXPECT_EQ(driver_->units().usable_units(), 1u);
  for (int i = 0; i < 10; ++i) {
    Run(60);
    Wait(Milliseconds(2));
  }
  EXPECT_EQ(driver_->owned(kU0), 60u);
  for (const UnitId unit : {kU1, kU2}) {
    EXPECT_EQ(driver_->owned(unit), 0u);
    driver_->Stopped(unit);
  }
  options_.max_units = 3;
  ASSERT_TRUE(Tune());
  for (uint32_t flow = 100; flow < 160; ++flow) {
    driver_->Packet(now_, flow);
    Settle();
  }
  EXPECT_GT(driver_->owned(kU2), 0u);
  EXPECT_EQ(driver_->dropped, 0u);
}

TEST_F(SteeringTest, OptionsTakeEffectAtOnce) {
  DirectedPolicy policy;
  Make(Options(), policy);
  Run(1);
  EXPECT_EQ(policy.last.alpha, 1024u);
  options_.alpha_1024 = 7;
  options_.flowlet_timeout = Milliseconds(5);
  ASSERT_TRUE(Tune());
  now_ = now_ + Milliseconds(4);
  driver_->Packet(now_, 1);
  EXPECT_EQ(driver_->counters().flowlets_by_gap, 0u);
  now_ = now_ + Milliseconds(6);
  driver_->Packet(now_, 1);
  EXPECT_EQ(driver_->counters().flowlets_by_gap, 1u);
  EXPECT_EQ(policy.last.alpha, 7u);
  options_.flowlet_bytes = 1'500;
  ASSERT_TRUE(Tune());
  driver_->Packet(now_, 1);
  EXPECT_EQ(driver_->counters().flowlets_by_bytes, 1u);
  options_.flow_timeout = Milliseconds(10);
  ASSERT_TRUE(Tune());
  driver_->DrainAll(now_);
  driver_->RunTimers(now_ + Milliseconds(20));
  EXPECT_EQ(driver_->ended, 1u);
}

TEST_F(SteeringTest, NoPacketIsLostWhateverIsDrainedAndTuned) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    now_ = kStart;
    const auto units = static_cast<uint32_t>(rng.Uniform(2, 6));
    ControllerOptions options = Options(units);
    options.unit_capacity_bps = 50'000'000;
    options.load_signal = LoadSignal{static_cast<uint8_t>(rng.Below(3))};
    options.unit_idle_timeout = Microseconds(rng.Uniform(600, 5'000));
    options.keep_warm = Milliseconds(rng.Uniform(0, 10));
    Make(options, *PlacementPolicies()[rng.Below(6)]);
    uint64_t sent = 0;
    for (int step = 0; step < 400; ++step) {
      sent += RandomStep(rng, units) ? 1 : 0;
      if (rng.Below(3) > 0) Settle();
      now_ = now_ + Microseconds(rng.Uniform(1, 800));
      driver_->RunTimers(now_);
      StopThoseThatAreEmpty(units);
    }
    Wait(Milliseconds(30));
    EXPECT_EQ(driver_->counters().enqueued, sent);
    EXPECT_EQ(driver_->dropped, 0u);
    driver_->ExpectStatesAgree();
    driver_->ExpectOwnersAgree();
  }
}

}  // namespace
}  // namespace snf
