// SPDX-License-Identifier: Apache-2.0
//
// Tests of packets by alias, and of messages of an NF about its flows.
#include <vector>

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1};
constexpr Nanos kTick{1 << TimingWheel::kTickShift};

class AliasTest : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.max_flows = 10;
    options.max_units = 3;
    options.warm_units = 3;
    options.flow_timeout = Seconds(10);
    return options;
  }

  PacketMeta Inside(Instant at, uint32_t flow) {
    const Commands commands = driver_.Packet(at, flow);
    driver_.ReadyAll(at);
    driver_.DrainAll(at);
    return commands.back().meta;
  }
  ControllerCommand Outside(Instant at, uint16_t port) {
    const Arrival arrival = {.key = External(port),
                             .time = at,
                             .original_length = 100,
                             .packet = PacketHandle{77},
                             .by_alias = true};
    const Commands commands = driver_.Send(at, {&arrival, 1});
    driver_.ReadyAll(at);
    driver_.DrainAll(at);
    return commands.back();
  }
  AliasResult Set(const PacketMeta& meta, uint16_t port, uint64_t group = 0,
                  uint32_t limit = 0) {
    const Alias alias = {.key = External(port),
                         .flow = meta.flow,
                         .clock = meta.clock,
                         .group = group,
                         .group_limit = limit,
                         .unit = kU1};
    const Commands commands = driver_.On(
        [&](Controller& c, ControllerOut& out) { c.on_alias(alias, out); });
    EXPECT_EQ(commands.size(), 1u);
    const ControllerCommand& ack = commands.at(0);
    EXPECT_EQ(ack.kind, Kind::kAliasAck);
    EXPECT_EQ(ack.unit, kU1);
    EXPECT_EQ(ack.alias_ack.flow, meta.flow);
    EXPECT_EQ(ack.alias_ack.clock, meta.clock);
    return ack.alias_ack.result;
  }
  Commands Note(Instant now, const FlowNote& note) {
    return driver_.On([&](Controller& c, ControllerOut& out) {
      c.on_flow_note(now, note, out);
    });
  }
  void Idle(Instant now, const PacketMeta& meta, Nanos timeout) {
    EXPECT_TRUE(Note(now, {meta.flow, meta.clock, timeout, false}).empty());
  }
  // Returns the time at which the only flow ended by itself.
  Instant EndOfFlow() {
    Instant now = kStart;
    while (driver_.ended == 0) {
      now = driver_.controller().next_wakeup();
      if (now == Instant::max()) break;
      driver_.Timers(now);
    }
    return now;
  }
  const ControllerCounters& counters() const { return driver_.counters(); }

  DirectedPolicy policy_;
  TestDriver driver_{Options(), policy_};
};

TEST_F(AliasTest, GivesAPacketByAliasToItsFlow) {
  const PacketMeta first = Inside(kStart, 1);
  EXPECT_EQ(Set(first, 1024), AliasResult::kGranted);
  const ControllerCommand command = Outside(kStart + Nanos{1}, 1024);
  ASSERT_EQ(command.kind, Kind::kEnqueue);
  EXPECT_EQ(command.packet, PacketHandle{77});
  EXPECT_EQ(command.meta.flow, first.flow);
  EXPECT_EQ(value(command.meta.clock), 2u);
  EXPECT_EQ(command.meta.flowlet, first.flowlet);
  EXPECT_EQ(value(Inside(kStart + Nanos{2}, 1).clock), 3u);
  EXPECT_EQ(counters().aliases_granted, 1u);
}

TEST_F(AliasTest, DropsAPacketThatNoFlowHasTheAliasOf) {
  Inside(kStart, 1);
  const ControllerCommand command = Outside(kStart, 1024);
  EXPECT_EQ(command.kind, Kind::kDrop);
  EXPECT_EQ(command.reason, DropReason::kNoAlias);
  EXPECT_EQ(command.packet, PacketHandle{77});
  EXPECT_EQ(driver_.controller().flows().size(), 1u);
}

TEST_F(AliasTest, TellsKeysFromAliases) {
  const PacketMeta first = Inside(kStart, 1);
  Set(first, 1024);
  // A packet with the alias's key that does not come by alias has a flow of its
  // own.
  Arrival arrival = {.key = External(1024), .time = kStart};
  arrival.packet = PacketHandle{1};
  EXPECT_NE(driver_.Send(kStart, {&arrival, 1}).back().meta.flow, first.flow);
  // A packet with the flow's key that comes by alias belongs to no flow.
  arrival.key = Flow(1);
  arrival.by_alias = true;
  EXPECT_EQ(driver_.Send(kStart, {&arrival, 1}).back().reason,
            DropReason::kNoAlias);
}

TEST_F(AliasTest, CutsFlowletsOverBothDirections) {
  const PacketMeta first = Inside(kStart, 1);
  Set(first, 1024);
  const Instant later = kStart + Milliseconds(5);
  EXPECT_EQ(Outside(later, 1024).meta.flowlet, first.flowlet + 1);
  EXPECT_EQ(Inside(later + Nanos{9}, 1).flowlet, first.flowlet + 1);
}

TEST_F(AliasTest, RefusesAnAliasByReason) {
  const PacketMeta first = Inside(kStart, 1);
  const PacketMeta second = Inside(kStart, 2);
  EXPECT_EQ(Set(first, 1024, 5, 1), AliasResult::kGranted);
  EXPECT_EQ(Set(second, 1024, 6, 1), AliasResult::kConflict);
  EXPECT_EQ(Set(second, 1025, 5, 1), AliasResult::kGroupFull);
  PacketMeta wrong = second;
  wrong.clock = Clock{2};
  EXPECT_EQ(Set(wrong, 1025), AliasResult::kUnknown);
  wrong = second;
  wrong.flow = MakeFlowId(0, slot_of(second.flow), 1);
  EXPECT_EQ(Set(wrong, 1025), AliasResult::kUnknown);
  wrong.flow = MakeFlowId(0, 0xffff'ffff, 0);
  EXPECT_EQ(Set(wrong, 1025), AliasResult::kUnknown);
  EXPECT_EQ(counters().aliases_granted, 1u);
  EXPECT_EQ(counters().aliases_conflict, 1u);
  EXPECT_EQ(counters().aliases_group_full, 1u);
  EXPECT_EQ(counters().aliases_refused_future, 1u);
  EXPECT_EQ(counters().aliases_refused_unknown, 2u);
  EXPECT_EQ(driver_.controller().aliases().size(), 1u);
}

TEST_F(AliasTest, AnswersNoUnitThatDoesNotExist) {
  Alias alias = {.key = External(1), .flow = Inside(kStart, 1).flow};
  alias.clock = Clock{1};
  for (const uint16_t unit : {uint16_t{3}, value(kNoUnit)}) {
    alias.unit = UnitId{unit};
    EXPECT_TRUE(driver_
                    .On([&](Controller& c, ControllerOut& out) {
                      c.on_alias(alias, out);
                    })
                    .empty());
  }
  EXPECT_EQ(counters().aliases_refused_unknown, 2u);
  EXPECT_EQ(driver_.controller().aliases().size(), 0u);
}

TEST_F(AliasTest, TakesTheAliasWhenAFlowIdlesOut) {
  Set(Inside(kStart, 1), 1024, 5, 1);
  EXPECT_LE(EndOfFlow(), kStart + Seconds(10) + kTick);
  const Instant later = kStart + Seconds(11);
  EXPECT_EQ(Outside(later, 1024).reason, DropReason::kNoAlias);
  // Alias and group are free again, and the slot has forgotten them.
  const PacketMeta next = Inside(later, 2);
  EXPECT_EQ(slot_of(next.flow), 0u);
  EXPECT_EQ(Set(next, 1024, 5, 1), AliasResult::kGranted);
}

TEST_F(AliasTest, EndsAFlowThatIsOver) {
  const PacketMeta first = Inside(kStart, 1);
  Set(first, 1024, 5, 1);
  const Commands commands =
      Note(kStart, {first.flow, first.clock, Nanos{-1}, true});
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kEndFlow);
  EXPECT_EQ(commands[0].unit, kU0);
  EXPECT_EQ(commands[0].end.flow, first.flow);
  EXPECT_EQ(commands[0].end.last, first.clock);
  EXPECT_EQ(counters().flows_over, 1u);
  EXPECT_EQ(counters().flows_ended, 1u);
  EXPECT_EQ(driver_.controller().flows().size(), 0u);
  EXPECT_EQ(driver_.controller().aliases().size(), 0u);
  EXPECT_EQ(Outside(kStart, 1024).reason, DropReason::kNoAlias);
  // A repeated or late note is about a flow that no longer exists.
  EXPECT_TRUE(Note(kStart, {first.flow, first.clock, Nanos{-1}, true}).empty());
  EXPECT_EQ(counters().notes_refused_unknown, 1u);
  // The flow's flowlet, which was open, is closed: its unit is not in use.
  driver_.RunTimers(kStart + Seconds(1));
  EXPECT_EQ(driver_.units().placeable_units(), 0u);
  EXPECT_NE(Inside(kStart, 1).flow, first.flow);
}

TEST_F(AliasTest, LetsAFlowLiveOnThatHasPacketsOnTheirWay) {
  const PacketMeta first = Inside(kStart, 1);
  Set(first, 1024, 5, 1);
  const PacketMeta second = Inside(kStart, 1);
  EXPECT_TRUE(Note(kStart, {first.flow, first.clock, Nanos{-1}, true}).empty());
  EXPECT_EQ(Outside(kStart, 1024).reason, DropReason::kNoAlias);
  EXPECT_EQ(value(Inside(kStart, 1).clock), 3u);
  EXPECT_EQ(Set(second, 1026, 5, 1), AliasResult::kGranted);
  EXPECT_EQ(Outside(kStart, 1026).meta.flow, first.flow);
  // A late note from the unit before does not remove the new alias.
  EXPECT_TRUE(Note(kStart, {first.flow, first.clock, Nanos{-1}, true}).empty());
  EXPECT_EQ(Outside(kStart, 1026).meta.flow, first.flow);
  EXPECT_EQ(counters().flows_over, 0u);
}

TEST_F(AliasTest, RefusesANoteOfTheFuture) {
  const PacketMeta first = Inside(kStart, 1);
  EXPECT_TRUE(Note(kStart, {first.flow, Clock{2}, Nanos{1}, true}).empty());
  EXPECT_EQ(counters().notes_refused_future, 1u);
  EXPECT_GE(EndOfFlow(), kStart + Seconds(10));
}

TEST_F(AliasTest, EndsAFlowSoonerThanTheOthers) {
  const PacketMeta meta = Inside(kStart, 1);
  Idle(kStart, meta, Seconds(4));
  const Instant end = EndOfFlow();
  EXPECT_GE(end, kStart + Seconds(4));
  EXPECT_LE(end, kStart + Seconds(4) + kTick);
}

TEST_F(AliasTest, EndsAFlowSoonerAlthoughItsTimerIsArmed) {
  const PacketMeta meta = Inside(kStart, 1);
  driver_.RunTimers(kStart + Seconds(2));  // it waits for its idle end
  Idle(kStart + Seconds(2), meta, Seconds(4));
  EXPECT_LE(EndOfFlow(), kStart + Seconds(4) + kTick);
}

TEST_F(AliasTest, EndsAFlowAtOnceThatHasBeenIdleLongEnough) {
  const PacketMeta meta = Inside(kStart, 1);
  const Instant now = kStart + Seconds(5);
  driver_.RunTimers(now);
  Idle(now, meta, Seconds(4));
  EXPECT_LE(driver_.controller().next_wakeup(), now);
  EXPECT_EQ(Only(Kind::kEndFlow, driver_.Timers(now)).size(), 1u);
}

TEST_F(AliasTest, EndsAFlowLaterThanTheOthers) {
  const PacketMeta meta = Inside(kStart, 1);
  driver_.RunTimers(kStart + Seconds(2));
  Idle(kStart + Seconds(2), meta, Seconds(100));
  const Instant end = EndOfFlow();
  EXPECT_GE(end, kStart + Seconds(100));
  EXPECT_LE(end, kStart + Seconds(100) + kTick);
}

TEST_F(AliasTest, NeverEndsAFlowThatMayIdleForEver) {
  Idle(kStart, Inside(kStart, 1), Nanos::max());
  EXPECT_EQ(EndOfFlow(), Instant::max());
}

TEST_F(AliasTest, ClosesTheFlowletBeforeItEndsAFlow) {
  Idle(kStart, Inside(kStart, 1), Nanos{0});
  const Instant end = EndOfFlow();
  EXPECT_GT(end, kStart + Microseconds(500));
  EXPECT_LE(end, kStart + Microseconds(501) + kTick);
  driver_.RunTimers(kStart + Seconds(1));
  EXPECT_EQ(driver_.units().placeable_units(), 0u);
}

TEST_F(AliasTest, KeepsTheNewerOfTwoIdleTimes) {
  const PacketMeta first = Inside(kStart, 1);
  const PacketMeta second = Inside(kStart, 1);
  Idle(kStart, second, Seconds(4));
  Idle(kStart, first, Seconds(7));
  EXPECT_LE(EndOfFlow(), kStart + Seconds(4) + kTick);
}

TEST_F(AliasTest, ForgetsAnIdleTimeWithItsFlow) {
  Idle(kStart, Inside(kStart, 1), Seconds(1));
  EXPECT_LE(EndOfFlow(), kStart + Seconds(1) + kTick);
  const Instant later = kStart + Seconds(2);
  EXPECT_EQ(slot_of(Inside(later, 2).flow), 0u);
  driver_.RunTimers(later + Seconds(9));
  EXPECT_EQ(driver_.ended, 1u);
  driver_.RunTimers(later + Seconds(10) + kTick);
  EXPECT_EQ(driver_.ended, 2u);
}

TEST_F(AliasTest, DeletesAFlowAndFreesItsAlias) {
  const PacketMeta first = Inside(kStart, 1);
  Set(first, 1024, 5, 1);
  const PacketMeta last = Inside(kStart, 1);
  const auto remove = [&](FlowId flow) {
    bool is_deleted = false;
    const Commands commands =
        driver_.On([&](Controller& c, ControllerOut& out) {
          is_deleted = c.DeleteFlow(kStart, flow, out);
        });
    EXPECT_EQ(commands.size(), is_deleted ? 1u : 0u);
    if (is_deleted) {
      EXPECT_EQ(commands[0].kind, Kind::kEndFlow);
      EXPECT_EQ(commands[0].end.flow, flow);
      EXPECT_EQ(commands[0].end.last, last.clock);
    }
    return is_deleted;
  };
  EXPECT_TRUE(remove(first.flow));
  EXPECT_FALSE(remove(first.flow));
  EXPECT_EQ(counters().flows_deleted, 1u);
  EXPECT_EQ(counters().flows_ended, 1u);
  EXPECT_EQ(Outside(kStart, 1024).reason, DropReason::kNoAlias);
  // The flowlet, which was open, holds no load at the unit any more.
  driver_.RunTimers(kStart + Seconds(1));
  EXPECT_EQ(driver_.units().placeable_units(), 0u);
  EXPECT_NE(Inside(kStart, 1).flow, first.flow);
}

TEST_F(AliasTest, DeletesNoFlowOfWhichAnEarlierOwnerHasState) {
  const PacketMeta first = Inside(kStart, 1);
  policy_.unit = kU1;
  const PacketMeta moved = Inside(kStart + Seconds(1), 1);
  ASSERT_EQ(moved.flow, first.flow);
  const auto remove = [&] {
    bool is_deleted = false;
    driver_.On([&](Controller& c, ControllerOut& out) {
      is_deleted = c.DeleteFlow(kStart + Seconds(1), first.flow, out);
    });
    return is_deleted;
  };
  EXPECT_FALSE(remove());
  driver_.On([&](Controller& c, ControllerOut&) {
    c.on_takeover({.flow = moved.flow, .clock = moved.clock});
  });
  EXPECT_TRUE(remove());
}

// U8: the null packet moves the flow, and its alias leads to the new owner.
TEST_F(AliasTest, MovesAFlowWithAnAliasOffAUnitThatStops) {
  const PacketMeta meta = Inside(kStart, 1);
  Set(meta, 1024);
  Idle(kStart, meta, Seconds(200));
  Instant now = kStart;
  policy_.unit = kU1;
  while (driver_.null_packets == 0 && now < kStart + Seconds(60)) {
    now = now + Milliseconds(50);
    Inside(now, 2);  // keeps unit 1 in use
    driver_.RunTimers(now);
  }
  ASSERT_EQ(driver_.null_packets, 1u);
  const ControllerCommand command = Outside(now, 1024);
  EXPECT_EQ(command.unit, kU1);
  EXPECT_EQ(command.meta.flow, meta.flow);
  EXPECT_EQ(value(command.meta.clock), 3u);
}

}  // namespace
}  // namespace snf
