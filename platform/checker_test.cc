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
    checker_.OnEnqueue(Now(), kA, Meta(flow, clock));
  }
  // A clock without payload, from the controller.
  void GiveNull(uint64_t clock) {
    checker_.OnEnqueue(Now(), kB, Meta(kFlow, clock, PacketMeta::kNull));
  }
  void EndFlowAt(uint64_t clock, FlowId flow = kFlow) {
    checker_.OnEndFlow(Now(), kA, {flow, Clock{clock}});
  }
  void DropPayload(uint64_t clock) {
    checker_.OnPayloadDropped(Now(), kB, Meta(kFlow, clock));
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
  // The same of a clock without payload.
  void Skip(UnitId unit, uint64_t clock,
            uint8_t flags = PacketMeta::kTombstone) {
    checker_.OnServiceBegin(Now(), unit, Meta(kFlow, clock, flags));
    checker_.OnServiceEnd(Now(), unit, Meta(kFlow, clock, flags));
  }
  void Advance(uint64_t clock) {
    checker_.OnAdvanced(Now(), kB, Meta(kFlow, clock));
  }
  void Release(uint64_t clock, FlowId flow = kFlow) {
    checker_.OnRelease(Now(), kB, Meta(flow, clock));
  }
  void Take(uint64_t clock, FlowId flow = kFlow) {
    checker_.OnTaken(Now(), kB, Meta(flow, clock));
  }
  void Finish() { checker_.OnEnd(Now()); }

  static PacketMeta Meta(FlowId flow, uint64_t clock, uint8_t flags = 0) {
    PacketMeta meta;
    meta.flags = flags;
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
  ExpectOne("unit 2: clock 2 began while unit 1 was at work");
}

TEST_F(CheckerTest, ReportsAClockProcessedTwice) {
  Give(1);
  Process(kA, 1);
  Process(kA, 1);
  Release(1);
  Finish();
  ExpectOne("unit 1: clock 1 was processed after clock 1");
}

TEST_F(CheckerTest, ReportsAClockProcessedOnStaleState) {
  Give(1);
  Give(2);
  Give(3);
  Process(kA, 1);
  Begin(kB, 3);
  ExpectOne("unit 2: clock 3 was processed after clock 1");
}

TEST_F(CheckerTest, ReportsAnEndWithoutABegin) {
  Give(1);
  Begin(kA, 1);
  End(kB, 1);
  ExpectOne("unit 2: clock 1 ended without having begun");
}

TEST_F(CheckerTest, ReportsAReleaseOutOfOrder) {
  Give(1);
  Give(2);
  Process(kA, 1);
  Process(kA, 2);
  Release(2);
  Release(1);
  Finish();
  ExpectOne("unit 2: clock 1 was released after clock 2");
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
      "unit 1: clock 3 is the last that was given: 1 packets have left, the "
      "last clock processed is 2");
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
  ExpectOne("unit 1: clock 2 was processed after clock 0");
  Finish();
  EXPECT_EQ(checker_.violations(), 2u);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("generation 3, unit 1: clock 2 is the last"));
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

TEST_F(CheckerTest, FollowsAClockThatATombstoneTook) {
  Give(1);
  Give(2);
  Give(3);
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
  Give(1);
  GiveNull(2);
  Give(3);
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
  ExpectOne("unit 2: clock 1 is the last that was given: 0 packets have left");
}

TEST_F(CheckerTest, ReportsAReleaseOfADroppedPacket) {
  Give(1);
  DropPayload(1);
  Skip(kB, 1);
  Release(1);
  ExpectOne("clock 1 was released without payload");
}

TEST_F(CheckerTest, ReportsASecondDropOfADroppedPacket) {
  Give(1);
  DropPayload(1);
  Skip(kB, 1);
  Take(1);
  ExpectOne("clock 1 was taken without payload");
}

TEST_F(CheckerTest, ReportsThatADroppedPacketIsShownToTheNf) {
  Give(1);
  DropPayload(1);
  Begin(kB, 1);
  ExpectOne("unit 2: clock 1 was processed with a payload that is gone");
}

TEST_F(CheckerTest, ReportsAPacketTakenForATombstone) {
  Give(1);
  Skip(kB, 1);
  ExpectOne("unit 2: clock 1 was taken for one without payload");
}

TEST_F(CheckerTest, ReportsAnAdvanceThatLosesAPacket) {
  Give(1);
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
  Give(1);
  DropPayload(1);
  DropPayload(1);
  ExpectOne("unit 2: clock 1 was dropped a second time");
  Skip(kB, 1);
  DropPayload(1);
  EXPECT_THAT(checker_.messages().back(),
              HasSubstr("clock 1 was dropped when it was processed already"));
}

TEST_F(CheckerTest, AcceptsTheEndOfAFlow) {
  Give(1);
  Give(2);
  EndFlowAt(2);
  Process(kA, 1);
  Release(1);
  Process(kA, 2);
  Release(2);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(CheckerTest, ReportsAnEndThatIsNotTheFlows) {
  Give(1);
  Give(2);
  EndFlowAt(1);
  ExpectOne(
      "unit 1: clock 1 was named as the flow's last; that is clock 2 at "
      "unit 1");
  GiveNull(3);  // at unit 2
  EndFlowAt(3);
  EXPECT_EQ(checker_.violations(), 2u);
}

// Notes in its slot how many packets a flow had, and in each packet's byte.
class Counting final : public NetworkFunction {
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 1);
    packet.bytes()[0] = static_cast<std::byte>(flow.get(packets_));
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Counting, "test_counting", "counts a flow's packets");

class ReferenceCheckerTest : public CheckerTest {
 protected:
  ReferenceCheckerTest() { checker_ = Checker(&registration_of_Counting); }

  // A unit makes of the packet with that clock one that begins with `byte`.
  void Make(uint64_t clock, uint8_t byte, FlowId flow = kFlow) {
    Begin(kB, clock, flow);
    End(kB, clock, flow);
    checker_.BeforeNf(pool_.info(packet_), pool_.bytes(packet_));
    pool_.bytes(packet_)[0] = std::byte{byte};
    const UnitCommand done = UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                                   packet_, Meta(flow, clock));
    checker_.AfterNf(Now(), kB, Meta(flow, clock),
                     {.pool = pool_,
                      .packet = packet_,
                      .commands = {&done, 1},
                      .pieces_taken = {}});
    Release(clock, flow);
  }

  void SetUp() override {
    packet_ = pool_.Allocate(1);
    pool_.info(packet_).length = 1;
  }

  BufferPool pool_{{.small = 1, .medium = 0, .large = 0}};
  PacketHandle packet_ = kNoPacket;
};

TEST_F(ReferenceCheckerTest, ReportsWhatStaleStateMakesOfAPacket) {
  for (uint64_t clock = 1; clock <= 4; ++clock) Give(clock);
  Make(1, 1);
  Make(2, 2);
  EXPECT_EQ(checker_.violations(), 0u);
  Make(3, 2);
  Make(4, 2);
  Finish();
  ExpectOne(
      "unit 2: clock 3 was not processed on its own state: of the packet byte "
      "0 is 02, should be 03");
}

TEST_F(ReferenceCheckerTest, GivesClocksWithoutPayloadNoState) {
  Give(1);
  GiveNull(2);
  Give(3);
  Give(4);
  Make(1, 1);
  Skip(kB, 2, PacketMeta::kNull);
  Advance(2);
  DropPayload(3);
  Skip(kB, 3);
  Advance(3);
  Make(4, 2);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(ReferenceCheckerTest, KeepsTheStateOfAFlowUntilItsLastPacketLeft) {
  Give(1);
  Give(2);
  Make(1, 1);
  EndFlowAt(2);
  EXPECT_EQ(checker_.reference_flows(), 1u);
  Give(1, kNextInSlot);
  Make(1, 1, kNextInSlot);
  EXPECT_EQ(checker_.reference_flows(), 2u);
  Make(2, 2);
  EXPECT_EQ(checker_.reference_flows(), 1u);
  EndFlowAt(1, kNextInSlot);
  EXPECT_EQ(checker_.reference_flows(), 0u);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
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
