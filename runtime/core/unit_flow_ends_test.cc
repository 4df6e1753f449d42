// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_flow_ends.h"

#include "gtest/gtest.h"
#include "runtime/core/pending_lists.h"
#include "runtime/core/test_inputs.h"

namespace snf {
namespace {

constexpr UnitOptions kLogged = [] {
  UnitOptions options = kSmallUnit;
  options.has_logger = true;
  return options;
}();

class UnitFlowEndsTest : public ::testing::Test {
 protected:
  uint32_t Copy(uint64_t clock) {
    const uint32_t slot = flows_.FindOrAdd(kFlow);
    flows_.SetCopy(slot, CopyKind::kCurrent);
    flows_[slot].applied = Clock{clock};
    return slot;
  }
  bool Has(uint32_t slot, Pending::Kind kind) {
    return *flows_.pending().LinkOf(flows_[slot].pending, kind) !=
           FlowStore::kNone;
  }
  void AddPending(uint32_t slot, Pending::Kind kind) {
    flows_.pending().Add(flows_[slot].pending, {.clock = Clock{3},
                                                .due = Instant::max(),
                                                .next = FlowStore::kNone,
                                                .peer = UnitId{2},
                                                .kind = kind,
                                                .tries = 0});
  }

  static constexpr FlowId kFlow{7};
  StateSchema schema_ = ScriptedNf::Schema();
  FlowStore flows_{kLogged, schema_};
  UnitFlowEnds ends_{flows_};
  UnitOut out_;
};

TEST_F(UnitFlowEndsTest, AFlowIsOverOnceItsLastClockHasRun) {
  const uint32_t slot = Copy(8);
  EXPECT_FALSE(ends_.IsOver(slot));
  EXPECT_EQ(ends_.Await({.flow = kFlow, .last = Clock{9}}), slot);
  EXPECT_FALSE(ends_.IsOver(slot));
  flows_[slot].applied = Clock{9};
  EXPECT_TRUE(ends_.IsOver(slot));
  ends_.Finish(slot);
  EXPECT_EQ(flows_[slot].copy, CopyKind::kNone);
  EXPECT_EQ(flows_[slot].pending, FlowStore::kNone);
  EXPECT_FALSE(ends_.IsOver(slot));
}

TEST_F(UnitFlowEndsTest, TheFirstEndOfAFlowCounts) {
  const uint32_t slot = Copy(9);
  ends_.Await({.flow = kFlow, .last = Clock{9}});
  ends_.Await({.flow = kFlow, .last = Clock{12}});
  EXPECT_TRUE(ends_.IsOver(slot));
  ends_.Finish(slot);
  EXPECT_FALSE(Has(slot, Pending::Kind::kEnd));
}

TEST_F(UnitFlowEndsTest, AFlowIsNotOverWhileItsLastClockIsNotReleased) {
  const uint32_t slot = Copy(9);
  ends_.Await({.flow = kFlow, .last = Clock{9}});
  flows_.AddEntry(slot);
  EXPECT_FALSE(ends_.IsOver(slot));
  flows_.ReleaseEntry(slot);
  EXPECT_TRUE(ends_.IsOver(slot));
  flows_[slot].parked = 0;
  EXPECT_FALSE(ends_.IsOver(slot)) << "it waits for its alias";
  flows_[slot].parked = FlowStore::kNone;
}

TEST_F(UnitFlowEndsTest, AnEndMayComeAheadOfItsFlow) {
  const uint32_t slot = ends_.Await({.flow = kFlow, .last = Clock{9}});
  EXPECT_EQ(flows_.Find(kFlow), slot);
  EXPECT_FALSE(ends_.IsOver(slot));
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.Find(kFlow), slot) << "it is kept until then";
}

TEST_F(UnitFlowEndsTest, AForsakenFlowKeepsItsTakeoversAlone) {
  const uint32_t slot = Copy(9);
  AddPending(slot, Pending::Kind::kMyPull);
  AddPending(slot, Pending::Kind::kMyTakeover);
  AddPending(slot, Pending::Kind::kPull);
  ends_.Forsake(slot);
  EXPECT_TRUE(Has(slot, Pending::Kind::kMyTakeover));
  EXPECT_TRUE(Has(slot, Pending::Kind::kForsaken));
  EXPECT_FALSE(Has(slot, Pending::Kind::kMyPull));
  EXPECT_FALSE(Has(slot, Pending::Kind::kPull));
}

TEST_F(UnitFlowEndsTest, DropsAForsakenCopyOnceNothingOfTheFlowRuns) {
  const uint32_t slot = Copy(9);
  ends_.DropIfForsaken(UnitId{1}, slot, out_);
  EXPECT_EQ(flows_[slot].copy, CopyKind::kCurrent) << "nobody has given it up";
  ends_.Forsake(slot);
  flows_[slot].engaged = true;
  ends_.DropIfForsaken(UnitId{1}, slot, out_);
  EXPECT_EQ(flows_[slot].copy, CopyKind::kCurrent);
  flows_[slot].engaged = false;
  flows_.AddEntry(slot);
  ends_.DropIfForsaken(UnitId{1}, slot, out_);
  EXPECT_EQ(flows_[slot].copy, CopyKind::kCurrent);
  flows_.ReleaseEntry(slot);
  EXPECT_TRUE(out_.commands().empty());
  ends_.DropIfForsaken(UnitId{1}, slot, out_);
  EXPECT_EQ(flows_[slot].copy, CopyKind::kNone);
  EXPECT_FALSE(Has(slot, Pending::Kind::kForsaken));
  ASSERT_EQ(out_.commands().size(), 1u) << "the logger has a record";
  const UnitCommand& told = out_.commands()[0];
  EXPECT_EQ(told.kind, UnitCommand::Kind::kSendTakeoverAck);
  EXPECT_EQ(told.unit, kNoUnit);
  EXPECT_EQ(told.takeover_ack.clock, Clock{10});
  EXPECT_EQ(told.takeover_ack.sender, UnitId{1});
}

TEST_F(UnitFlowEndsTest, TellsNoLoggerThatHasNoRecordOfAForsakenFlow) {
  const uint32_t slot = Copy(9);
  ends_.Forsake(slot);
  ends_.DropIfForsaken(UnitId{1}, slot, out_);
  EXPECT_EQ(flows_[slot].copy, CopyKind::kNone);
  EXPECT_TRUE(out_.commands().empty());
}

}  // namespace
}  // namespace snf
