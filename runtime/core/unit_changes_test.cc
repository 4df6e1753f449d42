// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_changes.h"

#include <optional>

#include "gtest/gtest.h"
#include "runtime/core/test_inputs.h"

namespace snf {
namespace {

constexpr UnitOptions kLogged = [] {
  UnitOptions options = kSmallUnit;
  options.has_logger = true;
  return options;
}();

class UnitChangesTest : public ::testing::Test {
 protected:
  // Makes a copy of the flow that has applied that clock.
  uint32_t Copy(uint64_t flow, uint64_t clock) {
    const uint32_t slot = flows_.FindOrAdd(FlowId{flow});
    flows_.SetCopy(slot, CopyKind::kCurrent);
    flows_[slot].applied = Clock{clock};
    flows_.state(slot)[0] = std::byte{1};
    return slot;
  }

  StateSchema schema_ = ScriptedNf::Schema();
  FlowStore flows_{kLogged, schema_};
  NfCalls nf_{UnitId{1}, kLogged, schema_, {}};
  UnitChanges changes_;
  UnitOut out_;
};

TEST_F(UnitChangesTest, AFlowsFirstEntryIsWholeAndTheNextADelta) {
  const uint32_t slot = Copy(7, 5);
  changes_.Log(slot, Within(7, 5), flows_, out_);
  ASSERT_EQ(out_.commands().size(), 1u);
  EXPECT_EQ(out_.commands()[0].kind, UnitCommand::Kind::kLog);
  EXPECT_EQ(out_.commands()[0].meta.clock, Clock{5});
  UnitChanges::Change change = changes_.last(flows_, nf_);
  EXPECT_TRUE(change.is_whole);
  EXPECT_EQ(change.clock, Clock{5});
  EXPECT_EQ(change.bytes.size(), 8u) << "without the zeros at its end";
  flows_[slot].applied = Clock{6};
  changes_.Log(slot, Within(7, 6), flows_, out_);
  change = changes_.last(flows_, nf_);
  EXPECT_FALSE(change.is_whole);
  EXPECT_EQ(change.clock, Clock{6});
  EXPECT_TRUE(change.bytes.empty()) << "the NF has changed nothing";
  EXPECT_EQ(flows_.unreleased(), 2u);
}

TEST_F(UnitChangesTest, TheEndOfAFlowIsAnEntryBehindItsLastClock) {
  const uint32_t slot = Copy(7, 5);
  changes_.Log(slot, Within(7, 5), flows_, out_);
  out_.clear();
  changes_.LogEnd(Ms(3), slot, flows_, out_);
  ASSERT_EQ(out_.commands().size(), 1u);
  const PacketMeta& meta = out_.commands()[0].meta;
  EXPECT_EQ(meta.clock, Clock{6});
  EXPECT_EQ(meta.arrival, Ms(3));
  EXPECT_NE(meta.flags & PacketMeta::kEnd, 0);
  EXPECT_FALSE(meta.has_payload());
  EXPECT_EQ(changes_.last(flows_, nf_).clock, Clock{}) << "there is no record";
  EXPECT_TRUE(changes_.last(flows_, nf_).bytes.empty());
}

TEST_F(UnitChangesTest, AWholeRecordIsOfAnOwnAndSettledCopy) {
  const auto clock = [&](uint64_t flow) {
    return UnitChanges::Whole(FlowId{flow}, flows_).clock;
  };
  EXPECT_EQ(clock(7), Clock{});
  const uint32_t slot = Copy(7, 5);
  EXPECT_EQ(clock(7), Clock{5});
  flows_[slot].parked = 0;
  EXPECT_EQ(clock(7), Clock{}) << "it waits for its alias";
  flows_[slot].parked = FlowStore::kNone;
  flows_.SetCopy(slot, CopyKind::kReplica);
  EXPECT_EQ(clock(7), Clock{});
}

TEST_F(UnitChangesTest, NextLoggedGoesThroughTheFlowsOfTheLogger) {
  Copy(6, 1);
  const uint32_t slot = Copy(7, 5);
  const uint32_t parked = Copy(8, 9);
  changes_.Log(slot, Within(7, 5), flows_, out_);
  changes_.Log(parked, Within(8, 9), flows_, out_);
  flows_[parked].parked = 0;
  uint32_t at = 0;
  std::optional<UnitChanges::LoggedFlow> flow =
      UnitChanges::NextLogged(at, flows_);
  ASSERT_TRUE(flow.has_value());
  EXPECT_EQ(flow->flow, FlowId{7});
  EXPECT_EQ(flow->record.clock, Clock{5});
  EXPECT_FALSE(flow->is_parked);
  flow = UnitChanges::NextLogged(at, flows_);
  ASSERT_TRUE(flow.has_value());
  EXPECT_EQ(flow->flow, FlowId{8});
  EXPECT_TRUE(flow->is_parked);
  EXPECT_FALSE(UnitChanges::NextLogged(at, flows_).has_value());
  flows_[parked].parked = FlowStore::kNone;
}

}  // namespace
}  // namespace snf
