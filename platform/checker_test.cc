// SPDX-License-Identifier: Apache-2.0
#include "platform/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr FlowId kFlow = MakeFlowId(0, 7, 3);
constexpr FlowId kOther = MakeFlowId(0, 8, 0);
constexpr FlowId kNextInSlot = MakeFlowId(0, 7, 4);
constexpr UnitId kA{1};
constexpr UnitId kB{2};

// Tells a checker a story, a nanosecond a line.
class CheckerTest : public testing::Test {
 protected:
  void Give(uint64_t clock, FlowId flow = kFlow) {
    checker_.OnEnqueue(Now(), Meta(flow, clock));
  }
  void Begin(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    checker_.OnServiceBegin(Now(), unit, Meta(flow, clock));
  }
  void End(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    checker_.OnServiceEnd(Now(), unit, Meta(flow, clock));
  }
  void Process(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    Begin(unit, clock, flow);
    End(unit, clock, flow);
  }
  void Release(uint64_t clock, FlowId flow = kFlow) {
    checker_.OnRelease(Now(), Meta(flow, clock));
  }
  void Take(uint64_t clock, FlowId flow = kFlow) {
    checker_.OnTaken(Now(), Meta(flow, clock));
  }
  void Finish() { checker_.OnEnd(Now()); }

  static PacketMeta Meta(FlowId flow, uint64_t clock) {
    PacketMeta meta;
    meta.flow = flow;
    meta.clock = Clock{clock};
    return meta;
  }
  Instant Now() { return Instant{++now_}; }

  // One violation, of kFlow unless another is named, with these words.
  void ExpectOne(const std::string& words,
                 const std::string& flow = "flow slot 7 generation 3") {
    EXPECT_EQ(checker_.violations(), 1u);
    EXPECT_THAT(checker_.messages(),
                ElementsAre(AllOf(HasSubstr(flow), HasSubstr(words))));
  }

  Checker checker_;
  int64_t now_ = 0;
};

TEST_F(CheckerTest, AcceptsASoundStory) {
  Give(1);
  Give(2);
  Give(1, kOther);
  Begin(kA, 1);
  Begin(kB, 1, kOther);
  End(kA, 1);
  Give(3);
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
  Give(1);
  Give(2);
  Begin(kA, 1);
  End(kA, 1);
  Begin(kA, 2);
  Begin(kB, 2);
  ExpectOne("unit 2 began clock 2 while unit 1 was at work");
}

TEST_F(CheckerTest, ReportsAClockProcessedTwice) {
  Give(1);
  Process(kA, 1);
  Process(kA, 1);
  Release(1);
  Finish();
  ExpectOne("unit 1 processed clock 1 after clock 1");
}

TEST_F(CheckerTest, ReportsAClockProcessedOnStaleState) {
  Give(1);
  Give(2);
  Give(3);
  Process(kA, 1);
  Begin(kB, 3);
  ExpectOne("unit 2 processed clock 3 after clock 1");
}

TEST_F(CheckerTest, ReportsAnEndWithoutABegin) {
  Give(1);
  Begin(kA, 1);
  End(kB, 1);
  ExpectOne("unit 2 ended clock 1, which it had not begun");
}

TEST_F(CheckerTest, ReportsAReleaseOutOfOrder) {
  Give(1);
  Give(2);
  Process(kA, 1);
  Process(kA, 2);
  Release(2);
  Release(1);
  Finish();
  ExpectOne("clock 1 was released after clock 2");
}

TEST_F(CheckerTest, ReportsASecondRelease) {
  Give(1);
  Process(kA, 1);
  Release(1);
  Release(1);
  ExpectOne("clock 1 was released after clock 1");
}

TEST_F(CheckerTest, ReportsAReleaseBeforeProcessing) {
  Give(1);
  Give(2);
  Process(kA, 1);
  Begin(kA, 2);
  Release(2);
  ExpectOne("clock 2 was released when clock 1 was processed");
}

TEST_F(CheckerTest, ReportsAClockThatWasSkippedOrGivenTwice) {
  Give(1);
  Give(3);
  ExpectOne("clock 3 was given after clock 1");
  Give(3);
  EXPECT_EQ(checker_.violations(), 2u);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("clock 3 was given after clock 3"));
}

TEST_F(CheckerTest, ReportsPacketsThatNeverLeave) {
  Give(1);
  Give(2);
  Give(3);
  Process(kA, 1);
  Release(1);
  Process(kA, 2);
  Finish();
  ExpectOne(
      "3 packets were given a clock, 1 left; the last clock processed "
      "is 2");
}

TEST_F(CheckerTest, ReportsAFlowThatTheControllerDoesNotKnow) {
  Give(1);
  Begin(kA, 1, kOther);
  ExpectOne("clock 1 came from nowhere", "flow slot 8 generation 0");
}

TEST_F(CheckerTest, TellsFlowsThatSharedASlotApart) {
  Give(1);
  Give(2);
  Process(kA, 1);
  Release(1);
  // The flow ends, and its slot is used again, while clock 2 is queued.
  Give(1, kNextInSlot);
  Begin(kB, 1, kNextInSlot);
  Process(kA, 2);
  End(kB, 1, kNextInSlot);
  Release(1, kNextInSlot);
  Release(2);
  Finish();
  EXPECT_EQ(checker_.violations(), 0u);
}

TEST_F(CheckerTest, WatchesAFlowThatLostItsSlot) {
  Give(1);
  Give(2);
  Give(1, kNextInSlot);
  Process(kA, 1, kNextInSlot);
  Release(1, kNextInSlot);
  Begin(kA, 2);
  ExpectOne("unit 1 processed clock 2 after clock 0");
  Finish();
  EXPECT_EQ(checker_.violations(), 2u);
  EXPECT_THAT(checker_.messages().back(), HasSubstr("generation 3: 2 packets"));
}

TEST_F(CheckerTest, ReportsAPacketOfAFlowThatWasOver) {
  Give(1);
  Process(kA, 1);
  Release(1);
  Give(1, kNextInSlot);
  Release(1);
  ExpectOne("clock 1 came from nowhere");
}

TEST_F(CheckerTest, SaysWhenItHappened) {
  Give(1);
  now_ = 41;
  Begin(kA, 2);
  ExpectOne("at 42 ns, ");
}

TEST_F(CheckerTest, CountsAllViolationsAndKeepsTheFirstMessages) {
  for (uint64_t i = 1; i <= 25; ++i) Give(2 * i);
  EXPECT_EQ(checker_.violations(), 25u);
  EXPECT_EQ(checker_.messages().size(), Checker::kMaxMessages);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("clock 20 was given after clock 18"));
}

}  // namespace
}  // namespace snf
