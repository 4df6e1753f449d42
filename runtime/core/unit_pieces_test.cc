// SPDX-License-Identifier: Apache-2.0
// Pieces of pools: asked for, waited for, given back.
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint16_t kA = 0;
constexpr uint16_t kB = 1;
constexpr PoolId kPorts{0};
constexpr PoolId kOthers{1};
constexpr uint64_t kAll = ~uint64_t{0};

std::span<const NetworkFunction::Pool> Pools() {
  static const std::vector<NetworkFunction::Pool> kPools = {
      {"ports", 70, 2'100}, {"others", 0, 1'000}};
  return kPools;
}

// Unit A, whose NF takes one of the ports for each packet, or waits for it.
class UnitPiecesTest : public ::testing::Test {
 protected:
  using Lines = TestUnit::Lines;

  UnitPiecesTest() {
    unit_.nf.missing = [this](FlowState& flow) -> std::optional<PoolId> {
      was_exhausted_ = flow.is_exhausted(kPorts);
      if (goes_without_ && was_exhausted_) return std::nullopt;
      const std::optional<uint32_t> port = flow.take(kPorts, {.last = 9'999});
      if (!port.has_value()) return kPorts;
      taken_.push_back(*port);
      return std::nullopt;
    };
  }

  void Start(const PacketMeta& meta) { unit_.Send(meta); }
  Lines Run(const PacketMeta& meta) {
    unit_.Send(meta);
    return unit_.Serve();
  }
  Lines Grant(uint32_t word, uint64_t mask) {
    return unit_.OnPieces(0, word, mask);
  }
  // Ports that nobody asked for; flow 99 came and went for them.
  void Stock(uint32_t first_word, uint32_t words) {
    const auto missing = unit_.nf.missing;
    for (uint32_t w = first_word; w < first_word + words; ++w) {
      bool has_come = false;
      unit_.nf.missing = [&](FlowState&) -> std::optional<PoolId> {
        return has_come ? std::nullopt : std::optional(kPorts);
      };
      unit_.Send(New(99));
      unit_.Serve();
      has_come = true;
      Grant(w, kAll);
      unit_.Serve();
      unit_.OnEndFlow(99, 1);
    }
    unit_.nf.missing = missing;
  }
  // What the NF does with one more packet instead.
  Lines Do(uint64_t flow, const std::function<void(FlowState&)>& what) {
    const auto missing = std::exchange(
        unit_.nf.missing, [&](FlowState& state) -> std::optional<PoolId> {
          what(state);
          return std::nullopt;
        });
    Lines lines = Run(New(flow));
    unit_.nf.missing = missing;
    return lines;
  }
  uint64_t refused() const { return unit_.unit.counters().pieces_refused; }

  TestUnit unit_{kA, kSmallUnit, Pools()};
  bool goes_without_ = false;
  bool was_exhausted_ = false;
  std::vector<uint32_t> taken_;
};

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

TEST_F(UnitPiecesTest, GoToThosePacketsThatWaitedFirst) {
  Start(New(1));
  Start(New(2));
  Start(New(3));
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("request 0", "wait 1/1", "wait 2/1", "wait 3/1"));
  Grant(2, 0b11);
  Start(New(4));
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("request 0", "release 1/1", "release 2/1", "wait 3/1",
                          "wait 4/1"));
  Grant(3, kAll);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 3/1", "release 4/1"));
}

TEST_F(UnitPiecesTest, OfEachPoolAreWaitedForApart) {
  Start(New(1));
  unit_.Serve();
  unit_.nf.missing = [](FlowState& flow) -> std::optional<PoolId> {
    if (!flow.take(kOthers, {.last = 999}).has_value()) return kOthers;
    return std::nullopt;
  };
  EXPECT_THAT(Run(New(2)), ElementsAre("request 1", "wait 2/1"));
  EXPECT_THAT(unit_.OnPieces(1, 0, kAll), IsEmpty());
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

TEST_F(UnitPiecesTest, AreNotWaitedForByAPacketThatWasRefused) {
  unit_.nf.missing = [](FlowState& flow) -> std::optional<PoolId> {
    return flow.is_exhausted(kPorts) ? kOthers : kPorts;
  };
  Run(New(1));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("request 1", "drop 1/1 for no_pieces"));
}

TEST_F(UnitPiecesTest, AreNotAskedForAgainAndAgainIfNoneIsOfUse) {
  bool was_exhausted = false;
  unit_.nf.missing = [&](FlowState& flow) -> std::optional<PoolId> {
    was_exhausted = flow.is_exhausted(kPorts);
    const PieceWish odd = {.last = 9'999, .parity = PieceWish::Parity::kOdd};
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
  EXPECT_THAT(unit_.OnPull(1, 1, kB), IsEmpty());
  EXPECT_THAT(unit_.OnTimers(Ms(5)), IsEmpty());
  EXPECT_THAT(unit_.OnPush(1, 9), IsEmpty());
  EXPECT_EQ(unit_.refused(StateRefusal::kFutureClock), 1u);
  EXPECT_THAT(Do(2, [](FlowState&) {}), ElementsAre("release 2/1"));
  Grant(2, kAll);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1", "release 1/2"));
}

TEST_F(UnitPiecesTest, HoldUpTheStateThatAMovedFlowBrought) {
  Start(First(1, 5, kB));
  unit_.Serve();
  unit_.OnState(1, 4);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0", "wait 1/5"));
  EXPECT_THAT(unit_.OnPull(1, 4, 2), IsEmpty());
  EXPECT_THAT(unit_.OnTook(1, 5, 2), ElementsAre("ack 1/5 to 2"));
  unit_.OnState(1, 9);
  EXPECT_EQ(unit_.CountOf(1), 4u);
  Grant(2, kAll);
  unit_.Begin();
  EXPECT_EQ(unit_.unit.in_service_wait(), Unit::kNeverHeld) << "for state";
  EXPECT_THAT(unit_.Finish(),
              ElementsAre("release 1/5", "took 1/5 to 1", "report took 1/5"));
  EXPECT_EQ(unit_.CountOf(1), 5u);
}

TEST_F(UnitPiecesTest, AreAskedForAheadOnce) {
  Run(New(1));
  Grant(2, (uint64_t{1} << 18) - 1);
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1"));  // 17 are left
  EXPECT_THAT(Run(New(2)), ElementsAre("release 2/1"));
  EXPECT_THAT(Run(New(3)), ElementsAre("request 0", "release 3/1"));
  EXPECT_THAT(Run(New(4)), ElementsAre("release 4/1"));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(), IsEmpty());
  EXPECT_THAT(Run(New(5)), ElementsAre("request 0", "release 5/1"));
  EXPECT_FALSE(was_exhausted_);
}

TEST_F(UnitPiecesTest, GoBackAWordAtATimeWhenThereAreTooMany) {
  Run(New(1));
  Grant(2, kAll);
  unit_.Serve();  // took 128
  Stock(3, 3);
  EXPECT_EQ(unit_.unit.pieces(0), 255u);
  EXPECT_THAT(Do(5, [](FlowState& flow) { flow.give_back(kPorts, 128); }),
              ElementsAre("release 5/1"));
  EXPECT_EQ(unit_.unit.pieces(0), 256u);
  EXPECT_THAT(Do(6,
                 [](FlowState& flow) {
                   flow.give_back(kPorts, 400);
                   flow.give_back(kPorts, 401);
                 }),
              ElementsAre("return 0", "release 6/1"));
  EXPECT_EQ(unit_.unit.pieces(0), 194u);
  ASSERT_THAT(unit_.returned, SizeIs(1));
  EXPECT_EQ(unit_.returned[0].word, 2u);
  EXPECT_EQ(unit_.returned[0].mask, kAll);
  EXPECT_EQ(unit_.returned[0].unit, UnitId{kA});
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
  EXPECT_THAT(unit_.OnEndFlow(1, 1), IsEmpty());
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
    TestUnit unit(kA, kSmallUnit, Pools());
    unit.nf.missing = [](FlowState&) { return std::optional(kPorts); };
    unit.Send(New(1));
    unit.Serve();
    EXPECT_THAT(unit.OnPieces(0, word, mask), IsEmpty());
    EXPECT_EQ(unit.unit.pieces(0), static_cast<uint32_t>(good)) << word;
    EXPECT_EQ(unit.unit.counters().pieces_refused,
              static_cast<uint64_t>(std::popcount(mask) - good));
    // It asks again: its wish was not met, but neither was it told "none".
    EXPECT_THAT(unit.Serve(), ElementsAre("request 0", "wait 1/1"));
  }
}

TEST_F(UnitPiecesTest, ThatNobodyAskedForAreRefused) {
  Stock(2, 1);
  const uint64_t before = unit_.unit.Fingerprint();
  EXPECT_THAT(Grant(2, kAll), IsEmpty());  // repeated
  EXPECT_THAT(Grant(3, kAll), IsEmpty());
  EXPECT_THAT(Grant(3, 0), IsEmpty());
  EXPECT_THAT(unit_.OnPieces(1, 0, 1), IsEmpty());
  EXPECT_THAT(unit_.OnPieces(2, 0, 1), IsEmpty());
  EXPECT_THAT(unit_.OnPieces(0xffff, 0, 1), IsEmpty());
  EXPECT_EQ(refused(), 64u + 64 + 3);
  EXPECT_EQ(unit_.unit.Fingerprint(), before);
}

TEST_F(UnitPiecesTest, ThatAreHereAlreadyAreRefused) {
  Stock(2, 1);
  unit_.nf.missing = [](FlowState&) { return std::optional(kPorts); };
  Run(New(1));
  Grant(2, kAll);
  EXPECT_EQ(refused(), 64u);
  EXPECT_EQ(unit_.unit.pieces(0), 64u);
}

TEST_F(UnitPiecesTest, ThatAreReclaimedGoBackWordByWord) {
  Stock(2, 20);
  EXPECT_THAT(unit_.OnReclaim(0),
              AllOf(SizeIs(kMaxReturnsPerCall), Each("return 0")));
  EXPECT_THAT(unit_.Serve(), SizeIs(13));
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  uint64_t pieces = 0;
  for (const PieceWord& word : unit_.returned) {
    EXPECT_EQ(word.mask == 0, &word == &unit_.returned.back());
    pieces += static_cast<uint64_t>(std::popcount(word.mask));
  }
  EXPECT_EQ(pieces, 20u * 64);
  EXPECT_THAT(unit_.Serve(), IsEmpty());
}

TEST_F(UnitPiecesTest, ThatAreReclaimedLeaveTheOtherPoolAlone) {
  Stock(2, 1);
  EXPECT_THAT(unit_.OnReclaim(1), ElementsAre("return 1"));
  EXPECT_EQ(unit_.returned[0].mask, 0u);
  EXPECT_EQ(unit_.unit.pieces(0), 64u);
  EXPECT_THAT(unit_.OnReclaim(2), IsEmpty());
  EXPECT_THAT(unit_.OnReclaim(0xffff), IsEmpty());
}

TEST_F(UnitPiecesTest, ThatAreInUseAreNotReclaimed) {
  Run(New(1));
  Grant(2, 0b111);
  unit_.Serve();  // took 128
  EXPECT_THAT(unit_.OnReclaim(0), ElementsAre("return 0", "return 0"));
  EXPECT_EQ(unit_.returned[0].mask, 0b110u);
}

TEST_F(UnitPiecesTest, AreReclaimedInBothPoolsAtOnce) {
  Stock(2, 9);
  EXPECT_THAT(unit_.OnReclaim(0), SizeIs(8));
  EXPECT_THAT(unit_.OnReclaim(1),
              ElementsAre("return 0", "return 0", "return 1"));
  EXPECT_THAT(unit_.OnReclaim(0), ElementsAre("return 0"));
}

TEST_F(UnitPiecesTest, AllGoBackBeforeAUnitStops) {
  Stock(2, 20);
  EXPECT_THAT(unit_.OnStop(),
              AllOf(SizeIs(kMaxReturnsPerCall), Each("return 0")));
  const Lines lines = unit_.Serve();
  ASSERT_THAT(lines, SizeIs(13));
  EXPECT_EQ(lines.back(), "stopped");
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  EXPECT_THAT(unit_.OnReclaim(0), ElementsAre("return 0"));
  EXPECT_EQ(unit_.returned.back().mask, 0u);
}

TEST_F(UnitPiecesTest, ThatWereAskedForKeepAUnitFromStopping) {
  Run(New(1));
  Grant(2, 0b11);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0", "release 1/1"));
  unit_.nf.end = [](FlowState& flow) { flow.give_back(kPorts, 128); };
  EXPECT_THAT(unit_.OnStop(), ElementsAre("return 0"));
  EXPECT_THAT(unit_.OnEndFlow(1, 1), ElementsAre("return 0"));
  EXPECT_THAT(Grant(3, kAll), ElementsAre("return 0", "stopped"));
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
}

TEST_F(UnitPiecesTest, OfAStoppingUnitGoToItsPacketsFirst) {
  Run(New(1));
  EXPECT_THAT(unit_.OnStop(), IsEmpty());
  EXPECT_THAT(Grant(2, 0b11), IsEmpty());
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1", "return 0"));
  // It does not ask ahead any more.
  EXPECT_THAT(Run(Within(1, 2)), ElementsAre("request 0", "wait 1/2"));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(), ElementsAre("drop 1/2 for no_pieces"));
  EXPECT_THAT(unit_.OnEndFlow(1, 2), ElementsAre("stopped"));
}

TEST_F(UnitPiecesTest, MayBeAskedForAgainAfterAStart) {
  unit_.OnStop();
  unit_.unit.on_start();
  EXPECT_THAT(Run(New(1)), ElementsAre("request 0", "wait 1/1"));
  Grant(2, 0b11);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0", "release 1/1"));
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
  EXPECT_THAT(unit_.OnTimers(Ms(2)), IsEmpty());
  EXPECT_EQ(unit_.unit.pieces(0), 65u);
}

TEST_F(UnitPiecesTest, ArePartOfTheFingerprint) {
  const uint64_t empty = unit_.unit.Fingerprint();
  Stock(2, 1);
  EXPECT_NE(unit_.unit.Fingerprint(), empty);
  unit_.OnReclaim(0);
  TestUnit other(kA, kSmallUnit, Pools());
  other.nf.missing = [](FlowState&) { return std::optional(kPorts); };
  other.Send(New(1));
  other.Serve();
  const uint64_t waits = other.unit.Fingerprint();
  other.OnPieces(0, 0, 0);
  EXPECT_NE(other.unit.Fingerprint(), waits);
}

TEST_F(UnitPiecesTest, LieInTheCopyOfAUnitAsWell) {
  Start(New(1));
  unit_.Serve();
  Unit copy = unit_.unit;
  UnitOut out;
  copy.on_pieces(Instant{}, {.word = 2, .pool = 0, .mask = 1}, out);
  EXPECT_EQ(copy.pieces(0), 1u);
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  EXPECT_EQ(copy.begin(Instant{}, out), Unit::Next::kService);
  EXPECT_THAT(unit_.Serve(), IsEmpty());
}

using UnitPiecesDeathTest = UnitPiecesTest;

TEST_F(UnitPiecesDeathTest, MustNotBeWaitedForAfterAChange) {
  const std::vector<std::function<void(FlowState&)>> changes = {
      [&](FlowState& flow) { flow.put(unit_.nf.count, 3); },
      [](FlowState& flow) { flow.set_timer(Milliseconds(1)); },
      [](FlowState& flow) { flow.take(kPorts, {.last = 9'999}); },
      [](FlowState& flow) { flow.end(); },
      [](FlowState& flow) { flow.set_alias({}); },
      [](FlowState& flow) { flow.emit(std::vector<std::byte>(20)); }};
  Stock(2, 1);
  for (const auto& change : changes) {
    EXPECT_DEATH(
        {
          unit_.nf.missing = [&](FlowState& flow) {
            change(flow);
            return std::optional(kPorts);
          };
          Run(New(7));
        },
        "");
  }
}

}  // namespace
}  // namespace snf
