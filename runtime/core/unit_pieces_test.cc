// SPDX-License-Identifier: Apache-2.0
// Pieces of pools: asked for, waited for, taken.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit_fingerprint.h"
#include "runtime/core/test_unit_pieces.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(UnitPiecesTest, AreAskedForAndWaitedFor) {
  EXPECT_THAT(Run(New(1)), ElementsAre("request 0", "wait 1/1"));
  EXPECT_THAT(unit_.Serve(), IsEmpty());
  EXPECT_THAT(Grant(2, kAll), IsEmpty());
  EXPECT_EQ(unit_.unit.pieces(0), 64u);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1"));
  EXPECT_THAT(taken_, ElementsAre(128u));
  EXPECT_EQ(unit_.CountOf(1), 1u);
  EXPECT_EQ(unit_.unit.pieces(0), 63u);
}

TEST_F(UnitPiecesTest, AreTakenWithoutWaitingWhereThereAreSome) {
  Stock(2, 1);
  EXPECT_THAT(Run(New(1)), ElementsAre("release 1/1"));
  EXPECT_THAT(Run(New(2)), ElementsAre("release 2/1"));
  EXPECT_THAT(taken_, ElementsAre(128u, 129u));
}

// The controller asks no other unit for such a request.
TEST_F(UnitPiecesTest, AreAskedForAnewWhereAPacketCameToWaitSince) {
  Run(New(1));
  Grant(2, 1);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0 ahead", "release 1/1"));
  EXPECT_THAT(Run(New(2)), ElementsAre("wait 2/1"));
  EXPECT_THAT(Grant(0, 0), ElementsAre("request 0"));
  EXPECT_THAT(unit_.Serve(), IsEmpty());
  Grant(3, 1);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0 ahead", "release 2/1"));
  EXPECT_FALSE(was_exhausted_);
}

TEST_F(UnitPiecesTest, GoToThosePacketsThatWaitedFirst) {
  Start(New(1));
  Start(New(2));
  Start(New(3));
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("request 0", "wait 1/1", "wait 2/1", "wait 3/1"));
  EXPECT_THAT(Grant(2, 0b11), ElementsAre("request 0")) << "for the third";
  Start(New(4));
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("release 1/1", "release 2/1", "wait 4/1"));
  EXPECT_THAT(Grant(3, kAll), IsEmpty());
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 3/1", "release 4/1"));
}

TEST_F(UnitPiecesTest, GivenBackWakeAPacketEach) {
  Run(New(1));
  Grant(2, 0b11);
  unit_.Serve();
  Run(New(2));
  Grant(0, 0);
  Start(New(3));
  Start(New(4));
  Start(New(5));
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("request 0", "wait 3/1", "wait 4/1", "wait 5/1"));
  EXPECT_THAT(Do(6,
                 [](FlowState& flow) {
                   flow.give_back(kPorts, 128);
                   flow.give_back(kPorts, 129);
                 }),
              ElementsAre("release 6/1", "release 3/1", "release 4/1"));
  EXPECT_THAT(unit_.Serve(), IsEmpty());
}

TEST_F(UnitPiecesTest, OfEachPoolAreWaitedForApart) {
  Start(New(1));
  unit_.Serve();
  unit_.nf.missing = [](FlowState& flow) -> std::optional<PoolId> {
    if (!flow.take(kOthers, {.last = 999}).has_value()) return kOthers;
    return std::nullopt;
  };
  EXPECT_THAT(Run(New(2)), ElementsAre("request 1", "wait 2/1"));
  EXPECT_THAT(unit_.on_pieces(1, 0, kAll), IsEmpty());
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 2/1"));
}

TEST_F(UnitPiecesTest, ThatDoNotExistDropThePacketThatWaits) {
  Start(New(1));
  Start(Within(1, 2));
  unit_.Serve();
  EXPECT_THAT(Grant(0, 0), IsEmpty());
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("drop 1/1 for no_pieces", "request 0", "wait 1/2"));
  EXPECT_FALSE(was_exhausted_) << "at the packet that has not waited yet";
  Grant(2, kAll);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/2"));
  EXPECT_EQ(unit_.CountOf(1), 1u);
}

TEST_F(UnitPiecesTest, ThatDoNotExistCanBeDoneWithout) {
  goes_without_ = true;
  Run(New(1));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1"));
  EXPECT_TRUE(was_exhausted_);
  EXPECT_THAT(Run(Within(1, 2)), ElementsAre("request 0", "wait 1/2"));
}

TEST_F(UnitPiecesTest, OfAnotherPoolAreWaitedForWhereOneIsExhausted) {
  unit_.nf.missing = [](FlowState& flow) -> std::optional<PoolId> {
    if (!flow.is_exhausted(kPorts)) return kPorts;
    EXPECT_FALSE(flow.is_exhausted(kOthers));
    if (flow.take(kOthers, {.last = 999})) return std::nullopt;
    return kOthers;
  };
  EXPECT_THAT(Run(New(1)), ElementsAre("request 0", "wait 1/1"));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 1", "wait 1/1"));
  unit_.on_pieces(1, 0, 1);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 1 ahead", "release 1/1"));
}

TEST_F(UnitPiecesTest, AreWaitedForInTwoPoolsAtMost) {
  bool both_are_exhausted = false;
  unit_.nf.missing = [&](FlowState& flow) -> std::optional<PoolId> {
    both_are_exhausted =
        flow.is_exhausted(kPorts) && flow.is_exhausted(kOthers);
    EXPECT_FALSE(flow.is_exhausted(kThird));
    if (both_are_exhausted) return kThird;
    return flow.is_exhausted(kPorts) ? kOthers : kPorts;
  };
  Run(New(1));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 1", "wait 1/1"));
  unit_.on_pieces(1, 0, 0);
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("request 2 ahead", "drop 1/1 for no_pieces"));
  EXPECT_TRUE(both_are_exhausted);
  Run(New(2));
  EXPECT_FALSE(both_are_exhausted) << "at a packet that has not waited";
}

TEST_F(UnitPiecesTest, OfTheFirstOfTwoPoolsAreNotWaitedForAgain) {
  unit_.nf.missing = [](FlowState& flow) -> std::optional<PoolId> {
    if (flow.is_exhausted(kOthers)) return kPorts;
    return flow.is_exhausted(kPorts) ? kOthers : kPorts;
  };
  Run(New(1));
  Grant(0, 0);
  unit_.Serve();
  unit_.on_pieces(1, 0, 0);
  EXPECT_THAT(unit_.Serve(), ElementsAre("drop 1/1 for no_pieces"));
}

TEST_F(UnitPiecesTest, AreNotAskedForNowHereNowThere) {
  uint32_t runs = 0;
  unit_.nf.missing = [&](FlowState& flow) -> std::optional<PoolId> {
    const std::array<PoolId, 2> pools = {kPorts, kOthers};
    const auto is_exhausted = [&](PoolId p) { return flow.is_exhausted(p); };
    if (std::ranges::all_of(pools, is_exhausted)) return std::nullopt;
    PoolId pool = pools.at(++runs % 2);
    if (is_exhausted(pool)) pool = pools.at((runs + 1) % 2);
    return pool;
  };
  Start(New(1));
  Lines lines = unit_.Serve();
  for (uint32_t i = 0; lines.back() == "wait 1/1"; ++i) {
    ASSERT_LT(i, 4 * kMaxRunsInVain);
    const bool is_first = std::ranges::count(lines, "request 0") > 0;
    unit_.on_reclaim(is_first ? 1 : 0);  // another unit wants that
    unit_.on_pieces(is_first ? 0 : 1, 2, 1);
    lines = unit_.Serve();
    ASSERT_FALSE(lines.empty());
  }
  EXPECT_EQ(lines.back(), "release 1/1");
  EXPECT_GE(runs, kMaxRunsInVain);
}

TEST_F(UnitPiecesTest, AreNotAskedForAgainAndAgainIfNoneIsOfUse) {
  bool was_exhausted = false;
  unit_.nf.missing = [&](FlowState& flow) -> std::optional<PoolId> {
    was_exhausted = flow.is_exhausted(kPorts);
    const PiecePreference odd = {.last = 9'999,
                                 .parity = PiecePreference::Parity::kOdd};
    if (flow.take(kPorts, odd).has_value()) return std::nullopt;
    return kPorts;
  };
  EXPECT_THAT(Run(New(1)), ElementsAre("request 0", "wait 1/1"));
  for (uint32_t i = 1; i < kMaxRunsInVain; ++i) {
    Grant(1 + i, 1);
    EXPECT_THAT(unit_.Serve(), ElementsAre("request 0", "wait 1/1"));
    EXPECT_FALSE(was_exhausted);
  }
  Grant(1 + kMaxRunsInVain, 1);
  EXPECT_THAT(unit_.Serve(), ElementsAre("wait 1/1", "drop 1/1 for no_pieces"));
  EXPECT_TRUE(was_exhausted);
}

TEST_F(UnitPiecesTest, HoldUpTheirFlowAndNoOther) {
  Start(New(1));
  Start(Within(1, 2));
  unit_.Serve();
  EXPECT_EQ(unit_.unit.held_packets(), 1u);
  EXPECT_THAT(unit_.on_pull(1, 1, kB), IsEmpty());
  EXPECT_THAT(unit_.on_timers(Ms(5)), IsEmpty());
  EXPECT_THAT(unit_.on_push(1, 9), IsEmpty());
  EXPECT_EQ(unit_.refused(StateRefusal::kFutureClock), 1u);
  EXPECT_THAT(Do(2, [](FlowState&) {}), ElementsAre("release 2/1"));
  Grant(2, kAll);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1", "release 1/2"));
}

TEST_F(UnitPiecesTest, HoldUpTheStateThatAMovedFlowBrought) {
  Start(First(1, 5, kB));
  unit_.Serve();
  unit_.on_state(1, 4);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0", "wait 1/5"));
  EXPECT_THAT(unit_.on_pull(1, 4, 2), IsEmpty());
  EXPECT_THAT(unit_.on_takeover(1, 5, 2), IsEmpty());
  unit_.on_state(1, 9);
  EXPECT_EQ(unit_.CountOf(1), 4u);
  Grant(2, kAll);
  unit_.Begin();
  EXPECT_EQ(unit_.unit.in_service_wait(), Unit::kNeverHeld) << "for state";
  EXPECT_THAT(unit_.Finish(), ElementsAre("release 1/5", "took 1/5 to 1"));
  EXPECT_EQ(unit_.CountOf(1), 5u);
}

TEST_F(UnitPiecesTest, AreAskedForAheadOnce) {
  Run(New(1));
  Grant(2, (uint64_t{1} << 18) - 1);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1"));  // 17 are left
  EXPECT_THAT(Run(New(2)), ElementsAre("release 2/1"));
  EXPECT_THAT(Run(New(3)), ElementsAre("request 0 ahead", "release 3/1"));
  EXPECT_THAT(Run(New(4)), ElementsAre("release 4/1"));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(), IsEmpty());
  EXPECT_THAT(Run(New(5)), ElementsAre("request 0 ahead", "release 5/1"));
  EXPECT_FALSE(was_exhausted_);
}

TEST_F(UnitPiecesTest, GivenBackAtTheEndAreForThosePacketsThatWait) {
  Run(New(1));
  Grant(2, 1);
  unit_.Serve();
  unit_.nf.end = [](FlowState& flow) {
    flow.give_back(kPorts, 128);
    EXPECT_EQ(flow.take(kPorts, {.last = 9'999}), std::nullopt);
    EXPECT_TRUE(flow.is_exhausted(kPorts));
  };
  EXPECT_THAT(Run(New(2)), ElementsAre("wait 2/1"));
  EXPECT_THAT(unit_.on_end_flow(1, 1), IsEmpty());
  EXPECT_EQ(unit_.unit.pieces(0), 1u);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 2/1"));
  EXPECT_THAT(taken_, ElementsAre(128u, 128u));
}

TEST_F(UnitPiecesTest, GivenBackThatCannotBeAreRefused) {
  Stock(2, 1);
  Do(1, [](FlowState& flow) {
    for (const uint32_t port : {0u, 69u, 2'101u, 65'536u, ~0u, 128u, 191u}) {
      flow.give_back(kPorts, port);
    }
  });
  EXPECT_EQ(refused(), 7u);
  EXPECT_EQ(unit_.unit.pieces(0), 64u);
  Do(2, [](FlowState& flow) {
    for (const uint32_t port : {70u, 2'100u}) flow.give_back(kPorts, port);
  });
  EXPECT_EQ(refused(), 7u);
  EXPECT_EQ(unit_.unit.pieces(0), 66u);
}

TEST_F(UnitPiecesTest, ThatThePoolDoesNotHaveAreRefused) {
  for (const auto& [word, mask, good] : {std::tuple{0u, kAll, 0},
                                         {1u, kAll, 58},
                                         {32u, kAll, 53},
                                         {33u, kAll, 0},
                                         {~0u, uint64_t{1}, 0},
                                         {2u, uint64_t{5}, 2}}) {
    TestUnit unit(kA, kSmallUnit, TestPools());
    unit.nf.missing = [](FlowState&) { return std::optional(kPorts); };
    unit.Send(New(1));
    unit.Serve();
    Lines lines = unit.on_pieces(0, word, mask);
    EXPECT_EQ(unit.unit.pieces(0), static_cast<uint32_t>(good)) << word;
    EXPECT_EQ(unit.unit.counters().pieces_refused,
              static_cast<uint64_t>(std::popcount(mask) - good));
    // It asks again: its wish was not met, but neither was it told "none".
    if (good > 0) {
      EXPECT_THAT(lines, IsEmpty());
      lines = unit.Serve();
    }
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines[0], "request 0");
  }
}

TEST_F(UnitPiecesTest, ThatNobodyAskedForAreRefused) {
  Stock(2, 1);
  const uint64_t before = UnitFingerprint::Of(unit_.unit);
  EXPECT_THAT(Grant(2, kAll), IsEmpty());  // repeated
  EXPECT_THAT(Grant(3, kAll), IsEmpty());
  EXPECT_THAT(Grant(3, 0), IsEmpty());
  EXPECT_THAT(unit_.on_pieces(1, 0, 1), IsEmpty());
  EXPECT_THAT(unit_.on_pieces(2, 0, 1), IsEmpty());
  EXPECT_THAT(unit_.on_pieces(0xffff, 0, 1), IsEmpty());
  EXPECT_EQ(refused(), 64u + 64 + 3);
  EXPECT_EQ(UnitFingerprint::Of(unit_.unit), before);
}

TEST_F(UnitPiecesTest, ThatAreHereAlreadyAreRefused) {
  Stock(2, 1);
  unit_.nf.missing = [](FlowState&) { return std::optional(kPorts); };
  Run(New(1));
  Grant(2, kAll);
  EXPECT_EQ(refused(), 64u);
  EXPECT_EQ(unit_.unit.pieces(0), 64u);
}

TEST_F(UnitPiecesTest, ThatTheNfTookAreKnownUntilTheNextPacket) {
  Stock(2, 1);
  Do(1, [](FlowState& flow) {
    flow.take(kPorts, {.last = 9'999, .preferred = 150});
    flow.take(kOthers, {.last = 9'999});
    flow.take(kPorts, {.last = 9'999});
  });
  EXPECT_THAT(unit_.unit.pieces_taken(), ElementsAre(150u, std::nullopt, 128u));
  Do(2, [](FlowState& flow) {
    for (size_t i = 0; i < kMaxTakesPerCall; ++i) {
      EXPECT_TRUE(flow.take(kPorts, {.last = 9'999}).has_value());
    }
    EXPECT_FALSE(flow.take(kPorts, {.last = 9'999}).has_value());
  });
  EXPECT_THAT(unit_.unit.pieces_taken(), SizeIs(kMaxTakesPerCall));
  Run(Tombstone(Within(2, 2)));
  EXPECT_THAT(unit_.unit.pieces_taken(), IsEmpty());
}

TEST_F(UnitPiecesTest, AreTakenAtPacketsOnly) {
  Stock(2, 1);
  unit_.nf.packet = [](Packet&, FlowState& flow) {
    flow.set_timer(Milliseconds(1));
    return Verdict::forward();
  };
  unit_.nf.timer = [](FlowState& flow) {
    EXPECT_EQ(flow.take(kPorts, {.last = 9'999}), std::nullopt);
    flow.give_back(kPorts, 400);
  };
  Do(1, [](FlowState&) {});
  unit_.now = Ms(2);
  unit_.RunTimer(1, 2);
  EXPECT_EQ(unit_.unit.pieces(0), 65u);
}

TEST_F(UnitPiecesTest, ArePartOfTheFingerprint) {
  const uint64_t empty = UnitFingerprint::Of(unit_.unit);
  Stock(2, 1);
  EXPECT_NE(UnitFingerprint::Of(unit_.unit), empty);
  unit_.on_reclaim(0);
  TestUnit other(kA, kSmallUnit, TestPools());
  other.nf.missing = [](FlowState&) { return std::optional(kPorts); };
  other.Send(New(1));
  other.Serve();
  const uint64_t waits = UnitFingerprint::Of(other.unit);
  other.on_pieces(0, 0, 0);
  EXPECT_NE(UnitFingerprint::Of(other.unit), waits);
}

TEST_F(UnitPiecesTest, LieInTheCopyOfAUnitAsWell) {
  Start(New(1));
  unit_.Serve();
  Unit copy = unit_.unit;
  UnitOut out;
  copy.on_pieces(Instant{}, {.word = 2, .pool = 0, .mask = 1}, out);
  EXPECT_EQ(copy.pieces(0), 1u);
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  EXPECT_TRUE(copy.begin(Instant{}, out));
  EXPECT_THAT(unit_.Serve(), IsEmpty());
}

using UnitPiecesDeathTest = UnitPiecesTest;

TEST_F(UnitPiecesDeathTest, MustNotBeWaitedForAfterAChange) {
  const std::vector<std::pair<std::string, std::function<void(FlowState&)>>>
      changes = {{"changed the state",
                  [&](FlowState& flow) { flow.put(unit_.nf.count, 3); }},
                 {"set a timer",
                  [](FlowState& flow) { flow.set_timer(Milliseconds(1)); }},
                 {"kept a piece",
                  [](FlowState& flow) { flow.take(kPorts, {.last = 9'999}); }},
                 {"ended the flow", [](FlowState& flow) { flow.end(); }},
                 {"set an alias", [](FlowState& flow) { flow.set_alias({}); }},
                 {"emitted a packet", [](FlowState& flow) {
                    flow.emit(std::vector<std::byte>(20));
                  }}};
  Stock(2, 1);
  for (const auto& [what, change] : changes) {
    EXPECT_DEATH(
        {
          unit_.nf.missing = [&change = change](FlowState& flow) {
            change(flow);
            return std::optional(kPorts);
          };
          Run(New(7));
        },
        "returned Verdict::wait, but " + what);
  }
}

}  // namespace
}  // namespace snf
