// SPDX-License-Identifier: Apache-2.0
//
// Starts of units that fail (proto/protocol.md F11), and what units say that
// cannot be. A unit's capacity is 1 Gbit/s.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "controller/core/controller.h"
#include "controller/core/placement.h"

namespace snf {
namespace {

using Kind = ControllerCommand::Kind;
using State = UnitPool::State;
using Commands = std::vector<ControllerCommand>;

constexpr UnitId kU0{0}, kU1{1}, kU2{2};
constexpr Nanos kTimeout = Seconds(1);
constexpr uint32_t kBytes = 37'500;
constexpr Nanos kTick{1 << TimingWheel::kTickShift};

class StartsOfUnits : public testing::Test {
 protected:
  explicit StartsOfUnits(uint32_t units = 3) : StartsOfUnits(Options(units)) {}
  explicit StartsOfUnits(const ControllerOptions& options)
      : controller_(options, *FindPlacementPolicy("snf")) {}

  static ControllerOptions Options(uint32_t units) {
    ControllerOptions options;
    options.max_flows = 100;
    options.max_units = units;
    options.warm_units = 0;
    options.load_signal = LoadSignal::kDemand;
    options.alpha_1024 = 256;
    options.replicas = 0;
    options.start_timeout = kTimeout;
    options.unit_idle_timeout = Seconds(1'000);
    // Each flow asks for more than half of a unit, and sends as much.
    options.first_demand_bps = 600'000'000;
    options.flowlet_bytes = 100'000;
    return options;
  }
  static Commands Taken(const ControllerOut& out) {
    return {out.commands().begin(), out.commands().end()};
  }
  Commands Packet(uint16_t flow) {
    Arrival arrival;
    arrival.key.source_port = be16{flow};
    arrival.key.form = FlowKeyForm::kIpv4;
    arrival.time = now_;
    arrival.original_length = kBytes;
    arrival.packet = PacketHandle{1};
    ControllerOut out;
    controller_.on_packets(now_, {&arrival, 1}, out);
    return Taken(out);
  }
  // Lets so much time pass.
  Commands Pass(Nanos time) {
    now_ = now_ + time;
    Commands all;
    while (controller_.next_wakeup() <= now_) {
      ControllerOut out;
      controller_.on_timers(now_, out);
      for (const ControllerCommand& c : out.commands()) all.push_back(c);
    }
    return all;
  }
  // Lets the time pass in which a start fails.
  Commands Fail() { return Pass({kTimeout.ns + kTick.ns}); }
  bool Ready(UnitId unit) { return controller_.on_unit_ready(now_, unit); }
  const UnitPool& units() const { return controller_.units(); }
  static void ExpectOne(const Commands& commands, Kind kind, UnitId unit) {
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0].kind, kind);
    EXPECT_EQ(commands[0].unit, unit);
  }
  static UnitId StartedIn(const Commands& commands) {
    for (const ControllerCommand& c : commands) {
      if (c.kind == Kind::kStartUnit) return c.unit;
    }
    return kNoUnit;
  }

  Controller controller_;
  Instant now_{1'000'000'000};
};

TEST_F(StartsOfUnits, FailAfterTheirTimeout) {
  EXPECT_EQ(StartedIn(Packet(1)), kU0);
  EXPECT_TRUE(Pass({kTimeout.ns - kTick.ns}).empty());
  EXPECT_EQ(units().state(kU0), State::kStarting);
  ExpectOne(Pass({2 * kTick.ns}), Kind::kParkUnit, kU0);
  EXPECT_EQ(units().state(kU0), State::kFailed);
  EXPECT_EQ(units().failed_starts(), 1u);
  EXPECT_EQ(units().starting_units(), 0u);
  EXPECT_EQ(units().pending_starts(), 1u);
  EXPECT_FALSE(units().placeable(kU0));
}

// Its channel is the only place where packets can wait.
TEST_F(StartsOfUnits, AreMadeAgainAfterABackOffWherePacketsWait) {
  Packet(1);
  Fail();
  ExpectOne(Packet(2), Kind::kEnqueue, kU0);
  EXPECT_TRUE(Pass({PoolStarts::kFirstBackOff.ns / 2}).empty());
  ExpectOne(Pass({PoolStarts::kFirstBackOff.ns / 2 + kTick.ns}),
            Kind::kStartUnit, kU0);
  EXPECT_TRUE(Ready(kU0));
  EXPECT_EQ(units().state(kU0), State::kActive);
  EXPECT_EQ(units().cold_starts(), 2u);
  EXPECT_EQ(units().pending_starts(), 0u);
}

TEST_F(StartsOfUnits, LetAnotherUnitStartAfterTheBackOff) {
  Packet(1);
  Fail();
  EXPECT_EQ(StartedIn(Packet(2)), kNoUnit);
  Pass({PoolStarts::kFirstBackOff.ns + kTick.ns});
  const Commands commands = Packet(3);
  EXPECT_EQ(StartedIn(commands), kU1);
  EXPECT_EQ(commands.back().unit, kU1) << "nothing waits for the first";
  EXPECT_TRUE(Ready(kU1));
  // The first is tried again beside it, and fails again.
  Fail();
  EXPECT_EQ(units().failed_starts(), 2u);
  EXPECT_EQ(units().placeable_units(), 1u);
  EXPECT_TRUE(units().placeable(kU1));
}

TEST_F(StartsOfUnits, ThatFailDoNotEndScaling) {
  Packet(1);
  ASSERT_TRUE(Ready(kU0));
  EXPECT_EQ(StartedIn(Packet(2)), kU1) << "both do not fit into one";
  EXPECT_EQ(units().starting_units(), 1u);
  Fail();
  EXPECT_EQ(units().starting_units(), 0u);
  Packet(3);
  EXPECT_EQ(StartedIn(Packet(4)), kNoUnit) << "the back-off";
  Pass({PoolStarts::kFirstBackOff.ns + kTick.ns});
  EXPECT_EQ(units().state(kU1), State::kStopped) << "nobody needs it";
  EXPECT_EQ(units().pending_starts(), 0u);
  EXPECT_EQ(StartedIn(Packet(5)), kU2) << "not the one that failed";
}

TEST_F(StartsOfUnits, BackOffLongerEachTimeAndNoLongerThanALimit) {
  Packet(1);
  Nanos pause = PoolStarts::kFirstBackOff;
  for (int i = 0; i < 12; ++i) {
    ExpectOne(Fail(), Kind::kParkUnit, kU0);
    EXPECT_TRUE(Pass({pause.ns - 2 * kTick.ns}).empty());
    ExpectOne(Pass({3 * kTick.ns}), Kind::kStartUnit, kU0);
    pause.ns = std::min(2 * pause.ns, PoolStarts::kMaxBackOff.ns);
  }
  EXPECT_EQ(units().failed_starts(), 12u);
  ASSERT_TRUE(Ready(kU0));
  // One that is ready ends it.
  EXPECT_NE(StartedIn(Packet(2)), kNoUnit);
}

TEST_F(StartsOfUnits, ThatComeToTheirEndTooLateAreIgnored) {
  Packet(1);
  Fail();
  EXPECT_FALSE(Ready(kU0));
  EXPECT_EQ(units().state(kU0), State::kFailed);
  EXPECT_FALSE(Ready(kU1));
}

class WarmUnitStarts : public StartsOfUnits {
 protected:
  static ControllerOptions Warm() {
    ControllerOptions options = Options(2);
    options.warm_units = 1;
    return options;
  }
  WarmUnitStarts() : StartsOfUnits(Warm()) {}
};

TEST_F(WarmUnitStarts, AreMadeAgainWithWhatTheUnitKeeps) {
  EXPECT_EQ(StartedIn(Packet(1)), kU0);
  ExpectOne(Fail(), Kind::kParkUnit, kU0);
  const Commands again = Pass({PoolStarts::kFirstBackOff.ns + kTick.ns});
  ExpectOne(again, Kind::kStartUnit, kU0);
  EXPECT_TRUE(again[0].warm);
  EXPECT_TRUE(Ready(kU0));
  EXPECT_EQ(units().warm_starts(), 2u);
}

TEST_F(StartsOfUnits, RefusesWhatUnitsCannotSay) {
  Packet(1);
  EXPECT_TRUE(Ready(kU0));
  EXPECT_FALSE(Ready(kU0)) << "it was ready";
  EXPECT_FALSE(controller_.on_unit_stopped(kU0)) << "nobody told it to";
  EXPECT_FALSE(controller_.on_unit_stopped(kU2));
  const auto drained = [this](UnitId unit, uint32_t packets, uint64_t bytes) {
    return controller_.on_drained(
        now_, {.unit = unit, .packets = packets, .bytes = bytes});
  };
  EXPECT_FALSE(drained(kU0, 2, kBytes));
  EXPECT_FALSE(drained(kU0, 1, kBytes + 1));
  EXPECT_FALSE(drained(kU2, 1, 1));
  EXPECT_TRUE(drained(kU0, 1, kBytes));
  EXPECT_FALSE(drained(kU0, 1, 0));
}

}  // namespace
}  // namespace snf
