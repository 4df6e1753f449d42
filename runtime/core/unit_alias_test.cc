// SPDX-License-Identifier: Apache-2.0
// Aliases, what the NF says of a flow, and the flow's end.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/endpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/test_unit_fingerprint.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;

FlowKey KeyOf(uint16_t port) {
  return EndpointKey(IpAddress{}, be16(port), IpProtocol::kUdp,
                     FlowKeyForm::kIpv4Endpoint);
}

// Unit A, whose NF sets an alias at clock 2 of each flow.
TestUnit Aliasing() {
  static const NetworkFunction::Pool kPools[] = {{"ports", 0, 63}};
  TestUnit unit(kA, kSmallUnit, kPools);
  unit.nf.packet = [count = unit.nf.count](Packet&, FlowState& flow) {
    if (flow.get(count) == 2) flow.set_alias(KeyOf(80), 7, 3);
    return Verdict::forward();
  };
  return unit;
}

// The same, and 1/2 waits for its alias, with 1/3 behind it.
TestUnit Parked() {
  TestUnit unit = Aliasing();
  unit.Replicate(1, {kB, kC});
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Send(Within(1, 3));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/1", "alias 1/2"));
  return unit;
}

TEST(UnitAlias, IsAskedForInPlaceOfARelease) {
  const TestUnit unit = Parked();
  ASSERT_EQ(unit.aliases.size(), 1u);
  const Alias& alias = unit.aliases[0];
  EXPECT_EQ(alias.key, KeyOf(80));
  EXPECT_EQ(alias.flow, FlowId{1});
  EXPECT_EQ(alias.clock, Clock{2});
  EXPECT_EQ(alias.group, 7u);
  EXPECT_EQ(alias.group_limit, 3u);
  EXPECT_EQ(alias.unit, UnitId{kA});
  EXPECT_EQ(unit.unit.held_packets(), 1u);
}

TEST(UnitAlias, LetsItsPacketAndThoseBehindItGoOnceGranted) {
  TestUnit unit = Parked();
  EXPECT_THAT(unit.on_alias_ack(1, 2), ElementsAre("release 1/2"));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3"));
  EXPECT_EQ(unit.CountOf(1), 3u);
  EXPECT_EQ(unit.pool.in_use(), 0u);
}

// Else a new controller had what the unit before keeps forgotten. But what is
// older than the clock before it is.
TEST(UnitAlias, OfAFlowIsReportedAsNotReleased) {
  struct Collector final : Unit::Report {
    void on_flow(const FlowReport& flow) override { flows.push_back(flow); }
    void on_packet(const PacketReport&) override {}
    void on_open_alias(const Alias&) override {}
    void on_open_request(const PieceRequest&) override {}
    std::vector<FlowReport> flows;
  };
  for (const bool is_granted : {false, true}) {
    TestUnit unit = Parked();
    if (is_granted) unit.on_alias_ack(1, 2);
    Collector collector;
    unit.unit.MakeReport(collector);
    ASSERT_EQ(collector.flows.size(), is_granted ? 1u : 2u);
    EXPECT_EQ(collector.flows[0].clock, Clock{2});
    EXPECT_EQ(collector.flows[0].is_released, is_granted);
    if (is_granted) continue;
    EXPECT_EQ(collector.flows[1].kind, FlowReport::Kind::kTookOver);
    EXPECT_EQ(collector.flows[1].clock, Clock{1});
    EXPECT_TRUE(collector.flows[1].is_released);
  }
}

TEST(UnitAlias, DoesNotHoldUpOtherFlows) {
  TestUnit unit = Parked();
  unit.Send(New(2));
  EXPECT_THAT(unit.Serve(), ElementsAre("release 2/1"));
}

TEST(UnitAlias, OfAMovedFlowIsFollowedByTheTook) {
  TestUnit unit = Aliasing();
  unit.Send(First(1, 2, kB));
  unit.Serve();
  unit.on_state(1, 1);
  EXPECT_THAT(unit.Serve(), ElementsAre("alias 1/2"));
  EXPECT_THAT(unit.on_alias_ack(1, 2),
              ElementsAre("release 1/2", "took 1/2 to 1"));
}

TEST(UnitAlias, KeepsTheStateHereUntilTheAnswer) {
  TestUnit unit = Parked();
  EXPECT_THAT(unit.on_pull(1, 2, kB), IsEmpty());
  EXPECT_THAT(unit.on_timers(Ms(5)), IsEmpty());  // no push
  EXPECT_THAT(unit.on_push(1, 9), IsEmpty());
  EXPECT_EQ(unit.refused(StateRefusal::kFutureClock), 1u);
  EXPECT_THAT(unit.on_takeover(1, 3, kC), IsEmpty());
  EXPECT_EQ(unit.CountOf(1), 2u);
}

TEST(UnitAlias, AnswersThePullThatCameMeanwhile) {
  TestUnit unit = Aliasing();
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Serve();
  unit.on_pull(1, 2, kB);
  EXPECT_THAT(unit.on_alias_ack(1, 2),
              ElementsAre("release 1/2", "state 1 applied 2 to 1"));
}

TEST(UnitAlias, IsPushedFromWhenTheFlowIdlesAfterwards) {
  TestUnit unit = Aliasing();
  unit.Replicate(1, {kB});
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Serve();
  EXPECT_THAT(unit.on_timers(Ms(5)), IsEmpty());
  unit.on_alias_ack(1, 2);
  EXPECT_THAT(unit.on_timers(Ms(6)), ElementsAre("push 1 applied 2 to 1"));
}

TEST(UnitAlias, HoldsTheTimerOfItsFlowBack) {
  TestUnit unit = Aliasing();
  unit.nf.packet = [](Packet&, FlowState& flow) {
    flow.set_timer(Milliseconds(1));
    flow.set_alias(KeyOf(1));
    return Verdict::forward();
  };
  unit.nf.timer = [](FlowState& flow) {
    constexpr std::array<std::byte, 20> kFrame{};
    flow.emit(kFrame);
  };
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("alias 1/1"));
  EXPECT_THAT(unit.on_timers(Ms(5)), IsEmpty());
  EXPECT_THAT(unit.on_alias_ack(1, 1), ElementsAre("release 1/1"));
  EXPECT_THAT(unit.on_timers(Ms(6)), ElementsAre("timer due 1 applied 1"));
  EXPECT_THAT(unit.RunTimer(1, 2), ElementsAre("emit at 1/2", "advance 1/2"));
}

TEST(UnitAlias, ThatIsRefusedDropsItsPacketAndTellsTheNf) {
  for (const auto& [result, reason] :
       {std::pair{AliasResult::kConflict, "mapping_conflict"},
        {AliasResult::kGroupFull, "mapping_limit"},
        {AliasResult::kUnknown, "no_mapping"},
        {AliasResult{200}, "no_mapping"}}) {
    TestUnit unit = Parked();
    AliasResult told = AliasResult::kGranted;
    unit.nf.refused = [&](FlowState& flow, AliasResult why) {
      told = why;
      flow.put(unit.nf.count, 40);
      flow.end();
      const std::vector<std::byte> frame(20);
      EXPECT_TRUE(flow.emit(frame));
      flow.give_back(PoolId{0}, 9);
      EXPECT_EQ(flow.take(PoolId{0}, {.last = 9}), std::nullopt);
    };
    EXPECT_THAT(unit.on_alias_ack(1, 2, result),
                ElementsAre("emit at 1/2", "note 1/2",
                            std::string("drop 1/2 for ") + reason));
    EXPECT_EQ(told, std::min(result, AliasResult::kUnknown));
    EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3"));
    EXPECT_EQ(unit.CountOf(1), 41u);
    EXPECT_EQ(unit.unit.pieces(0), 1u);
    EXPECT_EQ(unit.pool.in_use(), 0u);
  }
}

TEST(UnitAlias, OfAPacketThatTheNfDropsStandsOrFallsAllTheSame) {
  for (const AliasResult result :
       {AliasResult::kGranted, AliasResult::kConflict}) {
    TestUnit unit(kA);
    int refusals = 0;
    unit.nf.refused = [&](FlowState&, AliasResult) { ++refusals; };
    unit.nf.packet = [](Packet&, FlowState& flow) {
      flow.set_alias(KeyOf(1));
      return Verdict::drop(1);
    };
    unit.Send(New(1));
    EXPECT_THAT(unit.Serve(), ElementsAre("alias 1/1"));
    EXPECT_THAT(unit.on_alias_ack(1, 1, result),
                ElementsAre("nf_drop 1/1 for malformed"));
    EXPECT_EQ(refusals, result == AliasResult::kGranted ? 0 : 1);
  }
}

TEST(UnitAlias, AcksThatAreLateRepeatedOrOfOtherPacketsChangeNothing) {
  TestUnit unit = Parked();
  const auto ack = [&](uint64_t flow, uint64_t clock) {
    const uint64_t before = UnitFingerprint::Of(unit.unit);
    EXPECT_THAT(unit.on_alias_ack(flow, clock), IsEmpty());
    EXPECT_THAT(unit.on_alias_ack(flow, clock, AliasResult::kConflict),
                IsEmpty());
    EXPECT_EQ(UnitFingerprint::Of(unit.unit), before);
  };
  for (const uint64_t clock : {uint64_t{0}, uint64_t{1}, uint64_t{3}}) {
    ack(1, clock);
  }
  ack(2, 2);
  ack(value(kNoFlow), 2);
  unit.on_alias_ack(1, 2);
  ack(1, 2);
  unit.Serve();
  ack(1, 2);
  ack(1, 3);
  EXPECT_EQ(unit.unit.flows(), 1u);
}

TEST(UnitAlias, NewOneOfTheNextPacketWaitsForItsOwnAnswer) {
  TestUnit unit(kA);
  unit.nf.packet = [count = unit.nf.count](Packet&, FlowState& flow) {
    flow.set_alias(KeyOf(1));
    flow.set_alias(KeyOf(static_cast<uint16_t>(10 + flow.get(count))));
    return Verdict::forward();
  };
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Serve();
  unit.on_alias_ack(1, 1);
  EXPECT_THAT(unit.Serve(), ElementsAre("alias 1/2"));
  EXPECT_THAT(unit.on_alias_ack(1, 1), IsEmpty());
  EXPECT_THAT(unit.on_alias_ack(1, 2), ElementsAre("release 1/2"));
  ASSERT_EQ(unit.aliases.size(), 2u);
  EXPECT_EQ(unit.aliases[0].key, KeyOf(11));
  EXPECT_EQ(unit.aliases[1].key, KeyOf(12));
}

TEST(UnitAlias, OfAFlowThatIsOverIsAnsweredFirst) {
  TestUnit unit = Parked();
  int ends = 0;
  unit.nf.end = [&](FlowState&) { ++ends; };
  EXPECT_THAT(unit.on_end_flow(1, 3), IsEmpty());
  EXPECT_THAT(unit.on_alias_ack(1, 2), ElementsAre("release 1/2"));
  EXPECT_EQ(ends, 0);
  EXPECT_THAT(unit.Serve(), ElementsAre("release 1/3"));
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(unit.unit.flows(), 0u);
}

TEST(UnitAlias, KeepsAUnitFromStopping) {
  TestUnit unit = Aliasing();
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  unit.Serve();
  unit.on_end_flow(1, 2);
  EXPECT_THAT(unit.on_stop(), IsEmpty());
  EXPECT_THAT(unit.on_alias_ack(1, 2), ElementsAre("release 1/2", "stopped"));
}

TEST(UnitAlias, IsPartOfTheFingerprint) {
  TestUnit one = Parked();
  TestUnit other = Aliasing();
  other.nf.packet = [count = other.nf.count](Packet&, FlowState& flow) {
    if (flow.get(count) == 2) flow.set_alias(KeyOf(81), 7, 3);
    return Verdict::forward();
  };
  other.Replicate(1, {kB, kC});
  for (const PacketMeta& meta : {New(1), Within(1, 2), Within(1, 3)}) {
    other.Send(meta);
  }
  other.Serve();
  EXPECT_NE(UnitFingerprint::Of(one.unit), UnitFingerprint::Of(other.unit));
  one.on_alias_ack(1, 2);
  other.on_alias_ack(1, 2);
  EXPECT_EQ(UnitFingerprint::Of(one.unit), UnitFingerprint::Of(other.unit));
}

TEST(UnitNote, OfACallIsOne) {
  TestUnit unit(kA);
  unit.nf.packet = [count = unit.nf.count](Packet&, FlowState& flow) {
    flow.set_idle_timeout(Milliseconds(9));
    flow.set_idle_timeout(Milliseconds(3));
    if (flow.get(count) == 2) flow.end();
    return Verdict::forward();
  };
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  EXPECT_THAT(unit.Serve(), ElementsAre("note 1/1", "release 1/1", "note 1/2",
                                        "release 1/2"));
  EXPECT_EQ(unit.notes[0].idle_timeout, Milliseconds(3));
  EXPECT_FALSE(unit.notes[0].over);
  EXPECT_EQ(unit.notes[1].idle_timeout, Milliseconds(3));
  EXPECT_TRUE(unit.notes[1].over);
}

TEST(UnitNote, OfAnEndLeavesTheTimeoutAsItWas) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState& flow) {
    flow.end();
    return Verdict::drop(0);
  };
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("note 1/1", "nf_drop 1/1 for blocked"));
  EXPECT_LT(unit.notes[0].idle_timeout.ns, 0);
}

TEST(UnitNote, FollowsTheAliasOfTheSameCall) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState& flow) {
    flow.set_idle_timeout(Milliseconds(3));
    flow.set_alias(KeyOf(1));
    return Verdict::forward();
  };
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("alias 1/1", "note 1/1"));
}

TEST(UnitNote, MayComeFromATimer) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState& flow) {
    flow.set_timer(Milliseconds(1));
    return Verdict::forward();
  };
  unit.nf.timer = [](FlowState& flow) { flow.end(); };
  unit.Send(New(1));
  unit.Serve();
  unit.now = Ms(2);
  EXPECT_THAT(unit.RunTimer(1, 2), ElementsAre("note 1/2", "advance 1/2"));
}

// Unit A, whose NF counts the ends of flows, and emits a packet at each.
class EndingUnit : public ::testing::Test {
 protected:
  EndingUnit() {
    unit_.nf.end = [this](FlowState& flow) {
      ends_.push_back(value(flow.id()) * 100 + flow.get(unit_.nf.count));
      const std::vector<std::byte> frame(20);
      EXPECT_TRUE(flow.emit(frame));
      flow.end();
      flow.set_timer(Milliseconds(1));
    };
  }
  TestUnit unit_{kA};
  std::vector<uint64_t> ends_;
};

TEST_F(EndingUnit, TellsTheNfBeforeTheStateGoes) {
  unit_.Send(New(3));
  unit_.Serve();
  EXPECT_THAT(unit_.on_end_flow(3, 1), ElementsAre("emit at 3/1"));
  EXPECT_THAT(ends_, ElementsAre(301u));
  EXPECT_EQ(unit_.unit.flows(), 0u);
  EXPECT_EQ(unit_.unit.next_wakeup(), Instant::max());
}

TEST_F(EndingUnit, TellsTheNfAfterTheLastPacket) {
  unit_.Send(New(3));
  unit_.Send(Within(3, 2));
  unit_.on_end_flow(3, 2);
  EXPECT_THAT(ends_, IsEmpty());
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("release 3/1", "release 3/2", "emit at 3/2"));
  EXPECT_THAT(ends_, ElementsAre(302u));
}

TEST_F(EndingUnit, TellsTheNfAfterATombstone) {
  unit_.Send(New(3));
  unit_.Send(Tombstone(Within(3, 2)));
  unit_.on_end_flow(3, 2);
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("release 3/1", "advance 3/2", "emit at 3/2"));
  EXPECT_THAT(ends_, ElementsAre(301u));
}

TEST_F(EndingUnit, DoesNotTellOfReplicasAndOfWhatWasTaken) {
  unit_.on_push(3, 5);
  unit_.on_end_flow(3, 5);
  unit_.Send(New(4));
  unit_.Serve();
  unit_.on_pull(4, 1, kB);
  unit_.on_takeover(4, 2, kB);
  unit_.on_timers(Ms(400'000));
  EXPECT_THAT(ends_, IsEmpty());
  EXPECT_EQ(unit_.unit.flows(), 0u);
}

// The last packet of a moved flow, at which the NF does all that it may, and
// once more at the flow's end.
TEST(UnitCall, PushesNoMoreThanItsLimit) {
  constexpr uint16_t kPools = 9;
  const std::vector<NetworkFunction::Pool> pools(kPools, {"ports", 0, 9'999});
  TestUnit unit(kA, kSmallUnit, pools);
  // 300 words of pool 8, one piece each, and one of the others.
  for (uint32_t i = 0; i < 300 + kPools; ++i) {
    const PoolId pool{static_cast<uint16_t>(std::min(i, kPools - 1u))};
    bool has_come = false;
    unit.nf.missing = [&](FlowState&) -> std::optional<PoolId> {
      return has_come ? std::nullopt : std::optional(pool);
    };
    unit.Send(New(9));
    unit.Serve();
    has_come = true;
    unit.on_pieces(static_cast<uint16_t>(pool), i % 150, 1ull << (i / 150));
    unit.Serve();
    unit.on_end_flow(9, 1);
  }
  unit.nf.missing = [](FlowState&) { return std::nullopt; };
  const auto do_all = [&](FlowState& flow) {
    const std::vector<std::byte> frame(20);
    while (flow.emit(frame)) {
    }
    for (uint16_t p = 0; p < kPools; ++p) flow.take(PoolId{p}, {.last = 9'999});
    for (uint32_t p = 0; p < 5; ++p) flow.give_back(PoolId{8}, 9'000 + p);
    flow.end();
  };
  unit.nf.packet = [&](Packet&, FlowState& flow) {
    do_all(flow);
    return Verdict::forward();
  };
  unit.nf.end = do_all;
  unit.Send(First(1, 2, kB));
  unit.Serve();
  unit.on_state(1, 1);
  unit.on_end_flow(1, 2);
  EXPECT_EQ(unit.Begin(), TestUnit::Lines{"service 1/2"});
  const size_t commands = unit.Finish().size();
  EXPECT_LE(commands, kMaxUnitCommandsPerCall);
  EXPECT_GE(commands, kMaxUnitCommandsPerCall / 2);
}

}  // namespace
}  // namespace snf
