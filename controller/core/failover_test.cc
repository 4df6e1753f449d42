// SPDX-License-Identifier: Apache-2.0
#include "controller/core/failover.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1}, kU2{2};

ControllerOptions Options() {
  ControllerOptions options;
  options.max_flows = 16;
  options.max_units = 3;
  options.warm_units = 3;
  options.replicas = 0;
  options.unit_queue_packets = 8;
  options.recovery_slots = 1;
  options.unit_idle_timeout = Seconds(100);
  return options;
}

// All units are active. Unit 0 is to fail.
class Failures : public testing::Test {
 protected:
  explicit Failures(const ControllerOptions& options = Options())
      : controller_(options, policy_) {
    for (const UnitId unit : {kU2, kU1, kU0}) {
      Send(9, unit);
      controller_.on_unit_ready(kStart, unit);
    }
  }
  // Sends the flow's next packet there.
  PacketMeta Send(uint32_t flow, UnitId unit) {
    policy_.unit = unit;
    const Arrival arrival = {.key = Flow(flow),
                             .time = now_,
                             .original_length = 1'000,
                             .packet = PacketHandle{next_packet_++}};
    controller_.on_packets(now_, std::span(&arrival, 1), out_);
    return Only(Kind::kEnqueue, Take()).at(0).meta;
  }
  Commands Take() {
    const Commands commands(out_.commands().begin(), out_.commands().end());
    out_.clear();
    return commands;
  }
  bool FailUnit(UnitId unit) {
    const bool is_taken = controller_.on_unit_failed(
        now_, unit, controller_.units().incarnation(unit), out_);
    for (const ControllerCommand& command : Take()) {
      if (command.kind == Kind::kSeal) round_ = command.seal.round;
    }
    return is_taken;
  }
  void Sealed(UnitId unit, FlowId flow, uint64_t applied) {
    controller_.on_sealed(now_, {flow, Clock{applied}, round_, unit}, out_);
  }
  void Done(UnitId unit, FlowId flow, uint64_t applied) {
    controller_.on_done(now_, {flow, Clock{applied}, round_, unit}, out_);
  }
  // The others have nothing to say.
  Commands EndRound() {
    Sealed(kU0, kNoFlow, 0);
    Done(kU1, kNoFlow, 0);
    Done(kU2, kNoFlow, 0);
    return Take();
  }
  // Returns the commands that are about that flow.
  static Commands About(FlowId flow, const Commands& commands) {
    Commands found;
    for (const ControllerCommand& command : commands) {
      const bool is_about =
          command.kind == Kind::kEnqueue    ? command.meta.flow == flow
          : command.kind == Kind::kRedirect ? command.redirect.flow == flow
                                            : false;
      if (is_about) found.push_back(command);
    }
    return found;
  }
  const FailureCounters& counters() const {
    return controller_.counters().failures;
  }

  static DirectedPolicy PerPacket() {
    DirectedPolicy policy;
    policy.each_packet = true;
    return policy;
  }

  DirectedPolicy policy_ = PerPacket();
  Controller controller_;
  ControllerOut out_;
  uint32_t next_packet_ = 0;
  uint32_t round_ = 0;
  Instant now_ = kStart;
};

// Ends are awaited.
class EndingFailures : public Failures {
 protected:
  explicit EndingFailures(const ControllerOptions& options = WithEnds())
      : Failures(options) {}
  // A flow of one packet, of which its NF says that it is over.
  FlowId EndFlow(UnitId unit) {
    const FlowId flow = Send(1, unit).flow;
    controller_.on_flow_note(
        kStart, {.flow = flow, .clock = Clock{1}, .over = true}, out_);
    EXPECT_EQ(Only(Kind::kEndFlow, Take()).size(), 1u);
    return flow;
  }

  static ControllerOptions WithEnds() {
    ControllerOptions options = Options();
    options.recovery_slots = 4;
    options.awaits_ends = true;
    return options;
  }
};

// … and controllers may fail.
class ForgettingFailures : public EndingFailures {
 protected:
  ForgettingFailures() : EndingFailures(Forgetting()) {}
  // Returns the ends that are told as time goes by.
  Commands LaterEnds() {
    now_ = now_ + Milliseconds(10);
    controller_.on_timers(now_, out_);
    return Only(Kind::kEndFlow, Take());
  }

 private:
  static ControllerOptions Forgetting() {
    ControllerOptions options = WithEnds();
    options.forgets_copies = true;
    return options;
  }
};

class WanderingFailures : public Failures {
 protected:
  // An odd number: the oldest run that is kept is that of an odd clock then.
  static constexpr uint32_t kMaxRuns = 999;

  WanderingFailures() : Failures(WithLongHistories()) {}
  // Sends so many packets of a flow to units 0 and 1 in turn, and one more.
  FlowId Wander(uint32_t packets) {
    for (uint32_t i = 0; i < packets; ++i) {
      const UnitId unit = i % 2 == 0 ? kU0 : kU1;
      Send(1, unit);
      controller_.on_drained(kStart,
                             {.unit = unit, .packets = 1, .bytes = 1'000});
    }
    return Send(1, kU1).flow;
  }

 private:
  static ControllerOptions WithLongHistories() {
    ControllerOptions options = Options();
    options.max_owner_runs = kMaxRuns;
    options.recovery_slots = 1'000;
    return options;
  }
};

// No slots are kept for recoveries.
class CrampedFailures : public Failures {
 protected:
  CrampedFailures() : Failures(WithoutReserve()) {}

 private:
  static ControllerOptions WithoutReserve() {
    ControllerOptions options = Options();
    options.recovery_slots = 0;
    return options;
  }
};

class LeavingFailures : public Failures {
 protected:
  LeavingFailures() : Failures(ThatStop()) {}

 private:
  static ControllerOptions ThatStop() {
    ControllerOptions options = Options();
    options.recovery_slots = 8;
    options.unit_idle_timeout = Milliseconds(2);
    options.keep_warm = Milliseconds(2);
    return options;
  }
};

class SpareFailures : public Failures {
 protected:
  SpareFailures() : Failures(WithASpare()) {}

 private:
  static ControllerOptions WithASpare() {
    ControllerOptions options = Options();
    options.max_units = 4;
    options.spare_units = 1;
    return options;
  }
};

// Clocks 1-4 are at unit 0, and 5 at unit 1. Unit 0's logger has applied 3.
TEST_F(Failures, ReplaceALostClockAndRedirectTheNext) {
  FlowId flow{};
  for (int i = 0; i < 4; ++i) flow = Send(1, kU0).flow;
  Send(1, kU1);
  ASSERT_TRUE(FailUnit(kU0));
  Sealed(kU0, flow, 3);
  const Commands commands = About(flow, EndRound());
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].unit, kU1);
  EXPECT_EQ(commands[0].packet, kNoPacket);
  const PacketMeta& meta = commands[0].meta;
  EXPECT_EQ(meta.clock, Clock{4});
  EXPECT_EQ(meta.flags, PacketMeta::kFirstOfFlowlet | PacketMeta::kTombstone);
  EXPECT_EQ(meta.source, kU0);
  EXPECT_EQ(meta.source_kind, StateSource::kLogger);
  EXPECT_EQ(commands[1].unit, kU1);
  EXPECT_EQ(commands[1].redirect.clock, Clock{5});
  EXPECT_EQ(commands[1].redirect.source, kU1);
  const OwnerHistory& owners = controller_.owners();
  ASSERT_EQ(owners.runs(slot_of(flow)), 1u);
  EXPECT_TRUE(owners.run(slot_of(flow), 0).at_logger);
  EXPECT_EQ(owners.run(slot_of(flow), 0).last, Clock{3});
  EXPECT_FALSE(controller_.is_recovering());
  EXPECT_EQ(controller_.units().state(kU0), UnitPool::State::kStopped);
}

TEST_F(Failures, SendThePacketItselfWhereItSurvives) {
  const FlowId flow = Send(1, kU0).flow;
  PacketMeta lost = Send(1, kU0);
  ASSERT_TRUE(FailUnit(kU0));
  ASSERT_TRUE(controller_.on_survivor(lost, PacketHandle{77}));
  PacketMeta unneeded = lost;
  unneeded.clock = Clock{1};
  ASSERT_TRUE(controller_.on_survivor(unneeded, PacketHandle{78}));
  Sealed(kU0, flow, 1);
  const Commands all = EndRound();
  const Commands commands = About(flow, all);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].packet, PacketHandle{77});
  EXPECT_EQ(commands[0].meta.clock, Clock{2});
  EXPECT_TRUE(commands[0].meta.has_payload());
  EXPECT_EQ(commands[0].meta.original_length, 1'000u);
  const Commands drops = Only(Kind::kDrop, all);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].packet, PacketHandle{78});
  EXPECT_EQ(drops[0].reason, DropReason::kUnitFailed);
  EXPECT_EQ(counters().packets_rerouted, 1u);
}

TEST_F(Failures, MoveAFlowWithoutLostClocksByANullPacket) {
  const FlowId flow = Send(1, kU0).flow;
  ASSERT_TRUE(FailUnit(kU0));
  Sealed(kU0, flow, 1);
  const Commands commands = About(flow, EndRound());
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].meta.clock, Clock{2});
  EXPECT_EQ(commands[0].meta.flags,
            PacketMeta::kFirstOfFlowlet | PacketMeta::kNull);
  EXPECT_EQ(commands[0].meta.source, kU0);
  EXPECT_EQ(commands[0].meta.source_kind, StateSource::kLogger);
  EXPECT_EQ(controller_.flows().cold(slot_of(flow)).owner, commands[0].unit);
  EXPECT_EQ(controller_.units().owned_flows(kU0), 0u);
}

// Its timer would fail the next unit as well.
TEST_F(Failures, GiveUpACondemnedFlowAlone) {
  const FlowId kept = Send(1, kU0).flow;
  const FlowId condemned = Send(2, kU0).flow;
  controller_.Condemn(condemned);
  ASSERT_TRUE(FailUnit(kU0));
  Sealed(kU0, kept, 1);
  Sealed(kU0, condemned, 1);
  const Commands all = EndRound();
  EXPECT_EQ(Only(Kind::kEnqueue, About(kept, all)).size(), 1u);
  EXPECT_TRUE(Only(Kind::kEnqueue, About(condemned, all)).empty());
  EXPECT_FALSE(Only(Kind::kForsake, all).empty());
  EXPECT_EQ(counters().flows_given_up, 1u);
  EXPECT_NE(Send(2, kU1).flow, condemned);
}

TEST_F(Failures, WithdrawAnAliasOnlyIfItsClockIsLost) {
  const FlowId kept = Send(1, kU0).flow;
  const FlowId lost = Send(2, kU0).flow;
  controller_.on_alias(
      {.key = External(1), .flow = kept, .clock = Clock{1}, .unit = kU0}, out_);
  controller_.on_alias(
      {.key = External(2), .flow = lost, .clock = Clock{1}, .unit = kU0}, out_);
  Take();
  ASSERT_TRUE(FailUnit(kU0));
  Sealed(kU0, kept, 1);
  EndRound();
  EXPECT_EQ(counters().aliases_withdrawn, 1u);
  EXPECT_EQ(controller_.aliases().clock(slot_of(kept)), Clock{1});
  EXPECT_EQ(controller_.aliases().clock(slot_of(lost)), Clock{});
}

// Unit 0 has words 0 and 1 of the pool, and waits for more. Its logger knows of
// word 0 alone, of which a flow has the first piece.
TEST_F(Failures, BringBackPiecesThatNoFlowHas) {
  controller_.AddPiecePool(0, 191);
  for (const UnitId unit : {kU0, kU0, kU1}) {
    controller_.on_piece_request(kStart, {.pool = 0, .unit = unit}, out_);
    ASSERT_EQ(Only(Kind::kPieces, Take()).size(), 1u);
  }
  controller_.on_piece_request(kStart, {.pool = 0, .unit = kU0}, out_);
  ASSERT_EQ(Only(Kind::kPieces, Take()).size(), 0u);
  ASSERT_TRUE(FailUnit(kU0));
  controller_.on_pieces_returned(
      kStart, {.word = 0, .pool = 0, .unit = kU0, .mask = ~uint64_t{1}}, out_);
  EXPECT_EQ(controller_.counters().pieces.pieces_out, 129u);
  controller_.on_grants_sealed(kStart, kU0, 1, out_);
  EXPECT_EQ(controller_.counters().pieces.pieces_out, 65u);
  controller_.on_grants_sealed(kStart, kU0, 1, out_);
  EXPECT_EQ(controller_.counters().pieces.pieces_faulty, 0u);
  EndRound();
}

// Unit 1 fails before the recovery from unit 0 is over, and the packet that
// unit 0 had, and then unit 1, survives both.
TEST_F(Failures, SendAPacketThatSurvivesTwoUnitsOnceMore) {
  const PacketMeta first = Send(1, kU0);
  // More is lost than the others have slots.
  for (int i = 0; i < 30; ++i) {
    Send(2, kU0);
    controller_.on_drained(kStart, {.unit = kU0, .packets = 1, .bytes = 1'000});
  }
  ASSERT_TRUE(FailUnit(kU0));
  ASSERT_TRUE(controller_.on_survivor(first, PacketHandle{77}));
  const Commands before = About(first.flow, EndRound());
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before[0].packet, PacketHandle{77});
  ASSERT_EQ(before[0].unit, kU1);
  ASSERT_TRUE(controller_.is_recovering());
  ASSERT_TRUE(FailUnit(kU1));
  ASSERT_TRUE(controller_.on_survivor(before[0].meta, PacketHandle{77}));
  Sealed(kU1, kNoFlow, 0);
  EndRound();
  // Unit 2 serves what it gets.
  Commands again;
  for (int i = 1; i < 90 && controller_.is_recovering(); ++i) {
    controller_.on_drained(kStart, {.unit = kU2, .packets = 1});
    controller_.on_timers(kStart + Milliseconds(i), out_);
    for (const ControllerCommand& c : About(first.flow, Take())) {
      again.push_back(c);
    }
  }
  EXPECT_FALSE(controller_.is_recovering());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].packet, PacketHandle{77});
  EXPECT_EQ(again[0].unit, kU2);
}

// None of the owners has told of the flow's state.
TEST_F(WanderingFailures, RecoverAFlowWithManyOwners) {
  const FlowId flow = Wander(600);
  ASSERT_TRUE(FailUnit(kU0));
  Commands all = EndRound();
  while (controller_.is_recovering()) {
    controller_.on_timers(now_, out_);
    for (const ControllerCommand& command : Take()) all.push_back(command);
  }
  EXPECT_EQ(counters().flows_given_up, 0u);
  EXPECT_EQ(counters().clocks_lost, 301u);  // and one of flow 9
  uint64_t tombstones = 0;
  for (const ControllerCommand& command : About(flow, all)) {
    tombstones += command.kind == Kind::kEnqueue ? 1 : 0;
  }
  EXPECT_EQ(tombstones, 300u);
}

// The history has forgotten where the clock was before the first that is lost.
TEST_F(WanderingFailures, GiveUpAFlowWhoseHistoryIsCutOff) {
  const FlowId flow = Wander(kMaxRuns + 3);
  ASSERT_TRUE(FailUnit(kU0));
  const Commands all = EndRound();
  EXPECT_TRUE(About(flow, all).empty());
  EXPECT_EQ(counters().flows_given_up, 1u);
  // All units hear of it, its last owner at the end: the flow is over.
  const Commands told = Only(Kind::kForsake, all);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].unit, kU2);
  EXPECT_EQ(told[0].end.last, Clock{});
  EXPECT_EQ(told[1].unit, kU1);
  EXPECT_EQ(told[1].end.flow, flow);
  EXPECT_EQ(told[1].end.last, Clock{kMaxRuns + 4});
  EXPECT_EQ(Send(1, kU1).clock, Clock{1});
}

// All slots have packets that wait for the lost clocks of flows 9 and 1, so
// that neither finds one.
TEST_F(CrampedFailures, GiveUpTogetherFlowsThatFindNoSlotForLong) {
  Send(1, kU0);
  for (int i = 0; i < 7; ++i) {
    Send(1, kU1);
    Send(1, kU2);
  }
  ASSERT_TRUE(FailUnit(kU0));
  EndRound();
  const auto wait_until = [&](Nanos since) {
    for (; now_ < kStart + since; now_ = now_ + Milliseconds(1)) {
      controller_.on_timers(now_, out_);
      out_.clear();
    }
  };
  wait_until(Milliseconds(990));
  EXPECT_EQ(counters().flows_given_up, 0u);
  wait_until(Milliseconds(1'100));
  EXPECT_EQ(counters().flows_given_up, 2u);
  EXPECT_FALSE(controller_.is_recovering());
}

// Units 1 and 2 are to stop, and their flows find no slot at unit 0, which
// fails: nobody else could take over what it had.
TEST_F(LeavingFailures, WithdrawAStop) {
  Send(1, kU1);
  Send(2, kU2);
  for (const UnitId unit : {kU1, kU2}) {
    controller_.on_drained(now_, {.unit = unit, .packets = 2, .bytes = 2'000});
  }
  FlowId flow{};
  for (int i = 0; i < 7; ++i) flow = Send(3, kU0).flow;
  for (int i = 0; i < 20; ++i) {
    now_ = now_ + Milliseconds(1);
    controller_.on_timers(now_, out_);
  }
  EXPECT_EQ(Only(Kind::kStopUnit, Take()).size(), 2u);
  ASSERT_TRUE(FailUnit(kU0));
  const Commands commands = EndRound();
  const Commands starts = Only(Kind::kStartUnit, commands);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_TRUE(starts[0].warm);
  EXPECT_EQ(starts[0].unit, kU1);
  EXPECT_EQ(About(flow, commands).size(), 7u);
  EXPECT_EQ(controller_.units().state(kU1), UnitPool::State::kStarting);
}

// All units fail that there are. What they had is at the spare one until
// another has started.
TEST_F(SpareFailures, MoveFlowsWhereAllUnitsHaveFailed) {
  constexpr UnitId kSpare{3};
  const FlowId flow = Send(1, kU0).flow;
  for (const UnitId unit : {kU0, kU1, kU2}) ASSERT_TRUE(FailUnit(unit));
  for (const UnitId unit : {kU0, kU1, kU2}) Sealed(unit, kNoFlow, 0);
  const Commands commands = Take();
  const Commands starts = Only(Kind::kStartUnit, commands);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].unit, kSpare);
  ASSERT_EQ(About(flow, commands).size(), 1u);
  EXPECT_EQ(About(flow, commands)[0].unit, kSpare);
  EXPECT_FALSE(controller_.is_recovering());
  EXPECT_EQ(counters().flows_given_up, 0u);

  controller_.on_unit_ready(now_, kSpare);
  const PacketMeta next = Send(1, kU0);
  EXPECT_EQ(next.source, kSpare);
  controller_.on_unit_ready(now_, kU0);
  uint32_t packets = 0;
  for (const ControllerCommand& command : Only(Kind::kEnqueue, commands)) {
    packets += command.unit == kSpare ? 1 : 0;
  }
  controller_.on_drained(now_, {.unit = kSpare, .packets = packets});
  Commands stops;
  for (int i = 0; i < 100 && stops.empty(); ++i) {
    now_ = now_ + Milliseconds(10);
    controller_.on_timers(now_, out_);
    stops = Only(Kind::kStopUnit, Take());
  }
  ASSERT_FALSE(stops.empty());
  EXPECT_EQ(stops[0].unit, kSpare);
}

// Unit 0 has the last clock of a flow that is over. It comes again as a
// tombstone, and the end behind it.
TEST_F(EndingFailures, EndAFlowAtWhoeverGetsItsLastClock) {
  const FlowId flow = EndFlow(kU0);
  ASSERT_TRUE(FailUnit(kU0));
  const Commands commands = EndRound();
  const auto at = std::ranges::find_if(commands, [&](const auto& c) {
    return c.kind == Kind::kEnqueue && c.meta.flow == flow;
  });
  ASSERT_NE(at, commands.end());
  EXPECT_EQ(at->meta.clock, Clock{1});
  ASSERT_NE(at + 1, commands.end());
  EXPECT_EQ(at[1].kind, Kind::kEndFlow);
  EXPECT_EQ(at[1].unit, at->unit);
  EXPECT_EQ(at[1].end.last, Clock{1});
  EXPECT_EQ(counters().ends_repeated, 1u);
  EXPECT_TRUE(controller_.on_ended(flow));
  EXPECT_FALSE(controller_.on_ended(flow));
}

// The logger has its last clock, but not its end: a null packet goes first.
TEST_F(EndingFailures, EndAFlowBehindANullPacket) {
  const FlowId flow = EndFlow(kU0);
  ASSERT_TRUE(FailUnit(kU0));
  Sealed(kU0, flow, 1);
  const Commands commands = EndRound();
  const Commands null = About(flow, commands);
  ASSERT_EQ(null.size(), 1u);
  EXPECT_EQ(null[0].meta.clock, Clock{2});
  EXPECT_EQ(null[0].meta.source_kind, StateSource::kLogger);
  const Commands ends = Only(Kind::kEndFlow, commands);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].unit, null[0].unit);
  EXPECT_EQ(ends[0].end.last, Clock{2});
}

// The logger has an old copy until a Takeover tells it of the null packet: a
// new controller would take that for a flow that goes on.
TEST_F(ForgettingFailures, EndAFlowOnceNobodyHasAnOldCopy) {
  const FlowId flow = EndFlow(kU0);
  ASSERT_TRUE(FailUnit(kU0));
  Sealed(kU0, flow, 1);
  const Commands commands = EndRound();
  const Commands null = About(flow, commands);
  ASSERT_EQ(null.size(), 1u);
  EXPECT_TRUE(Only(Kind::kEndFlow, commands).empty());
  EXPECT_TRUE(LaterEnds().empty());
  controller_.on_takeover({.flow = flow, .clock = Clock{2}});
  const Commands ends = LaterEnds();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].unit, null[0].unit);
  EXPECT_EQ(ends[0].end.last, Clock{2});
  EXPECT_TRUE(LaterEnds().empty());
  EXPECT_TRUE(controller_.on_ended(flow));
}

// Unit 1 took the flow over from unit 0, and that was never told; unit 2 from
// unit 1, which was.
TEST_F(ForgettingFailures, LetAnOldCopyBeForgottenBeforeTheFlowEnds) {
  const FlowId flow = Send(1, kU0).flow;
  Send(1, kU1);
  Send(1, kU2);
  const auto after = [this, flow](Nanos time, Kind kind) {
    now_ = now_ + time;
    controller_.on_timers(now_, out_);
    Commands found;
    for (const ControllerCommand& command : Only(kind, Take())) {
      if (command.end.flow == flow) found.push_back(command);
    }
    return found;
  };
  after(Milliseconds(11), Kind::kForget);  // its flowlet is closed
  EXPECT_TRUE(after(Seconds(1'000), Kind::kForget).empty());
  controller_.on_takeover({.flow = flow, .clock = Clock{3}});
  for (int i = 0; i < 2; ++i) {
    const Commands forgets = after(Milliseconds(11), Kind::kForget);
    ASSERT_EQ(forgets.size(), 1u);
    EXPECT_EQ(forgets[0].unit, kU0);
    EXPECT_FALSE(forgets[0].of_logger);
    EXPECT_EQ(forgets[0].end.last, Clock{2});
  }
  controller_.on_takeover({.flow = flow, .clock = Clock{2}});
  EXPECT_EQ(after(Milliseconds(11), Kind::kEndFlow).size(), 1u);
}

TEST_F(EndingFailures, LeaveAFlowWhoseEndIsInALogger) {
  const FlowId flow = EndFlow(kU0);
  ASSERT_TRUE(FailUnit(kU0));
  // A logger has it as the clock after the last.
  Sealed(kU0, flow, 2);
  EXPECT_EQ(counters().answers_future_clock, 0u);
  EXPECT_TRUE(controller_.on_ended(flow));
  EXPECT_TRUE(Only(Kind::kEndFlow, EndRound()).empty());
}

// The flow goes on at another unit, which hears later where its state is.
TEST_F(Failures, LetPacketsThatComeMeanwhileWaitElsewhere) {
  const FlowId flow = Send(1, kU0).flow;
  ASSERT_TRUE(FailUnit(kU0));
  const PacketMeta meanwhile = Send(1, kU1);
  EXPECT_EQ(meanwhile.source, kU0);
  EXPECT_EQ(meanwhile.source_kind, StateSource::kUnit);
  Sealed(kU0, flow, 1);
  const Commands commands = About(flow, EndRound());
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kRedirect);
  EXPECT_EQ(commands[0].unit, kU1);
  EXPECT_EQ(commands[0].redirect.clock, Clock{2});
  EXPECT_EQ(commands[0].redirect.source_kind, StateSource::kLogger);
}

TEST_F(Failures, BeginAnewWithAnotherFailure) {
  const FlowId flow = Send(1, kU0).flow;
  ASSERT_TRUE(FailUnit(kU0));
  Sealed(kU0, flow, 1);
  Sealed(kU0, kNoFlow, 0);
  Done(kU1, kNoFlow, 0);
  ASSERT_TRUE(FailUnit(kU1));
  Done(kU2, kNoFlow, 0);
  Sealed(kU1, kNoFlow, 0);
  EXPECT_TRUE(controller_.is_recovering()) << "unit 0's logger is asked again";
  Sealed(kU0, flow, 1);
  Sealed(kU0, kNoFlow, 0);
  const Commands commands = About(flow, Take());
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].unit, kU2);
  EXPECT_EQ(commands[0].meta.clock, Clock{2});
}

TEST_F(Failures, RefuseWhatCannotBe) {
  const FlowId flow = Send(1, kU0).flow;
  EXPECT_FALSE(controller_.on_unit_failed(kStart, kU0, 77, out_));
  EXPECT_FALSE(controller_.on_unit_failed(kStart, UnitId{3}, 1, out_));
  EXPECT_FALSE(controller_.on_survivor({}, PacketHandle{1}));
  ASSERT_TRUE(FailUnit(kU0));
  EXPECT_FALSE(FailUnit(kU0)) << "it is known already";
  EXPECT_EQ(counters().failures_refused, 3u);
  EXPECT_EQ(counters().survivors_refused, 1u);
  EXPECT_FALSE(controller_.on_drained(
      kStart, {.unit = kU0, .packets = 1, .bytes = 1'000}));
  Sealed(kU0, MakeFlowId(0, 15, 0), 1);
  Sealed(kU0, flow, 2);
  Sealed(kU1, flow, 1);
  --round_;
  Sealed(kU0, flow, 1);
  ++round_;
  EXPECT_EQ(counters().answers_unknown_flow, 1u);
  EXPECT_EQ(counters().answers_future_clock, 1u);
  EXPECT_EQ(counters().answers_not_asked, 1u);
  EXPECT_EQ(counters().answers_old_round, 1u);
  EndRound();
  EXPECT_EQ(counters().clocks_lost, 2u) << "of flows 1 and 9";
}

}  // namespace
}  // namespace snf
