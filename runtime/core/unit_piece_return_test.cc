// SPDX-License-Identifier: Apache-2.0
// Pieces of pools that go back to the controller.
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit_pieces.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using UnitPieceReturns = UnitPiecesTest;

TEST_F(UnitPieceReturns, GoBackAWordAtATimeWhenThereAreTooMany) {
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

TEST_F(UnitPieceReturns, ThatAreReclaimedGoBackWordByWord) {
  Stock(2, 20);
  EXPECT_THAT(unit_.on_reclaim(0),
              AllOf(SizeIs(kMaxReturnsPerCall), Each("return 0")));
  EXPECT_THAT(unit_.Serve(), SizeIs(13));
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  uint64_t pieces = 0;
  for (const PieceBlock& word : unit_.returned) {
    EXPECT_EQ(word.mask == 0, &word == &unit_.returned.back());
    pieces += static_cast<uint64_t>(std::popcount(word.mask));
  }
  EXPECT_EQ(pieces, 20u * 64);
  EXPECT_THAT(unit_.Serve(), IsEmpty());
}

TEST_F(UnitPieceReturns, ThatAreReclaimedLeaveTheOtherPoolAlone) {
  Stock(2, 1);
  EXPECT_THAT(unit_.on_reclaim(1), ElementsAre("return 1"));
  EXPECT_EQ(unit_.returned[0].mask, 0u);
  EXPECT_EQ(unit_.unit.pieces(0), 64u);
  EXPECT_THAT(unit_.on_reclaim(3), IsEmpty());
  EXPECT_THAT(unit_.on_reclaim(0xffff), IsEmpty());
}

TEST_F(UnitPieceReturns, ThatAreInUseAreNotReclaimed) {
  Run(New(1));
  Grant(2, 0b111);
  unit_.Serve();  // took 128
  EXPECT_THAT(unit_.on_reclaim(0), ElementsAre("return 0", "return 0"));
  EXPECT_EQ(unit_.returned[0].mask, 0b110u);
}

// Else two units that are slow would take the last piece from each other, for
// ever.
TEST_F(UnitPieceReturns, AreNotReclaimedBeforeAPacketThatTheyWokeHasRun) {
  TestUnit other(kB, kSmallUnit, TestPools());
  other.nf.missing = unit_.nf.missing;
  TestUnit* has = &unit_;
  TestUnit* wants = &other;
  Start(New(1));
  unit_.Serve();
  unit_.on_pieces(0, 2, 1);
  unit_.Begin();
  other.Send(New(2));
  other.Serve();
  // The one that has the piece is asked for it while its packet is in service.
  for (int round = 0; taken_.empty(); ++round) {
    ASSERT_LT(round, 10);
    Lines lines = has->on_reclaim(0);
    if (lines == Lines{"return 0", "return 0"}) {
      wants->on_pieces(0, 2, 1);
      wants->Begin();
      has->Finish();
      std::swap(has, wants);
      continue;
    }
    EXPECT_THAT(lines, IsEmpty());
    EXPECT_THAT(has->Finish(), Contains("release 1/1"));
    EXPECT_THAT(has->Begin(), ElementsAre("return 0")) << "the answer";
    EXPECT_EQ(has->returned.back().mask, 0u);
  }
}

TEST_F(UnitPieceReturns, ThatAreReclaimedWaitForAllPacketsThatWereWoken) {
  for (uint64_t flow = 1; flow <= 3; ++flow) Start(New(flow));
  unit_.Serve();
  Grant(2, 0b1111);
  unit_.on_pieces(1, 0, 1);
  EXPECT_THAT(unit_.on_reclaim(0), IsEmpty());
  EXPECT_THAT(unit_.on_reclaim(0), IsEmpty());
  EXPECT_THAT(unit_.on_reclaim(1), ElementsAre("return 1")) << "nobody waits";
  EXPECT_THAT(unit_.Begin(), ElementsAre("service 1/1"));
  EXPECT_THAT(unit_.on_reclaim(0), IsEmpty());
  EXPECT_THAT(unit_.Finish(), ElementsAre("request 0 ahead", "release 1/1"));
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 2/1", "release 3/1",
                                         "return 0", "return 0"));
  EXPECT_EQ(unit_.returned[1].mask, 0b1000u);
  EXPECT_THAT(taken_, ElementsAre(128u, 129u, 130u));
}

TEST_F(UnitPieceReturns, ThatAreReclaimedWaitForAPacketThatHasNoUseForThem) {
  const auto odd = [](FlowState& flow) -> std::optional<PoolId> {
    const PiecePreference wish = {.last = 9'999,
                                  .parity = PiecePreference::Parity::kOdd};
    if (flow.take(kPorts, wish).has_value()) return std::nullopt;
    return kPorts;
  };
  unit_.nf.missing = odd;
  Run(New(1));
  Grant(2, 1);
  EXPECT_THAT(unit_.on_reclaim(0), IsEmpty());
  EXPECT_THAT(unit_.Serve(),
              ElementsAre("request 0", "wait 1/1", "return 0", "return 0"));
  // And for one that is told that there are none.
  Grant(0, 0);
  EXPECT_THAT(unit_.on_reclaim(0), IsEmpty());
  EXPECT_THAT(unit_.Serve(), ElementsAre("drop 1/1 for no_pieces", "return 0"));
}

TEST_F(UnitPieceReturns, ThatAreReclaimedAreAnsweredForByAUnitThatStops) {
  Run(New(1));
  Grant(2, 1);
  EXPECT_THAT(unit_.on_reclaim(0), IsEmpty());
  unit_.nf.end = [](FlowState& flow) { flow.give_back(kPorts, 128); };
  EXPECT_THAT(unit_.on_stop(), IsEmpty());
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1", "return 0"));
  EXPECT_EQ(unit_.returned.back().mask, 0u);
  EXPECT_THAT(unit_.on_end_flow(1, 1), ElementsAre("return 0", "stopped"));
}

TEST_F(UnitPieceReturns, AreReclaimedInBothPoolsAtOnce) {
  Stock(2, 9);
  EXPECT_THAT(unit_.on_reclaim(0), SizeIs(8));
  EXPECT_THAT(unit_.on_reclaim(1),
              ElementsAre("return 0", "return 0", "return 1"));
  EXPECT_THAT(unit_.on_reclaim(0), ElementsAre("return 0"));
}

TEST_F(UnitPieceReturns, AllGoBackBeforeAUnitStops) {
  Stock(2, 20);
  EXPECT_THAT(unit_.on_stop(),
              AllOf(SizeIs(kMaxReturnsPerCall), Each("return 0")));
  const Lines lines = unit_.Serve();
  ASSERT_THAT(lines, SizeIs(13));
  EXPECT_EQ(lines.back(), "stopped");
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  EXPECT_THAT(unit_.on_reclaim(0), ElementsAre("return 0"));
  EXPECT_EQ(unit_.returned.back().mask, 0u);
}

TEST_F(UnitPieceReturns, ThatWereAskedForKeepAUnitFromStopping) {
  Run(New(1));
  Grant(2, 0b11);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0 ahead", "release 1/1"));
  unit_.nf.end = [](FlowState& flow) { flow.give_back(kPorts, 128); };
  EXPECT_THAT(unit_.on_stop(), ElementsAre("return 0"));
  EXPECT_THAT(unit_.on_end_flow(1, 1), ElementsAre("return 0"));
  EXPECT_THAT(Grant(3, kAll), ElementsAre("return 0", "stopped"));
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
}

TEST_F(UnitPieceReturns, OfAStoppingUnitGoToItsPacketsFirst) {
  Run(New(1));
  EXPECT_THAT(unit_.on_stop(), IsEmpty());
  EXPECT_THAT(Grant(2, 0b11), IsEmpty());
  EXPECT_THAT(unit_.Serve(), ElementsAre("release 1/1", "return 0"));
  // It does not ask ahead any more.
  EXPECT_THAT(Run(Within(1, 2)), ElementsAre("request 0", "wait 1/2"));
  Grant(0, 0);
  EXPECT_THAT(unit_.Serve(), ElementsAre("drop 1/2 for no_pieces"));
  EXPECT_THAT(unit_.on_end_flow(1, 2), ElementsAre("stopped"));
}

TEST_F(UnitPieceReturns, MayBeAskedForAgainAfterAStart) {
  unit_.on_stop();
  unit_.unit.on_start();
  EXPECT_THAT(Run(New(1)), ElementsAre("request 0", "wait 1/1"));
  Grant(2, 0b11);
  EXPECT_THAT(unit_.Serve(), ElementsAre("request 0 ahead", "release 1/1"));
}

}  // namespace
}  // namespace snf
