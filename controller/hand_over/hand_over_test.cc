// SPDX-License-Identifier: Apache-2.0
#include "controller/hand_over/hand_over.h"

#include <gtest/gtest.h>

#include <vector>

#include "controller/core/placement.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};

FlowKey Key(uint8_t number) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  key.source.bytes[15] = std::byte{number};
  return key;
}

FlowKey External(uint8_t number) {
  FlowKey key = Key(number);
  key.form = FlowKeyForm::kIpv4Endpoint;
  return key;
}

// A controller with one unit, which it leases.
class Leasing {
 public:
  explicit Leasing(uint8_t id, uint32_t max_flows = 16,
                   uint32_t queue_packets = 64)
      : controller_(Options(id, max_flows, queue_packets),
                    *FindPlacementPolicy("snf")) {
    EXPECT_TRUE(controller_.on_lease(kNow, UnitId{0}, 1'024, out_));
    out_.clear();
  }
  Controller& operator*() { return controller_; }
  Controller* operator->() { return &controller_; }
  // What the packet of that flow led to.
  std::vector<ControllerCommand> Packet(uint8_t flow) {
    const Arrival arrival = {
        .key = Key(flow), .time = kNow, .original_length = 100};
    out_.clear();
    EXPECT_EQ(controller_.on_packets(kNow, {&arrival, 1}, out_), 1u);
    return {out_.commands().begin(), out_.commands().end()};
  }
  FlowId FlowOf(uint8_t flow) {
    const std::vector<ControllerCommand> commands = Packet(flow);
    return commands.empty() ? kNoFlow : commands.back().meta.flow;
  }
  std::vector<ControllerCommand> Take(const HandedFlow& flow, bool works) {
    out_.clear();
    EXPECT_EQ(FlowHandOver::Take(controller_, kNow, flow, out_).has_value(),
              works);
    return {out_.commands().begin(), out_.commands().end()};
  }
  ControllerOut& out() { return out_; }

 private:
  static ControllerOptions Options(uint8_t id, uint32_t max_flows,
                                   uint32_t queue_packets) {
    ControllerOptions options;
    options.controller_id = id;
    options.leased = true;
    options.max_units = 1;
    options.max_flows = max_flows;
    options.replicas = 0;
    options.unit_queue_packets = queue_packets;
    return options;
  }
  ControllerOut out_;
  Controller controller_;
};

TEST(FlowHandOver, TheFlowGoesOnWithItsNextClockAndAllThatIsKnownOfIt) {
  Leasing a(1), b(2);
  const FlowId at_a = a.FlowOf(7);
  a.Packet(7);
  a->on_alias({.key = External(9),
               .flow = at_a,
               .clock = Clock{2},
               .group = 5,
               .unit = UnitId{0}},
              a.out());
  a->on_flow_note(kNow,
                  {.flow = at_a, .clock = Clock{2}, .idle_timeout = Seconds(9)},
                  a.out());
  const auto handed = FlowHandOver::Read(*a, at_a);
  ASSERT_TRUE(handed.has_value());
  EXPECT_EQ(handed->last, Clock{2});
  FlowHandOver::Give(*a, kNow, at_a);
  EXPECT_FALSE(FlowHandOver::Read(*a, at_a).has_value());
  EXPECT_EQ(a->aliases().size(), 0u);
  EXPECT_EQ(a->units().owned_flows(UnitId{0}), 0u);

  const auto commands = b.Take(*handed, true);
  ASSERT_EQ(commands.size(), 1u);
  const PacketMeta& meta = commands[0].meta;
  EXPECT_EQ(commands[0].kind, ControllerCommand::Kind::kEnqueue);
  EXPECT_EQ(commands[0].packet, kNoPacket);
  EXPECT_EQ(controller_of(meta.flow), 2);
  EXPECT_EQ(meta.clock, Clock{3});
  EXPECT_EQ(meta.flags, PacketMeta::kFirstOfFlowlet | PacketMeta::kNull);
  EXPECT_EQ(meta.source, UnitId{0});
  const FlowName name = b->NameOf(meta.flow);
  EXPECT_EQ(name.key, Key(7));
  EXPECT_EQ(name.alias, External(9));
  EXPECT_EQ(name.alias_clock, Clock{2});
  EXPECT_EQ(name.alias_group, 5u);
  EXPECT_EQ(name.idle_timeout, Seconds(9));
  EXPECT_EQ(b->units().owned_flows(UnitId{0}), 1u);
  EXPECT_EQ(a->counters().flows, 1u);
  EXPECT_EQ(a->counters().flows_ended, 1u);
  EXPECT_EQ(b->counters().flows_inherited, 1u);
  EXPECT_EQ(b->counters().flows_ended, 0u);
  const auto next = b.Packet(7);
  EXPECT_EQ(next.back().meta.flow, meta.flow);
  EXPECT_EQ(next.back().meta.clock, Clock{4});
}

// Its packets make another flow of it, under another id.
TEST(FlowHandOver, TheFirstControllerForgetsTheFlowOnlyWhenToldTo) {
  Leasing a(1);
  const FlowId before = a.FlowOf(7);
  FlowHandOver::Give(*a, kNow, before);
  const FlowId after = a.FlowOf(7);
  EXPECT_NE(slot_of(after), slot_of(before));
  EXPECT_TRUE(a->on_ended(before));
  EXPECT_FALSE(a->on_ended(before));
  EXPECT_EQ(slot_of(a.FlowOf(8)), slot_of(before));
}

// Answers to the alias go on to the host that has it.
TEST(FlowHandOver, IsPutOffWhileAnotherFlowHasTheAlias) {
  Leasing a(1);
  const FlowId other = a.FlowOf(8);
  a->on_alias(
      {.key = External(9), .flow = other, .clock = Clock{1}, .unit = UnitId{0}},
      a.out());
  HandedFlow handed;
  handed.last = Clock{2};
  handed.last_packet = kNow;
  handed.name.key = Key(7);
  handed.name.alias = External(9);
  handed.name.alias_clock = Clock{1};
  EXPECT_TRUE(a.Take(handed, false).empty());
  EXPECT_EQ(a->flows().size(), 1u);
  EXPECT_EQ(a->NameOf(other).alias, External(9));
  a.out().clear();
  EXPECT_TRUE(a->DeleteFlow(kNow, other, a.out(), Deletion::kForAnother));
  EXPECT_EQ(a->counters().flows_ended, 1u);
  EXPECT_EQ(a->counters().flows_deleted, 0u);
  EXPECT_EQ(a.Take(handed, true).size(), 1u);
}

TEST(FlowHandOver, IsPutOffWhileThereIsNoRoom) {
  Leasing a(1), full(2, 1), busy(3, 16, 1), has_it(4);
  const auto handed = FlowHandOver::Read(*a, a.FlowOf(7));
  full.Packet(1);
  EXPECT_TRUE(full.Take(*handed, false).empty());
  busy.Packet(1);
  EXPECT_TRUE(busy.Take(*handed, false).empty());
  EXPECT_EQ(busy->flows().size(), 1u);
  has_it.Packet(7);
  EXPECT_TRUE(has_it.Take(*handed, false).empty());
  for (Leasing* const one : {&full, &busy, &has_it}) {
    EXPECT_EQ((*one)->counters().flows_inherited, 0u);
  }
  ControllerOptions leased;
  leased.leased = true;
  Controller unitless(leased, *FindPlacementPolicy("snf"));
  ControllerOut out;
  EXPECT_FALSE(FlowHandOver::Take(unitless, kNow, *handed, out).has_value());
  EXPECT_TRUE(out.commands().empty());
}

// A controller with output loggers, to which a flow came as of clock 1,000.
class HandedFailures : public testing::Test {
 protected:
  HandedFailures() {
    HandedFlow handed;
    handed.last = Clock{1'000};
    handed.last_packet = kNow;
    handed.name.key = Key(7);
    flow_ = *FlowHandOver::Take(controller_, kNow, handed, out_);
    unit_ = controller_.flows().cold(slot_of(flow_)).owner;
    controller_.on_unit_ready(kNow, unit_);
    out_.clear();
  }
  // Its unit fails, and the unit's logger has it as of that clock. Returns the
  // clocks that go to units.
  std::vector<Clock> FailAsOf(uint64_t applied) {
    EXPECT_TRUE(controller_.on_unit_failed(
        kNow, unit_, controller_.units().incarnation(unit_), out_));
    const uint32_t round = out_.commands().front().seal.round;
    if (applied > 0) {
      controller_.on_sealed(kNow, {flow_, Clock{applied}, round, unit_}, out_);
    }
    controller_.on_sealed(kNow, {kNoFlow, Clock{}, round, unit_}, out_);
    const UnitId other{static_cast<uint16_t>(1 - value(unit_))};
    controller_.on_done(kNow, {kNoFlow, Clock{}, round, other}, out_);
    std::vector<Clock> clocks;
    for (const ControllerCommand& command : out_.commands()) {
      if (command.kind != ControllerCommand::Kind::kEnqueue) continue;
      clocks.push_back(command.meta.clock);
    }
    EXPECT_FALSE(controller_.is_recovering());
    return clocks;
  }

  static ControllerOptions Options() {
    ControllerOptions options;
    options.max_flows = 16;
    options.max_units = 2;
    options.warm_units = 2;
    options.replicas = 0;
    options.recovery_slots = 8;
    return options;
  }
  Controller controller_{Options(), *FindPlacementPolicy("snf")};
  ControllerOut out_;
  FlowId flow_{};
  UnitId unit_{};
};

TEST_F(HandedFailures, AFlowThatWasRunHereGoesOn) {
  const std::vector<Clock> clocks = FailAsOf(1'001);
  EXPECT_EQ(clocks, std::vector<Clock>{Clock{1'002}});
  EXPECT_EQ(controller_.counters().failures.flows_given_up, 0u);
}

// Clocks 1 to 1,000 are not lost: they were never here.
TEST_F(HandedFailures, AFlowThatNoUnitHasRunIsGivenUp) {
  EXPECT_TRUE(FailAsOf(0).empty());
  EXPECT_EQ(controller_.counters().failures.flows_given_up, 1u);
  EXPECT_EQ(controller_.flows().size(), 0u);
}

}  // namespace
}  // namespace snf
