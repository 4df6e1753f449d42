// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/update_log.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "runtime/logger/log_keeper.h"
#include "runtime/logger/output_logger.h"
#include "runtime/logger/test_logged_unit.h"

namespace snf {
namespace {

std::array<TableShape, 2> TwoTables() {
  TableShape one = {
      .name = "one", .key_bytes = 8, .value_bytes = 8, .max_entries = 9};
  TableShape two = one;
  two.key_bytes = 16;
  return {one, two};
}

// An update of key 5 of a table.
Bytes Update(uint16_t table, uint64_t number, uint64_t delta,
             bool erases = false) {
  Bytes bytes;
  std::vector<uint64_t> words = {5, delta};
  if (table == 1) words = {5, 0, delta};
  AppendUpdate({.number = number,
                .table = table,
                .erases = erases ? uint8_t{1} : uint8_t{0},
                .words = static_cast<uint32_t>(words.size())},
               words.data(), bytes);
  return bytes;
}

Bytes Both(Bytes one, const Bytes& two) {
  one.insert(one.end(), two.begin(), two.end());
  return one;
}

TEST(UpdateLog, KeepsUpdatesUntilTheyAreMerged) {
  UpdateLog log(TwoTables());
  log.Add(5, Both(Update(0, 1, 10), Update(1, 1, 20)));
  log.Add(6, Update(0, 2, 30));
  EXPECT_EQ(log.newest(0), 2u);
  EXPECT_EQ(log.newest(1), 1u);
  EXPECT_EQ(log.entries_merged(9), 4u);
  log.on_merged(0, {0, 1});
  EXPECT_EQ(log.updates(0).front().words[1], 30u);
  EXPECT_EQ(log.entries_merged(9), 4u);
  log.on_merged(1, {0, 7});  // no more than there are
  EXPECT_EQ(log.newest(1), 1u);
  EXPECT_EQ(log.entries_merged(9), 5u);
  log.on_merged(0, {0, 2});
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(log.entries_merged(9), 9u);
  log.Add(7, Update(0, 3, 1));
  log.on_entries_merged(6);
  EXPECT_FALSE(log.empty());
  log.on_entries_merged(7);
  EXPECT_TRUE(log.empty());
}

TEST(UpdateLog, TakesANumberOnce) {
  UpdateLog log(TwoTables());
  log.Add(1, Update(0, 1, 10));
  log.Add(2, Both(Update(0, 1, 10), Update(0, 2, 20)));
  EXPECT_EQ(log.updates(0).size(), 2u);
  EXPECT_EQ(log.updates(0).front().entry, 1u);
  log.on_merged(0, {0, 2});
  log.Add(3, Update(0, 2, 20));
  EXPECT_TRUE(log.empty());
}

TEST(UpdateLog, RefusesUpdatesThatDoNotFollow) {
  UpdateLog log(TwoTables());
  EXPECT_TRUE(log.Follows({}));
  EXPECT_TRUE(log.Follows(Update(0, 1, 1)));
  EXPECT_FALSE(log.Follows(Update(0, 2, 1)));
  EXPECT_TRUE(log.Follows(Both(Update(0, 1, 1), Update(0, 2, 1))));
  EXPECT_FALSE(log.Follows(Both(Update(1, 1, 1), Update(0, 2, 1))));
  Bytes other = Update(1, 1, 1);
  other[8] = std::byte{2};  // no such table
  EXPECT_FALSE(log.Follows(other));
  other[8] = std::byte{0};  // of another shape
  EXPECT_FALSE(log.Follows(other));
  EXPECT_FALSE(UpdateLog().Follows(Update(0, 1, 1)));
}

TEST(UpdateLog, KnowsUpdatesOfEarlierIncarnations) {
  UpdateLog log(TwoTables(), 4);
  log.Add(9, Update(1, 1, 1));
  EXPECT_FALSE(log.has_earlier());
  log.Begin(5);
  // The next incarnation begins with 1 again.
  EXPECT_FALSE(log.Follows(Update(1, 2, 1)));
  log.Add(1, Update(1, 1, 1));
  log.Add(2, Update(1, 2, 1));
  EXPECT_TRUE(log.has_earlier());
  EXPECT_EQ(log.entries_merged(1), 0u);
  EXPECT_EQ(log.merged(1), (UpdateLog::Position{4, 0}));
  EXPECT_EQ(log.newest(1), 2u);
  log.on_merged(1, {4, 9});  // no more than there are
  EXPECT_FALSE(log.has_earlier());
  EXPECT_EQ(log.merged(1), (UpdateLog::Position{5, 0}));
  log.on_merged(1, {5, 1});
  EXPECT_EQ(log.entries_merged(2), 1u);
  EXPECT_EQ(log.gone(1), 2u);
  EXPECT_EQ(log.added(1), 3u);
}

// A new logger has the updates that its unit keeps, and their numbers, also
// where none is kept.
TEST(UpdateLog, IsHandedOverToANewLogger) {
  const LoggedUnit unit;
  const auto tables = TwoTables();
  const LogEntryLimits limits = {.schema = unit.nf.schema().hash(),
                                 .max_delta_bytes = 100,
                                 .packets = 8,
                                 .pools = 1,
                                 .max_update_bytes = 1'000};
  LogKeeper keeper(unit.nf.schema(), unit.nf.pools(), tables);
  LogEntry entry;
  entry.number = 1;
  entry.incarnation = 3;
  entry.schema = limits.schema;
  entry.meta.flow = FlowId{7};
  entry.meta.clock = entry.state = Clock{1};
  const auto make = [&](const Bytes& updates) {
    entry.argument = updates.size();
    Bytes bytes(1'000);
    bytes.resize(WriteLogEntry(entry, {}, {}, nullptr, {}, bytes, updates));
    keeper.on_made(*LogEntryView::Parse(limits, bytes));
    ++entry.number;
  };
  make(Both(Update(0, 1, 1), Update(1, 1, 1)));
  keeper.on_updates_merged(1);
  make(Both(Update(0, 2, 4), Update(0, 3, 5, /*erases=*/true)));

  OutputLogger next(3, {.max_flows = 8}, unit.nf.schema(), unit.nf.pools(),
                    /*takes_over=*/true, tables);
  keeper.ForEach(3, 0, [&](std::span<const std::byte> kept) {
    EXPECT_TRUE(next.Restore(kept));
  });
  next.EndRestore(0, 2);
  EXPECT_EQ(next.updates().merged(0), (UpdateLog::Position{3, 1}));
  EXPECT_EQ(next.updates().newest(0), 3u);
  EXPECT_EQ(next.updates().updates(0).back().words[1], 5u);
  EXPECT_TRUE(next.updates().updates(0).back().erases);
  EXPECT_FALSE(next.updates().updates(0).front().erases);
  EXPECT_EQ(next.updates().newest(1), 1u);
  // No other entry brings updates past a logger.
  LogEntry bare;
  bare.number = 1;
  bare.incarnation = 3;
  bare.kind = LogEntry::Kind::kUpdates;
  LoggerOut out;
  EXPECT_EQ(next.on_entry(LoggedUnit::Write(bare, {}, {}), out),
            OutputLogger::Result::kImpossible);
}

}  // namespace
}  // namespace snf
