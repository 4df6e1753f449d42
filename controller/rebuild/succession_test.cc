// SPDX-License-Identifier: Apache-2.0
#include "controller/rebuild/succession.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/packet/flow_key.h"
#include "controller/core/placement.h"

namespace snf {
namespace {

using Phase = Succession::Phase;

constexpr Instant kNow{1'000'000};
constexpr UnitId kUnit0{0};
constexpr UnitId kUnit1{1};

FlowId Flow() { return MakeFlowId(0, 2, 4); }

FlowKey Key(uint8_t port) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  key.source.bytes[15] = std::byte{port};
  return key;
}

Arrival Packet(uint32_t number) {
  return {.key = Key(2), .time = kNow, .packet = PacketHandle{number}};
}

// A controller with two units, each of which is a source of reports.
class SuccessionTest : public testing::Test {
 protected:
  static ControllerOptions Options(uint32_t epoch) {
    ControllerOptions options;
    options.max_flows = 16;
    options.max_units = 2;
    options.recovery_slots = 4;
    options.awaits_ends = options.names_flows = true;
    options.forgets_copies = true;
    options.epoch = epoch;
    return options;
  }
  void Fail() {
    succession_.Fail(std::move(controller_));
    controller_ = Controller(Options(succession_.newest_epoch()), policy_);
  }
  // Unit 0 has run clock 5 of a flow, and unit 1 has clock 7.
  void ReportAFlowThatLacksAClock() {
    Rebuild& rebuild = succession_.rebuild();
    rebuild.on_name({.flow = Flow(), .version = 1, .key = Key(2)});
    rebuild.on_flow({.flow = Flow(),
                     .clock = Clock{5},
                     .unit = kUnit0,
                     .kind = FlowReport::Kind::kRan});
    PacketMeta meta;
    meta.flow = Flow();
    meta.clock = Clock{7};
    meta.source = kUnit0;
    meta.source_kind = StateSource::kUnit;
    meta.flags = PacketMeta::kFirstOfFlowlet;
    rebuild.on_packet({.meta = meta, .unit = kUnit1});
    for (const UnitId unit : {kUnit0, kUnit1}) {
      rebuild.on_unit({.unit = unit,
                       .state = UnitReport::State::kActive,
                       .incarnation = 3,
                       .slots = unit == kUnit1 ? 1u : 0u});
    }
  }
  std::vector<uint32_t> Finish() {
    std::vector<uint32_t> packets;
    for (const Arrival& arrival : succession_.Finish()) {
      packets.push_back(value(arrival.packet));
    }
    return packets;
  }

  const PlacementPolicy& policy_ = *FindPlacementPolicy("snf");
  Controller controller_{Options(0), policy_};
  SuccessionCounters counters_;
  Succession succession_{2, 16, 2, counters_};
  ControllerOut out_;
};

// The example in the header.
TEST_F(SuccessionTest, LosesPacketsUntilTheFailureIsSeenThenLetsThemWait) {
  EXPECT_FALSE(succession_.begun());
  Fail();
  EXPECT_TRUE(succession_.begun());
  EXPECT_FALSE(succession_.Hold(Packet(1)));
  EXPECT_EQ(succession_.newest_epoch(), 1u);
  EXPECT_EQ(succession_.Gather(), 1u);
  EXPECT_TRUE(succession_.Hold(Packet(2)));
  for (const size_t source : {0, 1}) succession_.Await(source);
  ReportAFlowThatLacksAClock();
  succession_.on_reported(0);
  EXPECT_FALSE(succession_.has_all());
  succession_.on_reported(1);
  EXPECT_TRUE(succession_.has_all());
  succession_.Begin(controller_, kNow);
  EXPECT_EQ(succession_.phase(), Phase::kMending);
  EXPECT_TRUE(succession_.Hold(Packet(3)));
  EXPECT_TRUE(succession_.Mend(controller_, kNow, out_));
  EXPECT_EQ(out_.commands().back().meta.clock, Clock{6});
  EXPECT_EQ(Finish(), (std::vector<uint32_t>{2, 3}));
  EXPECT_TRUE(succession_.is_up());
  EXPECT_EQ(counters_.packets_lost, 1u);
  EXPECT_EQ(counters_.packets_waited, 2u);
  EXPECT_EQ(counters_.flows, 1u);
  EXPECT_EQ(counters_.tombstones, 1u);
}

TEST_F(SuccessionTest, KnowsTheControllerThatFailedUntilTheNextIsMade) {
  EXPECT_EQ(&succession_.known(controller_), &controller_);
  Fail();
  EXPECT_EQ(&succession_.known(controller_), &succession_.former());
  succession_.Gather();
  EXPECT_EQ(&succession_.known(controller_), &succession_.former());
  succession_.Begin(controller_, kNow);
  EXPECT_EQ(&succession_.known(controller_), &controller_);
}

TEST_F(SuccessionTest, AwaitsASourceAsOftenAsItWasAsked) {
  Fail();
  succession_.Gather();
  succession_.Await(1);
  succession_.Await(1);
  EXPECT_FALSE(succession_.awaits(0));
  succession_.on_reported(1);
  EXPECT_TRUE(succession_.awaits(1));
  succession_.on_reported(1);
  EXPECT_FALSE(succession_.awaits(1));
  EXPECT_TRUE(succession_.has_all());
}

TEST_F(SuccessionTest, ForgetsReportsThatAreVoid) {
  Fail();
  EXPECT_EQ(succession_.Gather(), 1u);
  succession_.Await(0);
  succession_.Await(1);
  EXPECT_TRUE(succession_.Hold(Packet(1)));
  ReportAFlowThatLacksAClock();
  succession_.Restart();
  EXPECT_EQ(succession_.phase(), Phase::kDead);
  EXPECT_TRUE(succession_.has_all());
  EXPECT_EQ(succession_.Gather(), 2u);
  succession_.Begin(controller_, kNow);
  EXPECT_TRUE(succession_.Mend(controller_, kNow, out_));
  EXPECT_TRUE(out_.commands().empty());
  EXPECT_EQ(Finish(), std::vector<uint32_t>{1});
  EXPECT_EQ(counters_.flows, 0u);
}

// Packets wait for whoever comes next; what was not mended is reported again,
// and not counted twice.
TEST_F(SuccessionTest, SucceedsASuccessorThatFailsBeforeAllIsMended) {
  Fail();
  succession_.Gather();
  ReportAFlowThatLacksAClock();
  succession_.Begin(controller_, kNow);
  EXPECT_TRUE(succession_.Hold(Packet(1)));
  Fail();
  EXPECT_EQ(succession_.newest_epoch(), 2u);
  EXPECT_EQ(succession_.Gather(), 2u);
  ReportAFlowThatLacksAClock();
  succession_.Begin(controller_, kNow);
  EXPECT_TRUE(succession_.Mend(controller_, kNow, out_));
  EXPECT_EQ(Finish(), std::vector<uint32_t>{1});
  EXPECT_EQ(counters_.flows, 1u);
  EXPECT_EQ(counters_.tombstones, 1u);
}

TEST_F(SuccessionTest, GoesOnWithTheEpochsOfAnotherProcess) {
  succession_.Inherit(7, std::move(controller_));
  EXPECT_EQ(succession_.phase(), Phase::kDead);
  EXPECT_EQ(succession_.newest_epoch(), 8u);
  EXPECT_EQ(succession_.Gather(), 8u);
  EXPECT_EQ(succession_.newest_epoch(), 8u);
}

TEST_F(SuccessionTest, LosesPacketsThatWaitWithWhoeverHoldsThem) {
  Fail();
  succession_.Gather();
  EXPECT_TRUE(succession_.Hold(Packet(1)));
  EXPECT_TRUE(succession_.Hold(Packet(2)));
  EXPECT_EQ(succession_.LoseWaiting().size(), 2u);
  EXPECT_EQ(succession_.waiting(), 0u);
  EXPECT_EQ(counters_.packets_lost, 2u);
  EXPECT_EQ(counters_.packets_waited, 2u);
}

TEST_F(SuccessionTest, LetsNoMorePacketsWaitThanItsLimit) {
  Fail();
  succession_.Gather();
  for (uint32_t i = 0; i < Succession::kMaxWaiting; ++i) {
    ASSERT_TRUE(succession_.Hold(Packet(i)));
  }
  EXPECT_FALSE(succession_.Hold(Packet(0)));
  EXPECT_EQ(counters_.packets_lost, 1u);
  EXPECT_EQ(succession_.waiting(), Succession::kMaxWaiting);
}

// A controller's guess where its flow is means nothing to another one.
TEST_F(SuccessionTest, ForgetsWhereTheFailedControllerExpectedTheFlow) {
  Fail();
  succession_.Gather();
  Arrival arrival = Packet(1);
  arrival.slot = 3;
  arrival.hash = 4;
  EXPECT_TRUE(succession_.Hold(arrival));
  succession_.Begin(controller_, kNow);
  const std::vector<Arrival> waited = succession_.Finish();
  ASSERT_EQ(waited.size(), 1u);
  EXPECT_EQ(waited[0].slot, Arrival{}.slot);
  EXPECT_EQ(waited[0].hash, 0u);
}

TEST_F(SuccessionTest, HasNoArrowsButThoseOfItsPhases) {
  EXPECT_DEATH(succession_.Gather(), "kDead");
  EXPECT_DEATH(succession_.Hold(Packet(1)), "is_up");
  Fail();
  EXPECT_DEATH(succession_.Begin(controller_, kNow), "kGathering");
  succession_.Gather();
  EXPECT_DEATH(succession_.on_reported(0), "awaits");
  succession_.Await(0);
  EXPECT_DEATH(succession_.Begin(controller_, kNow), "has_all");
  EXPECT_DEATH(succession_.Finish(), "kMending");
}

}  // namespace
}  // namespace snf
