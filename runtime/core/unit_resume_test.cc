// SPDX-License-Identifier: Apache-2.0
// What is left of a call for want of room goes on with Resume().
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit_pieces.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using UnitResume = UnitPiecesTest;

// Calls Resume() until nothing is left; "more" is left out.
TestUnit::Lines ResumeAll(TestUnit& unit) {
  TestUnit::Lines all;
  while (unit.unit.has_more()) {
    TestUnit::Lines lines = unit.Resume();
    if (lines.back() == "more") lines.pop_back();
    all.insert(all.end(), lines.begin(), lines.end());
  }
  return all;
}

TEST_F(UnitResume, HasNothingToDoAfterCallsThatFitted) {
  EXPECT_FALSE(unit_.unit.has_more());
  Run(New(1));
  Grant(2, 0b11);
  unit_.Serve();
  EXPECT_FALSE(unit_.unit.has_more());
  EXPECT_THAT(unit_.Resume(), IsEmpty());
}

TEST_F(UnitResume, ReturnsPiecesThatAreReclaimed) {
  Stock(2, 20);
  EXPECT_THAT(unit_.on_reclaim(0),
              AllOf(SizeIs(kMaxReturnsPerCall), Each("return 0")));
  EXPECT_THAT(ResumeAll(unit_), AllOf(SizeIs(13), Each("return 0")));
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  EXPECT_EQ(unit_.returned.back().mask, 0u);
  EXPECT_THAT(unit_.Serve(), IsEmpty());
}

TEST_F(UnitResume, ReturnsPiecesOfTwoPoolsThatAreReclaimed) {
  Stock(2, 9);
  EXPECT_THAT(unit_.on_reclaim(0), SizeIs(kMaxReturnsPerCall));
  EXPECT_THAT(unit_.on_reclaim(1),
              ElementsAre("return 0", "return 0", "return 1"));
  EXPECT_FALSE(unit_.unit.has_more());
}

TEST_F(UnitResume, StopsAUnitWithManyPieces) {
  Stock(2, 20);
  EXPECT_THAT(unit_.on_stop(), SizeIs(kMaxReturnsPerCall));
  const Lines lines = ResumeAll(unit_);
  ASSERT_THAT(lines, SizeIs(13));
  EXPECT_EQ(lines.back(), "stopped");
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
}

TEST_F(UnitResume, LeavesWhatIsLeftToBeginWhileAPacketIsInService) {
  Stock(2, 20);
  Start(New(1));
  EXPECT_THAT(unit_.Begin(), ElementsAre("service 1/1"));
  EXPECT_THAT(unit_.on_reclaim(0), SizeIs(kMaxReturnsPerCall));
  EXPECT_FALSE(unit_.unit.has_more());
  unit_.Finish();
  EXPECT_TRUE(unit_.unit.has_more());
  EXPECT_THAT(unit_.Begin(), SizeIs(13));
  EXPECT_FALSE(unit_.unit.has_more());
}

TEST_F(UnitResume, DoesNotReturnPiecesOfAStoppingUnitBeforeItsPacketsRan) {
  Stock(2, 20);
  Start(New(1));
  EXPECT_THAT(unit_.on_stop(), IsEmpty());
  EXPECT_FALSE(unit_.unit.has_more());
  EXPECT_THAT(unit_.Begin(), ElementsAre("service 1/1"));
}

TEST(UnitResumeOfBegin, TakesAPacketIntoServiceBehindThoseThatCannotRun) {
  TestUnit unit(kB, {.max_flows = 200,
                     .queue_packets = 200,
                     .packets_elsewhere = 0,
                     .max_replicas = 1});
  for (uint64_t flow = 1; flow <= 150; ++flow) unit.Send(First(flow, 2, kA));
  unit.Send(New(151));
  EXPECT_EQ(unit.Begin().back(), "more");
  const TestUnit::Lines lines = ResumeAll(unit);
  EXPECT_EQ(lines.back(), "service 151/1");
  EXPECT_TRUE(unit.unit.busy());
  EXPECT_EQ(unit.unit.held_packets(), 150u);
}

}  // namespace
}  // namespace snf
