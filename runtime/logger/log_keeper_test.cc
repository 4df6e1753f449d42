// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/log_keeper.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <span>

#include "runtime/logger/test_logged_unit.h"

namespace snf {
namespace {

class LogKeeping : public ::testing::Test {
 protected:
  void Make(Bytes bytes) { keeper_.on_made(*Parse(bytes)); }
  // An entry that ends the flow, or that tells the controller of it.
  Bytes Flagged(uint64_t flow, uint8_t flag) {
    return unit_.Advance(flow, 1, false, {}, flag);
  }
  Bytes Of(LogEntry::Kind kind, uint64_t number, uint64_t argument,
           uint64_t flow) {
    LogEntry entry;
    entry.number = number;
    entry.kind = kind;
    entry.argument = argument;
    entry.meta.flow = FlowId{flow};
    entry.incarnation = LoggedUnit::kIncarnation;
    return LoggedUnit::Write(entry, {}, {});
  }
  // What a new logger gets, by the entry that it comes from.
  std::map<uint64_t, LogEntry> Kept(uint64_t released) {
    std::map<uint64_t, LogEntry> kept;
    keeper_.ForEach(LoggedUnit::kIncarnation, released,
                    [&](std::span<const std::byte> bytes) {
                      const auto entry = Parse(bytes);
                      ASSERT_TRUE(entry.has_value());
                      ASSERT_EQ((*entry)->incarnation,
                                LoggedUnit::kIncarnation);
                      const bool is_mark = (*entry)->is(LogEntry::kWhole);
                      kept[(*entry)->number + (is_mark ? 100 : 0)] = **entry;
                    });
    return kept;
  }
  std::optional<LogEntryView> Parse(std::span<const std::byte> bytes) {
    return LogEntryView::Parse({.schema = unit_.nf.schema().hash(),
                                .max_delta_bytes = 4'096,
                                .packets = 1'000,
                                .pools = 1},
                               bytes);
  }

  LoggedUnit unit_;
  LogKeeper keeper_{unit_.nf.schema(), unit_.nf.pools()};
};

TEST_F(LogKeeping, HasNothingBeforeTheFirstEntry) {
  EXPECT_TRUE(Kept(0).empty());
}

TEST_F(LogKeeping, HasTheFreePiecesAndTheLastGrant) {
  Make(unit_.Grant(0, 7));
  Make(unit_.Advance(1, 5, false, {{.piece = 1}}));
  Make(unit_.Advance(1, 6, false, {{.piece = 1, .gives = 1}, {.piece = 2}}));
  const LogEntry pieces = Kept(3).at(3);
  EXPECT_EQ(pieces.kind, LogEntry::Kind::kGrant);
  EXPECT_EQ(pieces.block.mask, 3u);
  EXPECT_EQ(pieces.argument, 1u);
}

TEST_F(LogKeeping, HasWhatTheControllerHasNotAcknowledged) {
  Make(unit_.Grant(0, 7));
  Make(unit_.Return(0, 4));
  Make(Flagged(1, LogEntry::kOver));
  EXPECT_EQ(keeper_.tells(), 2u);
  EXPECT_EQ(Kept(3).at(2).block.mask, 4u);
  EXPECT_TRUE(Kept(3).at(3).is(LogEntry::kOver) ||
              Kept(3).at(3).kind == LogEntry::Kind::kGrant);
  Make(Of(LogEntry::Kind::kTold, 4, 2, 0));
  EXPECT_EQ(keeper_.tells(), 1u);
  EXPECT_FALSE(Kept(4).contains(2));
  Make(Of(LogEntry::Kind::kTold, 5, 3, 0));
  EXPECT_EQ(keeper_.tells(), 0u);
}

TEST_F(LogKeeping, MarksAFlowsEndUntilItIsAcknowledged) {
  Make(unit_.Advance(7, 5));
  Make(Flagged(7, LogEntry::kEnd));
  for (const uint64_t released : {1u, 2u}) {
    const LogEntry mark = Kept(released).at(102);
    EXPECT_TRUE(mark.is(LogEntry::kEnd));
    EXPECT_EQ(mark.state, Clock{2});
    EXPECT_EQ(mark.base, Clock{released});
  }
  Make(Of(LogEntry::Kind::kEnded, 3, 0, 7));
  EXPECT_FALSE(Kept(3).contains(102));
}

// A logger that takes all of it over has what the one before had.
TEST_F(LogKeeping, FitsANewLogger) {
  Make(unit_.Grant(0, 7));
  Make(unit_.Return(0, 4));
  Make(Flagged(1, LogEntry::kEnd));
  OutputLogger next(LoggedUnit::kIncarnation, {.max_flows = 2},
                    unit_.nf.schema(), unit_.nf.pools(), true);
  keeper_.ForEach(LoggedUnit::kIncarnation, 2,
                  [&](std::span<const std::byte> bytes) {
                    EXPECT_TRUE(next.Restore(bytes));
                  });
  next.EndRestore(2, 3);
  EXPECT_EQ(next.pieces(0).word(0), 3u);
  EXPECT_EQ(next.tells(), 2u);
  EXPECT_EQ(next.applied(FlowId{1}), Clock{1});
  LoggerOut out;
  EXPECT_EQ(next.on_entry(unit_.entries[3], out), OutputLogger::Result::kTaken);
  EXPECT_EQ(next.tells(), 2u);
}

}  // namespace
}  // namespace snf
