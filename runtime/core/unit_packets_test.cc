// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_packets.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_inputs.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = UnitCommand::Kind;

constexpr uint32_t kMaxHeld = 2;
constexpr uint32_t kNone = UnitPackets::kNone;

class UnitPacketsTest : public ::testing::Test {
 protected:
  void Add(const PacketMeta& meta) {
    packets_.Add(PacketHandle{handles_++}, meta, flows_);
  }
  // Adds a packet, takes it out of the inbox and holds it.
  bool Hold(const PacketMeta& meta, Instant now = Ms(1)) {
    Add(meta);
    return packets_.Hold(now, flows_.FindOrAdd(meta.flow),
                         packets_.TakeNext(flows_), flows_, out_);
  }
  std::vector<uint64_t> HeldClocks(uint64_t flow) {
    std::vector<uint64_t> clocks;
    const uint32_t slot = flows_.Find(FlowId{flow});
    for (uint32_t node = flows_[slot].held.head; node != kNone;
         node = flows_.packets()[node].next) {
      clocks.push_back(value(flows_.packets()[node].meta.clock));
    }
    return clocks;
  }
  std::vector<Kind> Drain(DropReason reason) {
    std::vector<Kind> kinds;
    for (const UnitCommand& command : out_.commands()) {
      kinds.push_back(command.kind);
      EXPECT_EQ(command.reason, reason);
    }
    out_.clear();
    return kinds;
  }
  uint64_t TakenClock() {
    const uint32_t node = packets_.TakeNext(flows_);
    return node == kNone ? 0 : value(flows_.packets()[node].meta.clock);
  }

  StateSchema schema_ = ScriptedNf::Schema();
  FlowStore flows_{kSmallUnit, schema_};
  UnitPackets packets_{kMaxHeld};
  UnitOut out_;
  uint32_t handles_ = 1;
};

TEST_F(UnitPacketsTest, TakesPacketsAsTheyCame) {
  for (uint64_t clock = 1; clock <= 10; ++clock) Add(Within(7, clock));
  for (uint64_t clock = 1; clock <= 10; ++clock) {
    EXPECT_EQ(TakenClock(), clock);
  }
  EXPECT_EQ(TakenClock(), 0u);
  Add(Within(7, 11));
  EXPECT_EQ(TakenClock(), 11u);
}

TEST_F(UnitPacketsTest, HoldsPacketsOfAFlowByTheirClocks) {
  EXPECT_TRUE(Hold(Null(Within(7, 3))));
  EXPECT_TRUE(Hold(Null(Within(7, 5))));
  EXPECT_TRUE(Hold(Null(Within(8, 2))));
  EXPECT_TRUE(Hold(Null(Within(7, 4))));
  EXPECT_THAT(HeldClocks(7), ElementsAre(3, 4, 5));
  EXPECT_EQ(packets_.held(), 4u);
  const uint32_t slot = flows_.Find(FlowId{7});
  const uint32_t node = packets_.TakeHeld(slot, flows_);
  EXPECT_EQ(flows_.packets()[node].meta.clock, Clock{3});
  EXPECT_EQ(flows_.packets()[node].held_since, Ms(1));
  EXPECT_EQ(packets_.held(), 3u);
  EXPECT_TRUE(out_.commands().empty());
}

TEST_F(UnitPacketsTest, DropsADuplicateOfAHeldPacket) {
  Hold(Within(7, 3));
  Hold(Within(7, 5));
  EXPECT_FALSE(Hold(Within(7, 3)));
  EXPECT_FALSE(Hold(Null(Within(7, 3))));
  EXPECT_THAT(Drain(DropReason::kDuplicateClock),
              ElementsAre(Kind::kDrop, Kind::kAdvance));
  EXPECT_THAT(HeldClocks(7), ElementsAre(3, 5));
  EXPECT_EQ(flows_.packets().used(), 2u);
}

TEST_F(UnitPacketsTest, MakesATombstoneOfAPayloadAboveTheLimit) {
  Hold(Within(7, 3));
  Hold(Within(8, 3));
  Hold(Null(Within(7, 4)));
  EXPECT_THAT(Drain(DropReason::kHoldOverflow), IsEmpty());
  EXPECT_TRUE(Hold(Within(7, 5)));
  EXPECT_THAT(Drain(DropReason::kHoldOverflow),
              ElementsAre(Kind::kDropPayload));
  EXPECT_THAT(HeldClocks(7), ElementsAre(3, 4, 5));
  packets_.TakeHeld(flows_.Find(FlowId{7}), flows_);
  Hold(Within(7, 6));
  EXPECT_THAT(Drain(DropReason::kHoldOverflow), IsEmpty()) << "there is room";
}

TEST_F(UnitPacketsTest, DropsPayloadsOfAFlowAndKeepsItsClocks) {
  Hold(Within(7, 3));
  Hold(Within(7, 4));
  const uint32_t slot = flows_.Find(FlowId{7});
  EXPECT_FALSE(
      packets_.DropHeldPayloads(slot, DropReason::kStoreSilent, flows_, out_));
  EXPECT_THAT(Drain(DropReason::kStoreSilent),
              ElementsAre(Kind::kDropPayload, Kind::kDropPayload));
  EXPECT_THAT(HeldClocks(7), ElementsAre(3, 4));
  Hold(Within(8, 1));
  Hold(Within(8, 2));
  EXPECT_THAT(Drain(DropReason::kHoldOverflow), IsEmpty());
}

TEST_F(UnitPacketsTest, FindsAPacketWhereverItWaits) {
  Hold(Within(7, 3));
  Hold(Within(8, 3));
  Add(Within(7, 4));
  EXPECT_EQ(packets_.Find(FlowId{7}, Clock{5}, flows_), kNone);
  const auto clock_at = [&](uint32_t node) {
    return node == kNone ? Clock{} : flows_.packets()[node].meta.clock;
  };
  EXPECT_EQ(clock_at(packets_.Find(FlowId{7}, Clock{3}, flows_)), Clock{3});
  EXPECT_EQ(clock_at(packets_.Find(FlowId{7}, Clock{4}, flows_)), Clock{4});
  const uint32_t node = packets_.TakeHeld(flows_.Find(FlowId{7}), flows_);
  EXPECT_EQ(packets_.Find(FlowId{7}, Clock{3}, flows_), kNone);
  flows_.packets().Append(flows_.resumed(), node);
  EXPECT_EQ(packets_.Find(FlowId{7}, Clock{3}, flows_), node);
}

TEST_F(UnitPacketsTest, DropsAllPacketsOfAFlow) {
  Hold(Within(7, 3));
  Hold(Within(8, 3));
  Add(Within(7, 4));
  Add(Within(8, 4));
  Add(Null(Within(7, 5)));
  EXPECT_TRUE(packets_.DropFromInbox(FlowId{7}, flows_, out_));
  EXPECT_THAT(Drain(DropReason::kUnitFailed),
              ElementsAre(Kind::kDrop, Kind::kAdvance));
  EXPECT_TRUE(packets_.DropHeld(flows_.Find(FlowId{7}), flows_, out_));
  EXPECT_THAT(Drain(DropReason::kUnitFailed), ElementsAre(Kind::kDrop));
  EXPECT_EQ(packets_.held(), 1u);
  EXPECT_EQ(TakenClock(), 4u);
  EXPECT_EQ(TakenClock(), 0u);
}

TEST_F(UnitPacketsTest, DropsNoMoreThanThereIsRoomFor) {
  Add(Within(7, 4));
  Add(Within(7, 5));
  while (out_.room() > kMaxUnitCommandsPerCall + 1) {
    out_.push(UnitCommand::Stopped());
  }
  EXPECT_FALSE(packets_.DropFromInbox(FlowId{7}, flows_, out_));
  out_.clear();
  EXPECT_EQ(TakenClock(), 5u);
}

}  // namespace
}  // namespace snf
