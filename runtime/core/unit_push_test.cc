// SPDX-License-Identifier: Apache-2.0
// Pushes that have only what changed since an earlier one (push_bases.h).
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/push_bases.h"
#include "runtime/core/test_unit.h"

namespace snf {
namespace {

using Lines = TestUnit::Lines;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr uint16_t kC = 2;

UnitOptions WithBases(uint32_t bases) {
  UnitOptions options = kSmallUnit;
  options.push_bases = bases;
  return options;
}

class UnitDeltaPush : public ::testing::Test {
 protected:
  UnitDeltaPush() { LetNote(a_); }

  // Each packet keeps a note, so that the record is larger than a number.
  static void LetNote(TestUnit& unit) {
    unit.nf.packet = [&unit](Packet&, FlowState& flow) {
      std::array<std::byte, 12> note;
      note.fill(std::byte{1});
      if (!flow.has(unit.nf.note)) flow.put(unit.nf.note, note);
      return Verdict::forward();
    };
  }
  // The next packet of the flow runs at A, which is idle then. Returns the
  // pushes.
  Lines RunAtA(uint64_t flow, uint64_t clock) {
    a_.states.clear();
    a_.Send(clock == 1 ? New(flow) : Within(flow, clock));
    a_.Serve();
    return a_.on_timers(a_.now + Milliseconds(1));
  }
  const SentState& sent(size_t i = 0) const { return a_.states.at(i); }
  uint64_t without_base() const {
    return b_.refused(StateRefusal::kDeltaWithoutBase);
  }
  // B runs the next packet on its replica.
  void ExpectRunsAtB(uint64_t flow, uint64_t clock) {
    b_.Send(First(flow, clock, kA));
    EXPECT_EQ(b_.Begin(), Lines{"service " + std::to_string(flow) + "/" +
                                std::to_string(clock)});
    b_.Finish();
    EXPECT_EQ(b_.CountOf(flow), clock);
  }

  TestUnit a_{kA, WithBases(4)};
  TestUnit b_{kB};
};

TEST_F(UnitDeltaPush, TheSecondOneHasOnlyWhatChanged) {
  a_.Replicate(1, {kB});
  EXPECT_EQ(RunAtA(1, 1), Lines{"push 1 applied 1 to 1"});
  EXPECT_FALSE(sent().state.delta);
  EXPECT_EQ(sent().record.size(), 40u);
  b_.on_state(sent());
  EXPECT_EQ(RunAtA(1, 2), Lines{"push 1 applied 2 to 1"});
  EXPECT_TRUE(sent().state.delta);
  // The base's clock, a delta's head, and a number.
  EXPECT_EQ(sent().record.size(), 8u + 16u + 8u);
  b_.on_state(sent());
  EXPECT_EQ(b_.refused(), 0u);
  ExpectRunsAtB(1, 3);
}

TEST_F(UnitDeltaPush, AUnitThatGotNoneBeforeGetsTheWholeState) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  a_.Replicate(1, {kB, kC});
  RunAtA(1, 2);
  ASSERT_EQ(a_.states.size(), 2u);
  EXPECT_TRUE(sent(0).state.delta);
  EXPECT_FALSE(sent(1).state.delta);
  a_.Replicate(1, {kC});
  RunAtA(1, 3);
  EXPECT_TRUE(sent().state.delta);
  // Unit B was left out once.
  a_.Replicate(1, {kB});
  RunAtA(1, 4);
  EXPECT_FALSE(sent().state.delta);
}

TEST_F(UnitDeltaPush, AUnitWithoutTheBaseDropsTheDeltaAndPulls) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  const SentState lost = sent();
  RunAtA(1, 2);
  EXPECT_EQ(b_.on_state(sent()), Lines{});
  EXPECT_EQ(without_base(), 1u);
  EXPECT_EQ(b_.unit.flows(), 0u);
  // The base comes late, so that the next delta finds another clock.
  b_.on_state(lost);
  RunAtA(1, 3);
  b_.on_state(sent());
  EXPECT_EQ(without_base(), 2u);
  b_.Send(First(1, 4, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 3 from 0"});
}

TEST_F(UnitDeltaPush, ALateOrRepeatedDeltaIsStale) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  b_.on_state(sent());
  RunAtA(1, 2);
  b_.on_state(sent());
  b_.on_state(sent());
  EXPECT_EQ(b_.refused(StateRefusal::kStale), 1u);
  EXPECT_EQ(b_.CountOf(1), 2u);
}

TEST_F(UnitDeltaPush, AHeldPacketRunsOnceADeltaLeadsToItsState) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  b_.on_state(sent());
  b_.Send(First(1, 3, kA));
  EXPECT_EQ(b_.Serve(), Lines{"pull 1 need 2 from 0"});
  RunAtA(1, 2);
  b_.on_state(sent());
  EXPECT_EQ(b_.Serve(), (Lines{"release 1/3", "took 1/3 to 0"}));
  EXPECT_EQ(b_.CountOf(1), 3u);
}

TEST_F(UnitDeltaPush, ADeltaIsNotTakenForTheCopyOfTheFlowsOwner) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  b_.on_state(sent());
  ExpectRunsAtB(1, 2);
  RunAtA(1, 2);
  RunAtA(1, 3);
  b_.on_state(sent());
  EXPECT_EQ(b_.refused(StateRefusal::kNotTaken), 1u);
}

TEST_F(UnitDeltaPush, AStateGoesWholeAfterSomeDeltas) {
  a_.Replicate(1, {kB});
  for (uint64_t clock = 1; clock <= 40; ++clock) {
    RunAtA(1, clock);
    b_.on_state(sent());
    EXPECT_EQ(sent().state.delta,
              (clock - 1) % (PushBases::kMaxDeltasInARow + 1u) != 0);
    EXPECT_EQ(b_.CountOf(1), clock);
  }
}

TEST_F(UnitDeltaPush, AStateGoesWholeOnceItsBaseIsOld) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  a_.now = a_.now + PushBases::kLifetime;
  RunAtA(1, 2);
  EXPECT_FALSE(sent().state.delta);
}

TEST_F(UnitDeltaPush, AStateGoesWholeOnceTheFlowWasElsewhere) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  b_.on_state(sent());
  ExpectRunsAtB(1, 2);
  a_.on_takeover(1, 2, kB);
  // The flow comes back, and B forgets it.
  a_.Replicate(1, {kB}, 1);
  a_.Send(First(1, 3, kB));
  a_.Serve();
  a_.states.clear();
  a_.on_state(1, 2);
  a_.Serve();
  a_.on_timers(a_.now + Milliseconds(1));
  ASSERT_EQ(a_.states.size(), 1u);
  EXPECT_FALSE(sent().state.delta);
}

TEST_F(UnitDeltaPush, AnotherFlowTakesTheOnlyPlace) {
  TestUnit a(kA, WithBases(1));
  LetNote(a);
  for (const uint64_t flow : {1, 2}) a.Replicate(flow, {kB});
  for (const uint64_t clock : {1, 2}) {
    for (const uint64_t flow : {1, 2}) {
      a.Send(clock == 1 ? New(flow) : Within(flow, clock));
      a.Serve();
      a.on_timers(a.now + Milliseconds(1));
      EXPECT_FALSE(a.states.back().state.delta);
    }
  }
  EXPECT_EQ(a.states.size(), 4u);
}

TEST_F(UnitDeltaPush, NoDeltaIsSentWhereTheRecordIsNoLarger) {
  TestUnit a(kA, WithBases(4));  // without a note
  a.Replicate(1, {kB});
  a.Send(New(1));
  a.Serve();
  a.on_timers(Ms(1));
  a.Send(Within(1, 2));
  a.Serve();
  a.on_timers(Ms(2));
  EXPECT_FALSE(a.states.at(1).state.delta);
}

TEST_F(UnitDeltaPush, WithoutPlacesEachIsWhole) {
  TestUnit a(kA);
  LetNote(a);
  a.Replicate(1, {kB});
  for (uint64_t clock = 1; clock <= 3; ++clock) {
    a.Send(clock == 1 ? New(1) : Within(1, clock));
    a.Serve();
    a.on_timers(Ms(static_cast<int64_t>(clock)));
    EXPECT_FALSE(a.states.back().state.delta);
  }
}

TEST_F(UnitDeltaPush, OnlyAPushMayBeADelta) {
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  b_.on_state(sent());
  RunAtA(1, 2);
  SentState answer = sent();
  answer.state.pushed = false;
  b_.on_state(answer);
  EXPECT_EQ(b_.refused(StateRefusal::kMalformed), 1u);
  EXPECT_EQ(b_.CountOf(1), 1u);
}

// Each content of a delta leaves the old copy, or a record that can be.
TEST_F(UnitDeltaPush, HostileDeltasAreCountedAndChangeNothingElse) {
  const uint64_t seed = 35;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  a_.Replicate(1, {kB});
  RunAtA(1, 1);
  const SentState base = sent();
  RunAtA(1, 2);
  const SentState good = sent();
  uint64_t taken = 0;
  for (int i = 0; i < 5'000; ++i) {
    TestUnit b(kB);
    b.on_state(base);
    SentState bad = good;
    for (uint64_t flips = 1 + rng.Below(4); flips > 0; --flips) {
      bad.record[rng.Below(bad.record.size())] ^= std::byte{1} << rng.Below(8);
    }
    bad.record.resize(rng.Below(3) == 0 ? rng.Below(64) : bad.record.size());
    bad.state.bytes = static_cast<uint32_t>(bad.record.size());
    b.on_state(bad);
    const bool is_taken = b.unit.counters().replicas_taken == 2;
    ASSERT_EQ(b.refused(), is_taken ? 0u : 1u);
    ASSERT_TRUE(
        ScriptedNf::Schema().IsWellFormed(b.unit.state_bytes(FlowId{1})));
    if (!is_taken) {
      ASSERT_EQ(b.CountOf(1), 1u);
    }
    taken += is_taken ? 1 : 0;
  }
  EXPECT_GT(taken, 100u);
  EXPECT_LT(taken, 4'900u);
}

}  // namespace
}  // namespace snf
