// SPDX-License-Identifier: Apache-2.0
#include "controller/rebuild/rebuild.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "controller/core/placement.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000};
constexpr UnitId kUnit0{0};
constexpr UnitId kUnit1{1};

FlowId Flow(uint32_t slot) { return MakeFlowId(0, slot, 4); }

FlowKey Key(uint8_t port) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  key.source.bytes[15] = std::byte{port};
  return key;
}

// A controller that is made of reports on flow slot 2.
class RebuildTest : public testing::Test {
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
  void Ran(UnitId unit, uint64_t clock,
           FlowReport::Kind kind = FlowReport::Kind::kRan) {
    rebuild_.on_flow(
        {.flow = Flow(2), .clock = Clock{clock}, .unit = unit, .kind = kind});
  }
  void Holds(UnitId unit, uint64_t clock, UnitId source) {
    PacketMeta meta;
    meta.flow = Flow(2);
    meta.clock = Clock{clock};
    meta.source = source;
    meta.source_kind = StateSource::kUnit;
    meta.flags = PacketMeta::kFirstOfFlowlet;
    rebuild_.on_packet({.meta = meta, .unit = unit});
    ++slots_[value(unit)];
  }
  void Make(bool has_room = true) {
    rebuild_.on_name({.flow = Flow(2), .version = 1, .key = Key(2)});
    for (const UnitId unit : {kUnit0, kUnit1}) {
      if (unit == kUnit0 && has_failed_) {
        rebuild_.on_unit({.unit = unit,
                          .was_sealed = true,
                          .has_failed = true,
                          .incarnation = 3});
        continue;
      }
      rebuild_.on_unit({.unit = unit,
                        .state = UnitReport::State::kActive,
                        .incarnation = 3,
                        .slots = slots_[value(unit)]});
    }
    rebuild_.Begin(controller_, kNow, before_);
    EXPECT_EQ(rebuild_.Advance(controller_, kNow, out_), has_room);
  }
  // Sends a packet of the flow, and returns the clock that it gets.
  ControllerCommand Send() {
    out_.clear();
    const Arrival arrival = {.key = Key(2), .time = kNow, .packet = {}};
    EXPECT_EQ(controller_.on_packets(kNow, {&arrival, 1}, out_), 1u);
    return out_.commands().back();
  }

  const PlacementPolicy& policy_ = *FindPlacementPolicy("snf");
  Controller before_{Options(0), policy_};
  Controller controller_{Options(1), policy_};
  Rebuild rebuild_{2, 16};
  uint32_t slots_[2] = {0, 0};
  bool has_failed_ = false;  // unit 0
  ControllerOut out_;
};

// The example in the header.
TEST_F(RebuildTest, SendsATombstoneForAClockThatNobodyHas) {
  Ran(kUnit0, 5);
  Holds(kUnit1, 7, kUnit0);
  Make();
  ASSERT_EQ(out_.commands().size(), 2u);
  EXPECT_EQ(out_.commands()[0].kind, ControllerCommand::Kind::kName);
  const ControllerCommand& tombstone = out_.commands()[1];
  EXPECT_EQ(tombstone.unit, kUnit0);
  EXPECT_EQ(tombstone.meta.clock, Clock{6});
  EXPECT_EQ(tombstone.meta.source, kUnit0);
  EXPECT_EQ(tombstone.meta.flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kTombstone);
  EXPECT_EQ(controller_.flows().cold(2).owner, kUnit1);
  ASSERT_EQ(controller_.owners().runs(2), 1u);
  EXPECT_EQ(controller_.owners().run(2, 0).unit, kUnit0);
  EXPECT_EQ(controller_.owners().run(2, 0).last, Clock{6});
}

// Packets that wait for the clock may have taken all slots.
TEST_F(RebuildTest, GivesUpAFlowWhoseTombstoneFindsNoSlotForASecond) {
  Ran(kUnit0, 5);
  Holds(kUnit1, 7, kUnit0);
  slots_[0] = Options(1).unit_queue_packets + Options(1).recovery_slots;
  Make(/*has_room=*/false);
  EXPECT_FALSE(rebuild_.Advance(controller_, kNow + Milliseconds(999), out_));
  EXPECT_TRUE(out_.commands().empty());
  EXPECT_TRUE(rebuild_.Advance(controller_, kNow + Seconds(1), out_));
  EXPECT_EQ(controller_.counters().failures.flows_given_up, 1u);
  EXPECT_EQ(controller_.flows().size(), 0u);
  ASSERT_EQ(out_.commands().size(), 2u);
  for (const ControllerCommand& command : out_.commands()) {
    EXPECT_EQ(command.kind, ControllerCommand::Kind::kForsake);
  }
}

TEST_F(RebuildTest, GivesUpAFlowWhoseNullPacketFindsNoSlotByItsLastClock) {
  Ran(kUnit0, 5, FlowReport::Kind::kAtLogger);
  has_failed_ = true;
  slots_[1] = Options(1).unit_queue_packets + Options(1).recovery_slots;
  Make(/*has_room=*/false);
  EXPECT_FALSE(rebuild_.Advance(controller_, kNow + Milliseconds(999), out_));
  EXPECT_TRUE(rebuild_.Advance(controller_, kNow + Seconds(1), out_));
  EXPECT_EQ(controller_.counters().failures.flows_given_up, 1u);
  ASSERT_FALSE(out_.commands().empty());
  const ControllerCommand& owner = out_.commands().back();
  EXPECT_EQ(owner.kind, ControllerCommand::Kind::kForsake);
  EXPECT_EQ(owner.end.last, Clock{5});
}

// … and what follows it. Unit 0 has failed.
TEST_F(RebuildTest, FindsAtALoggerWhatAFailedUnitHadRun) {
  Ran(kUnit0, 5, FlowReport::Kind::kAtLogger);
  Holds(kUnit1, 7, kUnit0);
  has_failed_ = true;
  Make();
  ASSERT_EQ(out_.commands().size(), 3u);
  const ControllerCommand& redirect = out_.commands()[0];
  EXPECT_EQ(redirect.unit, kUnit1);
  EXPECT_EQ(redirect.redirect.clock, Clock{7});
  EXPECT_EQ(redirect.redirect.source, kUnit1);
  EXPECT_EQ(redirect.redirect.source_kind, StateSource::kUnit);
  const ControllerCommand& tombstone = out_.commands()[2];
  EXPECT_EQ(tombstone.unit, kUnit1);
  EXPECT_EQ(tombstone.meta.clock, Clock{6});
  EXPECT_EQ(tombstone.meta.source, kUnit0);
  EXPECT_EQ(tombstone.meta.source_kind, StateSource::kLogger);
  ASSERT_EQ(controller_.owners().runs(2), 1u);
  EXPECT_TRUE(controller_.owners().run(2, 0).at_logger);
  EXPECT_FALSE(controller_.owners().run(2, 0).is_superseded);
  EXPECT_EQ(controller_.owners().run(2, 0).last, Clock{5});
}

TEST_F(RebuildTest, MovesAFlowThatOnlyALoggerHasByANullPacket) {
  Ran(kUnit0, 5, FlowReport::Kind::kAtLogger);
  has_failed_ = true;
  Make();
  ASSERT_EQ(out_.commands().size(), 2u);
  const ControllerCommand& null = out_.commands()[1];
  EXPECT_EQ(null.unit, kUnit1);
  EXPECT_EQ(null.meta.clock, Clock{6});
  EXPECT_EQ(null.meta.source, kUnit0);
  EXPECT_EQ(null.meta.source_kind, StateSource::kLogger);
  EXPECT_EQ(null.meta.flags, PacketMeta::kFirstOfFlowlet | PacketMeta::kNull);
  EXPECT_EQ(Send().meta.clock, Clock{7});
}

// Its logger, which was sealed some time, reported later than it did.
TEST_F(RebuildTest, LeavesAFlowWithItsUnitThatRanAClockSinceItReported) {
  Holds(kUnit0, 5, kUnit0);
  Ran(kUnit0, 5, FlowReport::Kind::kAtLogger);
  Holds(kUnit0, 6, kUnit0);
  Make();
  EXPECT_EQ(controller_.flows().cold(2).owner, kUnit0);
  EXPECT_EQ(controller_.owners().runs(2), 0u);
}

// Who took the flow over may have failed before it said so.
TEST_F(RebuildTest, LetsAnOldCopyBeForgotten) {
  Ran(kUnit0, 5, FlowReport::Kind::kHandedOver);
  Ran(kUnit1, 8);
  Make();
  ASSERT_EQ(out_.commands().size(), 1u);
  const ControllerCommand& forget = out_.commands()[0];
  EXPECT_EQ(forget.kind, ControllerCommand::Kind::kForget);
  EXPECT_EQ(forget.unit, kUnit0);
  EXPECT_EQ(forget.end.last, Clock{6});
  EXPECT_EQ(controller_.owners().runs(2), 1u);
  controller_.on_takeover({.flow = Flow(2), .clock = Clock{6}});
  EXPECT_EQ(controller_.owners().runs(2), 0u);
}

TEST_F(RebuildTest, LeavesAFlowAloneWhoseEndALoggerHas) {
  Ran(kUnit0, 6, FlowReport::Kind::kOverAtLogger);
  has_failed_ = true;
  Make();
  EXPECT_EQ(rebuild_.counters().flows, 0u);
  EXPECT_EQ(Send().meta.clock, Clock{1});
}

// It was asked for at a clock that is lost.
TEST_F(RebuildTest, WithdrawsTheAliasOfALostClock) {
  for (const uint64_t clock : {5, 6}) {
    FlowName name = {.flow = Flow(2), .version = clock, .key = Key(2)};
    name.alias = Key(static_cast<uint8_t>(clock));
    name.alias_clock = Clock{clock};
    rebuild_.on_name(name);
  }
  Ran(kUnit0, 5);
  Make();
  EXPECT_EQ(rebuild_.counters().aliases_withdrawn, 1u);
  ASSERT_EQ(rebuild_.withdrawn().size(), 1u);
  EXPECT_EQ(rebuild_.withdrawn()[0].clock, Clock{6});
}

TEST_F(RebuildTest, GoesOnWithTheClockAfterTheHighestSeen) {
  Ran(kUnit0, 5);
  Holds(kUnit1, 6, kUnit0);
  Make();
  EXPECT_TRUE(out_.commands().empty());
  const ControllerCommand sent = Send();
  EXPECT_EQ(sent.meta.flow, Flow(2));
  EXPECT_EQ(sent.meta.clock, Clock{7});
  EXPECT_EQ(sent.meta.source, kUnit1);
}

// The counters of an heir begin with zero flows.
TEST_F(RebuildTest, CountsFlowsThatItFindsAndThoseThatItDoesNot) {
  Ran(kUnit0, 5);
  Make();
  const ControllerCounters& counters = controller_.counters();
  EXPECT_EQ(counters.flows, 0u);
  EXPECT_EQ(counters.flows_inherited, 1u);
  EXPECT_EQ(counters.flows_ended, 0u);

  Controller next(Options(2), policy_);
  Rebuild nothing(2, 16);
  nothing.Begin(next, kNow, controller_);
  EXPECT_EQ(next.counters().flows_inherited, 1u);
  EXPECT_EQ(next.counters().flows_ended, 1u);

  Rebuild again(3, 16);
  Controller last(Options(3), policy_);
  again.Begin(last, kNow, next);
  EXPECT_EQ(last.counters().flows_inherited, 1u);
  EXPECT_EQ(last.counters().flows_ended, 1u);
}

// Unit 0 had clock 5, and has run 7 since, which no logger has: if it fails, an
// old copy is left.
TEST_F(RebuildTest, ForgetsAnOldCopyInTheLoggerOfAUnitThatGoesOn) {
  rebuild_.on_flow({.flow = Flow(2),
                    .clock = Clock{7},
                    .unit = kUnit0,
                    .kind = FlowReport::Kind::kRan,
                    .is_released = false});
  Ran(kUnit0, 5, FlowReport::Kind::kAtLogger);
  Ran(kUnit1, 6, FlowReport::Kind::kHandedOver);
  Make();
  ASSERT_EQ(out_.commands().size(), 1u);
  const ControllerCommand& forget = out_.commands()[0];
  EXPECT_EQ(forget.kind, ControllerCommand::Kind::kForget);
  EXPECT_EQ(forget.unit, kUnit0);
  EXPECT_TRUE(forget.of_logger);
  EXPECT_EQ(forget.end.last, Clock{6});
  EXPECT_EQ(controller_.flows().cold(2).owner, kUnit0);
  ASSERT_EQ(controller_.owners().runs(2), 2u);
  // Clock 6 is released, so nobody needs the logger for clock 5.
  EXPECT_TRUE(controller_.owners().run(2, 0).at_logger);
  EXPECT_TRUE(controller_.owners().run(2, 0).is_superseded);
  EXPECT_FALSE(controller_.owners().run(2, 1).is_superseded);
  controller_.on_takeover({.flow = Flow(2), .clock = Clock{6}});
  EXPECT_EQ(controller_.owners().runs(2), 1u);
}

// Its pieces come back only from a process that runs.
TEST_F(RebuildTest, StartsAUnitAgainThatHasPieces) {
  for (const uint64_t grants : {0, 1}) {
    ControllerOptions options = Options(1);
    options.start_timeout = Milliseconds(1);
    Controller controller(options, policy_);
    Rebuild rebuild(2, 16);
    rebuild.on_unit({.unit = kUnit1});
    rebuild.on_unit({.unit = kUnit0,
                     .state = UnitReport::State::kStarting,
                     .incarnation = 3,
                     .grants = grants});
    rebuild.Begin(controller, kNow, before_);
    out_.clear();
    controller.on_timers(kNow + Milliseconds(2), out_);  // it has failed
    ASSERT_EQ(out_.commands().size(), 1u);
    EXPECT_EQ(out_.commands()[0].kind, ControllerCommand::Kind::kParkUnit);
    out_.clear();
    controller.on_timers(kNow + Seconds(10), out_);
    ASSERT_EQ(out_.commands().size(), grants);
    if (grants == 0) continue;
    EXPECT_EQ(out_.commands()[0].kind, ControllerCommand::Kind::kStartUnit);
    EXPECT_TRUE(out_.commands()[0].warm);
  }
}

// Somebody had asked for that state, and there is no later clock.
TEST_F(RebuildTest, LeavesAFlowAloneThatIsOver) {
  Ran(kUnit0, 5, FlowReport::Kind::kHandedOver);
  Make();
  EXPECT_EQ(rebuild_.counters().flows, 0u);
  const ControllerCommand sent = Send();
  EXPECT_EQ(sent.meta.clock, Clock{1});
  EXPECT_EQ(generation_of(sent.meta.flow), uint32_t{1} << 16);
}

TEST_F(RebuildTest, AwaitsTheEndOfAFlowThatHasAMark) {
  Ran(kUnit0, 5, FlowReport::Kind::kEnd);
  Make();
  EXPECT_EQ(rebuild_.counters().flows_ending, 1u);
  EXPECT_EQ(controller_.flows().hot(2).flags, FlowHot::kEnding);
  EXPECT_EQ(Send().meta.clock, Clock{1});
  EXPECT_TRUE(controller_.on_ended(Flow(2)));
}

}  // namespace
}  // namespace snf
