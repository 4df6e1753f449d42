// SPDX-License-Identifier: Apache-2.0
#include "runtime/shell/entry_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/core/test_unit.h"
#include "runtime/logger/delta.h"
#include "runtime/logger/output_logger.h"

// A unit's entries go to a logger, which is to have what the unit has.
namespace snf {
namespace {

using Lines = TestUnit::Lines;
using Bytes = std::vector<std::byte>;

constexpr uint32_t kHandles = value(kNoPacket);
const std::array<NetworkFunction::Pool, 2> kPools = {
    {{"ports", 0, 999}, {"ids", 0, 999}}};

class EntryMakerTest : public ::testing::Test {
 protected:
  static UnitOptions Logged() {
    UnitOptions options = kSmallUnit;
    options.has_logger = true;
    return options;
  }

  std::optional<LogEntryView> Entry(size_t index) const {
    const StateSchema& schema = ScriptedNf::Schema();
    return LogEntryView::Parse(
        {.schema = schema.hash(),
         .max_delta_bytes =
             std::max(schema.record_bytes(), MaxDeltaBytes(schema)),
         .packets = kHandles,
         .pools = kPools.size()},
        unit_.entries.at(index));
  }
  // Makes two entries: of a grant, and of a packet that waited for it.
  void Bring(uint16_t pool, uint32_t word, uint64_t mask) {
    bool has_come = false;
    unit_.nf.missing = [&](FlowState&) -> std::optional<PoolId> {
      return has_come ? std::nullopt : std::optional(PoolId{pool});
    };
    unit_.Send(New(9));
    unit_.Serve();
    has_come = true;
    unit_.on_pieces(pool, word, mask);
    unit_.Serve();
    unit_.nf.missing = [](FlowState&) { return std::nullopt; };
  }
  // The logger takes what it has not taken yet.
  void Deliver() {
    for (; delivered_ < unit_.entries.size(); ++delivered_) {
      EXPECT_EQ(logger_.on_entry(unit_.entries[delivered_], out_),
                OutputLogger::Result::kTaken);
      out_.clear();
    }
  }
  void ExpectSameRecord(uint64_t flow) const {
    const Unit::Change whole = unit_.unit.whole(FlowId{flow});
    ASSERT_EQ(logger_.applied(FlowId{flow}), whole.clock);
    EXPECT_TRUE(std::ranges::equal(
        StateSchema::WithoutZeros(logger_.state_bytes(FlowId{flow})),
        whole.bytes));
  }

  TestUnit unit_{1, Logged(), kPools};
  OutputLogger logger_{TestUnit::kIncarnation,
                       {.max_flows = 16, .packets = kHandles},
                       ScriptedNf::Schema(),
                       kPools};
  LoggerOut out_;
  size_t delivered_ = 0;
};

TEST_F(EntryMakerTest, AClockIsOneEntryOfAllThatItDid) {
  Bring(1, 1, 1 << 6);
  unit_.nf.packet = [&](Packet&, FlowState& flow) {
    EXPECT_EQ(flow.take(PoolId{1}, {.first = 64, .last = 128}), 70u);
    flow.emit(Bytes(20));
    flow.set_idle_timeout(Seconds(7));
    return Verdict::drop(1);
  };
  unit_.Send(Within(9, 2));
  unit_.Serve();
  ASSERT_EQ(unit_.entries.size(), 3u);
  EXPECT_EQ((*Entry(0))->kind, LogEntry::Kind::kGrant);
  const auto entry = Entry(2);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ((*entry)->number, 3u);
  EXPECT_EQ((*entry)->meta.clock, Clock{2});
  EXPECT_EQ((*entry)->base, Clock{1});
  EXPECT_FALSE((*entry)->is(LogEntry::kWhole));
  EXPECT_EQ((*entry)->outcome, LogEntry::Outcome::kNfDrop);
  EXPECT_EQ((*entry)->nf_reason, 1);
  EXPECT_EQ((*entry)->idle_timeout, Seconds(7));
  EXPECT_EQ((*entry)->emitted, 1);
  ASSERT_EQ((*entry)->pieces, 1);
  EXPECT_EQ(entry->piece(0).piece, 70u);
  EXPECT_EQ(entry->piece(0).pool, 1);
  EXPECT_EQ(entry->piece(0).gives, 0);
  Deliver();
  ExpectSameRecord(9);
}

TEST_F(EntryMakerTest, PiecesAreWhereTheUnitHasThem) {
  Bring(0, 2, 0xff);
  unit_.nf.packet = [&](Packet&, FlowState& flow) {
    flow.take(PoolId{0}, {.last = 999});
    const auto back = flow.take(PoolId{0}, {.last = 999});
    EXPECT_TRUE(back.has_value());
    if (back.has_value()) flow.give_back(PoolId{0}, *back);
    return Verdict::forward();
  };
  unit_.Send(New(7));
  unit_.Serve();
  Deliver();
  EXPECT_EQ(unit_.unit.pieces(0), 7u);
  EXPECT_EQ(logger_.pieces(0).size(), 7u);
  EXPECT_EQ((*Entry(2))->pieces, 1);
}

TEST_F(EntryMakerTest, APieceThatIsGivenTwiceCountsOnce) {
  unit_.nf.packet = [&](Packet&, FlowState& flow) {
    flow.give_back(PoolId{0}, 5);
    return Verdict::forward();
  };
  unit_.Send(New(7));
  unit_.Send(Within(7, 2));
  unit_.Serve();
  Deliver();
  EXPECT_EQ(logger_.pieces(0).size(), 1u);
  EXPECT_EQ(unit_.unit.pieces(0), 0u);
  unit_.on_pieces_released({.word = 0, .pool = 0, .mask = 1 << 5});
  EXPECT_EQ(unit_.unit.pieces(0), 1u);
  EXPECT_EQ(unit_.unit.counters().pieces_refused, 1u);
}

TEST_F(EntryMakerTest, APacketThatWaitsForItsAliasIsOneEntry) {
  unit_.nf.packet = [&](Packet&, FlowState& flow) {
    flow.emit(Bytes(20));
    flow.set_alias(FlowKey{});
    return Verdict::forward();
  };
  unit_.nf.refused = [&](FlowState& flow, AliasResult) {
    flow.emit(Bytes(20));
  };
  unit_.Send(New(7));
  unit_.Send(New(8));
  unit_.Serve();
  EXPECT_TRUE(unit_.entries.empty());
  unit_.on_alias_ack(8, 1, AliasResult::kConflict);
  unit_.on_alias_ack(7, 1);
  ASSERT_EQ(unit_.entries.size(), 2u);
  EXPECT_EQ((*Entry(0))->meta.flow, FlowId{8});
  EXPECT_EQ((*Entry(0))->emitted, 2);
  EXPECT_FALSE((*Entry(0))->is(LogEntry::kHasAlias));
  EXPECT_EQ((*Entry(1))->emitted, 1);
  ASSERT_TRUE((*Entry(1))->is(LogEntry::kHasAlias));
  EXPECT_EQ(Entry(1)->alias().clock, Clock{1});
  Deliver();
  ExpectSameRecord(7);
  ExpectSameRecord(8);
}

TEST_F(EntryMakerTest, APacketThatWaitedForItsAliasBringsTheWholeRecord) {
  unit_.Send(New(7));
  unit_.Serve();
  unit_.nf.packet = [&](Packet&, FlowState& flow) {
    flow.set_alias(FlowKey{});
    return Verdict::forward();
  };
  unit_.Send(Within(7, 2));
  unit_.Serve();
  unit_.nf.packet = [](Packet&, FlowState&) { return Verdict::forward(); };
  unit_.Send(New(8));
  unit_.Serve();
  unit_.on_alias_ack(7, 2);
  ASSERT_EQ(unit_.entries.size(), 3u);
  EXPECT_TRUE((*Entry(2))->is(LogEntry::kWhole));
  Deliver();
  ExpectSameRecord(7);
}

TEST_F(EntryMakerTest, AStandInHasThePresentRecord) {
  unit_.Send(New(7));
  unit_.Send(Within(7, 2));
  unit_.Serve();
  unit_.entries[0] = unit_.maker->StandIn(*Entry(0), unit_.unit);
  const auto entry = Entry(0);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ((*entry)->meta.clock, Clock{1});
  EXPECT_EQ((*entry)->state, Clock{2});
  EXPECT_EQ((*entry)->outcome, LogEntry::Outcome::kRelease);
  Deliver();
  ExpectSameRecord(7);
}

// What the NF did at the clock that waits may have to be taken back.
TEST_F(EntryMakerTest, AFlowThatWaitsForItsAliasGivesNoStandIn) {
  unit_.Send(New(7));
  unit_.Serve();
  unit_.nf.packet = [&](Packet&, FlowState& flow) {
    flow.set_alias(FlowKey{});
    return Verdict::forward();
  };
  unit_.Send(Within(7, 2));
  unit_.Serve();
  EXPECT_EQ(unit_.maker->StandIn(*Entry(0), unit_.unit), unit_.entries[0]);
}

TEST_F(EntryMakerTest, AnEndedFlowLeavesAMarkUntilTheControllerKnows) {
  unit_.Send(New(7));
  unit_.Serve();
  unit_.on_end_flow(7, 1);
  unit_.on_released(New(7));
  Deliver();
  EXPECT_EQ(logger_.flows(), 1u);
  EXPECT_EQ(logger_.tells(), 1u);
  unit_.maker->MakeTold(2);
  unit_.entries.emplace_back(unit_.maker->entry().begin(),
                             unit_.maker->entry().end());
  unit_.maker->MakeEnded(FlowId{7}, Clock{2});
  unit_.entries.emplace_back(unit_.maker->entry().begin(),
                             unit_.maker->entry().end());
  Deliver();
  EXPECT_EQ(logger_.flows(), 0u);
  EXPECT_EQ(logger_.tells(), 0u);
}

TEST_F(EntryMakerTest, ATakeoverIsAcknowledgedByTheLogger) {
  unit_.Send(New(7));
  unit_.Serve();
  unit_.on_pull(7, 1, 2);
  unit_.on_released(New(7));
  unit_.on_takeover(7, 2, 2);
  ASSERT_EQ(unit_.entries.size(), 2u);
  logger_.on_entry(unit_.entries[0], out_);
  out_.clear();
  logger_.on_entry(unit_.entries[1], out_);
  EXPECT_EQ(logger_.flows(), 0u);
  ASSERT_EQ(out_.commands().size(), 1u);
  EXPECT_EQ(out_.commands()[0].kind, LoggerCommand::Kind::kSendTakeoverAck);
  EXPECT_EQ(out_.commands()[0].unit, UnitId{2});
}

}  // namespace
}  // namespace snf
