// SPDX-License-Identifier: Apache-2.0
#include "platform/check/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "platform/check/test_checker.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(CheckerTest, AcceptsASoundStory) {
  Give(kA, 1);
  Give(kA, 2);
  Give(kB, 1, kOther);
  Begin(kA, 1);
  Begin(kB, 1, kOther);
  End(kA, 1);
  Give(kB, 3);
  End(kB, 1, kOther);
  Release(1);
  Begin(kA, 2);
  Take(1, kOther);
  End(kA, 2);
  Take(2);
  Process(kB, 3);
  Release(3);
  Finish();
  EXPECT_EQ(checker_.violations(), 0u);
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(CheckerTest, ReportsTwoUnitsAtOneFlow) {
  Give(kA, 1);
  Give(kA, 2);
  Begin(kA, 1);
  End(kA, 1);
  Begin(kA, 2);
  Begin(kB, 2);
  ExpectOne("unit 2: clock 2 began while unit 1 was at work");
}

TEST_F(CheckerTest, ReportsAClockProcessedTwice) {
  Give(kA, 1);
  Process(kA, 1);
  Process(kA, 1);
  Release(1);
  Finish();
  ExpectOne("unit 1: clock 1 was processed after clock 1");
}

TEST_F(CheckerTest, ReportsAClockProcessedOnStaleState) {
  Give(kA, 1);
  Give(kA, 2);
  Give(kB, 3);
  Process(kA, 1);
  Begin(kB, 3);
  ExpectOne("unit 2: clock 3 was processed after clock 1");
}

TEST_F(CheckerTest, ReportsAnEndWithoutABegin) {
  Give(kA, 1);
  Begin(kA, 1);
  End(kB, 1);
  ExpectOne("unit 2: clock 1 ended without having begun");
}

TEST_F(CheckerTest, ReportsAReleaseOutOfOrder) {
  Give(kA, 1);
  Give(kA, 2);
  Process(kA, 1);
  Process(kA, 2);
  Release(2);
  Release(1);
  Finish();
  ExpectOne("unit 1: clock 1 was released after clock 2");
}

TEST_F(CheckerTest, ReportsASecondRelease) {
  Give(kA, 1);
  Process(kA, 1);
  Release(1);
  Release(1);
  ExpectOne("clock 1 was released after clock 1");
}

TEST_F(CheckerTest, ReportsAReleaseBeforeProcessing) {
  Give(kA, 1);
  Give(kA, 2);
  Process(kA, 1);
  Begin(kA, 2);
  Release(2);
  ExpectOne("clock 2 was released when clock 1 was processed");
}

TEST_F(CheckerTest, AcceptsAReleaseThatWasLogged) {
  checker_.ExpectLoggers();
  Give(kA, 1);
  Process(kA, 1);
  Log(kA, 1);
  Release(1);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(CheckerTest, ReportsAReleaseBeforeItIsLogged) {
  checker_.ExpectLoggers();
  Give(kA, 1);
  Process(kA, 1);
  Release(1);
  ExpectOne("unit 1: clock 1 was released before it was logged");
}

TEST_F(CheckerTest, ReportsAnEntryOfAnotherUnit) {
  Give(kA, 1);
  Process(kA, 1);
  Log(kB, 1);
  ExpectOne("unit 2: clock 1 was logged, but was given to unit 1");
}

TEST_F(CheckerTest, ReportsAnEntryBeforeItsClockIsProcessed) {
  Give(kA, 1);
  Begin(kA, 1);
  Log(kA, 1);
  ExpectOne("unit 1: clock 1 was logged when clock 0 was processed");
}

TEST_F(CheckerTest, ReportsASecondEntryOfAClock) {
  Give(kA, 1);
  Process(kA, 1);
  Log(kA, 1);
  Log(kA, 1);
  ExpectOne("unit 1: clock 1 was logged a second time");
}

TEST_F(CheckerTest, ReportsACopyThatDiffers) {
  checker_.on_copy_differs(Now(), kA, Meta(kFlow, 3), "differs from its copy");
  ExpectOne("unit 1: clock 3 differs from its copy");
}

TEST_F(CheckerTest, ReportsAClockThatWasSkippedOrGivenTwice) {
  Give(kA, 1);
  Give(kA, 3);
  ExpectOne("clock 3 was given after clock 1");
  Give(kA, 3);
  EXPECT_EQ(checker_.violations(), 2u);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("clock 3 was given after clock 3"));
}

TEST_F(CheckerTest, ReportsPacketsThatNeverLeave) {
  Give(kA, 1);
  Give(kA, 2);
  Give(kA, 3);
  Process(kA, 1);
  Release(1);
  Process(kA, 2);
  Finish();
  ExpectOne(
      "unit 1: clock 2 never left, the first of 2 such packets; the last clock "
      "given is 3, the last processed 2");
}

TEST_F(CheckerTest, ReportsAFlowThatTheControllerDoesNotKnow) {
  Give(kA, 1);
  Begin(kA, 1, kOther);
  ExpectOne("clock 1 came from nowhere", "flow slot 8 generation 0");
}

TEST_F(CheckerTest, TellsFlowsThatSharedASlotApart) {
  Give(kA, 1);
  Give(kA, 2);
  Process(kA, 1);
  Release(1);
  // The flow ends, and its slot is used again, while clock 2 is queued.
  Give(kB, 1, kNextInSlot);
  Begin(kB, 1, kNextInSlot);
  Process(kA, 2);
  End(kB, 1, kNextInSlot);
  Release(1, kNextInSlot);
  Release(2);
  Finish();
  EXPECT_EQ(checker_.violations(), 0u);
}

TEST_F(CheckerTest, WatchesAFlowThatLostItsSlot) {
  Give(kA, 1);
  Give(kA, 2);
  Give(kA, 1, kNextInSlot);
  Process(kA, 1, kNextInSlot);
  Release(1, kNextInSlot);
  Begin(kA, 2);
  ExpectOne("unit 1: clock 2 was processed after clock 0");
  Finish();
  EXPECT_EQ(checker_.violations(), 2u);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("generation 3, unit 1: clock 1 never left"));
}

TEST_F(CheckerTest, ReportsAPacketOfAFlowThatWasOver) {
  Give(kA, 1);
  Process(kA, 1);
  Release(1);
  Give(kA, 1, kNextInSlot);
  Release(1);
  ExpectOne("clock 1 came from nowhere");
}

TEST_F(CheckerTest, SaysWhenItHappenedAndToWhichFlow) {
  checker_ = Checker(nullptr, [](FlowId flow) {
    return flow == kFlow ? std::string("tcp a > b") : std::string();
  });
  checker_.on_start(Instant{1'000'000'000});
  now_ = 2'234'567'890;
  Begin(kA, 1);
  ExpectOne("+1234.567891 ms, tcp a > b, unit 1: clock 1 came from nowhere",
            "tcp");
  Begin(kA, 1, kOther);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr(" ms, flow slot 8 generation 0, unit 1"));
}

// The count of packets is right in the end, the packets are not.
TEST_F(CheckerTest, ReportsAPacketThatIsTakenTwiceAndAnotherThatIsLost) {
  Give(kA, 1);
  Give(kA, 2);
  Process(kA, 1);
  Process(kA, 2);
  Take(1);
  Take(1);
  ExpectOne("clock 1 was taken, but had left before");
  Finish();
  EXPECT_EQ(checker_.violations(), 2u);
  EXPECT_THAT(checker_.messages().back(), HasSubstr("clock 2 never left"));
}

TEST_F(CheckerTest, ReportsAPacketThatIsTakenAndReleased) {
  Give(kA, 1);
  Give(kA, 2);
  Process(kA, 1);
  Process(kA, 2);
  Take(1);
  Release(1);
  ExpectOne("clock 1 was released, but had left before");
  Finish();
  EXPECT_THAT(checker_.messages().back(), HasSubstr("clock 2 never left"));
}

TEST_F(CheckerTest, ReportsAPacketThatIsTakenUnprocessed) {
  Give(kA, 1);
  Take(1);
  ExpectOne("unit 1: clock 1 was taken when clock 0 was processed");
}

TEST_F(CheckerTest, ReportsAPacketThatLeavesAnotherUnit) {
  for (uint64_t clock = 1; clock <= 2; ++clock) {
    Give(kA, clock);
    Process(kA, clock);
  }
  ReleaseAt(kB, 1);
  ExpectOne("unit 2: clock 1 was released, but was given to unit 1");
  TakeAt(kB, 2);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("unit 2: clock 2 was taken, but was given to unit 1"));
  GiveNull(3);
  Skip(kB, 3, PacketMeta::kNull);
  checker_.on_advanced(Now(), kA, Meta(kFlow, 3));
  EXPECT_THAT(
      checker_.messages().back(),
      HasSubstr("unit 1: clock 3 was advanced, but was given to unit 2"));
  EXPECT_EQ(checker_.violations(), 3u);
}

TEST_F(CheckerTest, ReportsAPacketProcessedOrDroppedAtAnotherUnit) {
  Give(kA, 1);
  Begin(kB, 1);
  ExpectOne("unit 2: clock 1 was processed, but was given to unit 1");
  Give(kA, 2);
  checker_.on_payload_dropped(Now(), kB, Meta(kFlow, 2));
  EXPECT_EQ(checker_.violations(), 2u);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("clock 2 was dropped, but was given to unit 1"));
}

TEST_F(CheckerTest, ReportsAClockGivenAfterTheEnd) {
  Give(kA, 1);
  EndFlowAt(1);
  Give(kA, 2);
  ExpectOne("clock 2 was given after the flow's end");
}

TEST_F(CheckerTest, ReportsAServiceThatEndsWithAnotherClock) {
  Give(kA, 1);
  Give(kA, 2);
  Begin(kA, 1);
  End(kA, 2);
  ExpectOne("unit 1: clock 2 ended without having begun");
}

TEST_F(CheckerTest, FollowsAClockThatATombstoneTook) {
  Give(kA, 1);
  Give(kB, 2);
  Give(kB, 3);
  Process(kA, 1);
  Release(1);
  DropPayload(2);
  Skip(kB, 2);
  Advance(2);
  Process(kB, 3);
  Release(3);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(CheckerTest, FollowsANullPacket) {
  Give(kA, 1);
  GiveNull(2);
  Give(kB, 3);
  Process(kA, 1);
  Skip(kB, 2, PacketMeta::kNull);
  Advance(2);
  Release(1);  // which has no order with a clock that releases nothing
  Process(kB, 3);
  Release(3);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(CheckerTest, HoldsClocksWithoutPayloadToTheirOrder) {
  GiveNull(1);
  GiveNull(2);
  Skip(kB, 2, PacketMeta::kNull);
  ExpectOne("unit 2: clock 2 was processed after clock 0");
}

TEST_F(CheckerTest, ReportsAClockWithoutPayloadThatNeverEnds) {
  GiveNull(1);
  Skip(kB, 1, PacketMeta::kNull);
  Finish();
  ExpectOne("unit 2: clock 1 never left");
}

TEST_F(CheckerTest, ReportsAReleaseOfADroppedPacket) {
  Give(kB, 1);
  DropPayload(1);
  Skip(kB, 1);
  Release(1);
  ExpectOne("clock 1 was released without payload");
}

TEST_F(CheckerTest, ReportsASecondDropOfADroppedPacket) {
  Give(kB, 1);
  DropPayload(1);
  Skip(kB, 1);
  Take(1);
  ExpectOne("clock 1 was taken without payload");
}

TEST_F(CheckerTest, ReportsThatADroppedPacketIsShownToTheNf) {
  Give(kB, 1);
  DropPayload(1);
  Begin(kB, 1);
  ExpectOne("unit 2: clock 1 was processed with a payload that is gone");
}

TEST_F(CheckerTest, ReportsAPacketTakenForATombstone) {
  Give(kB, 1);
  Skip(kB, 1);
  ExpectOne("unit 2: clock 1 was taken for one without payload");
}

TEST_F(CheckerTest, ReportsAnAdvanceThatLosesAPacket) {
  Give(kB, 1);
  Process(kB, 1);
  Advance(1);
  ExpectOne("unit 2: clock 1 was advanced, but had a payload");
}

TEST_F(CheckerTest, ReportsAnAdvanceBeforeItsTurn) {
  GiveNull(1);
  Advance(1);
  ExpectOne("clock 1 was advanced when clock 0 was processed");
}

TEST_F(CheckerTest, ReportsAPacketDroppedTwiceOrTooLate) {
  Give(kB, 1);
  DropPayload(1);
  DropPayload(1);
  ExpectOne("unit 2: clock 1 was dropped a second time");
  Skip(kB, 1);
  DropPayload(1);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("clock 1 was dropped when it was processed already"));
}

TEST_F(CheckerTest, AcceptsTheEndOfAFlow) {
  Give(kA, 1);
  Give(kA, 2);
  EndFlowAt(2);
  Process(kA, 1);
  Release(1);
  Process(kA, 2);
  Release(2);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(CheckerTest, ReportsAnEndThatIsNotTheFlows) {
  Give(kA, 1);
  Give(kA, 2);
  EndFlowAt(1);
  ExpectOne(
      "unit 1: clock 1 was named as the flow's last; that is clock 2 at "
      "unit 1");
  Give(kB, 1, kOther);
  EndFlowAt(1, kOther);  // at unit 1
  EXPECT_EQ(checker_.violations(), 2u);
}

// With which its unit may have forgotten the state.
TEST_F(CheckerTest, KnowsTheLastPacketOfAFlow) {
  const auto is_last = [&](uint64_t clock) {
    return checker_.IsLast(Meta(kFlow, clock));
  };
  EXPECT_FALSE(is_last(1));
  Give(kA, 1);
  Give(kA, 2);
  EXPECT_FALSE(is_last(2));
  EndFlowAt(2);
  EXPECT_FALSE(is_last(1));
  EXPECT_TRUE(is_last(2));
  Give(kA, 1, kNextInSlot);
  EXPECT_FALSE(is_last(1));
  EXPECT_TRUE(is_last(2));
  EXPECT_FALSE(checker_.IsLast(Meta(kNextInSlot, 1)));
}

// Its unit never hears of such an end.
TEST_F(CheckerTest, AFlowWhoseEndWasNotSentKeepsItsPieces) {
  checker_.ExpectLosses();
  const std::vector<uint64_t> pieces = {1'024, 1'030};
  checker_.on_moved_here(kFlow, Clock{3}, {.state = {}, .pieces = pieces});
  EndFlowAt(3);
  EXPECT_TRUE(checker_.Read(kFlow).pieces.empty());
  checker_.on_end_unsent(Now(), {kFlow, Clock{3}});
  EXPECT_EQ(checker_.Read(kFlow).pieces, pieces);
}

TEST_F(CheckerTest, CountsAllViolationsAndKeepsTheFirstMessages) {
  for (uint64_t i = 1; i <= 25; ++i) Give(kA, 2 * i);
  EXPECT_EQ(checker_.violations(), 25u);
  EXPECT_EQ(checker_.messages().size(), Checker::kMaxMessages);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("clock 20 was given after clock 18"));
}

}  // namespace
}  // namespace snf
