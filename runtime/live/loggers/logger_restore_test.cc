// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/logger_restore.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/live/loggers/test_loop_loggers.h"

namespace snf {
namespace {

using Got = LoggerRestore::Got;

constexpr UnitId kUnit{2};
constexpr FlowId kFlow{7};
constexpr uint32_t kProcess = 3;

class LoggerRestoreTest : public testing::Test {
 protected:
  LoggerRestoreTest() { restore_.Begin(); }

  Got Word(KeptWord::Kind kind, uint64_t number = 0, uint64_t released = 0) {
    return restore_.on_word(
        {.kind = kind, .unit = kUnit, .released = released, .number = number},
        {});
  }
  Got Entry(const LogEntry& entry, bool is_ahead = false) {
    return restore_.on_word({.kind = KeptWord::Kind::kEntry,
                             .is_ahead = is_ahead ? uint8_t{1} : uint8_t{0},
                             .unit = kUnit},
                            test_.BytesOf(entry));
  }
  // Makes the record of the flow at that clock.
  LogEntry Record(uint64_t clock) {
    LogEntry entry = test_.NextOf(kUnit, kFlow, Clock{clock});
    entry.base = Clock{clock};
    return entry;
  }

  TestLoopLoggers test_{"passthrough", kProcess};
  LoggerRestore restore_{kProcess, test_.loggers()};
};

TEST_F(LoggerRestoreTest, GivesALoggerTheRecordsOfItsUnit) {
  EXPECT_TRUE(restore_.is_restoring());
  EXPECT_EQ(Word(KeptWord::Kind::kBegin, kProcess), Got::kNothing);
  EXPECT_EQ(Entry(Record(9)), Got::kRecord);
  EXPECT_EQ(Word(KeptWord::Kind::kName), Got::kName);
  EXPECT_EQ(Word(KeptWord::Kind::kUnit, 0), Got::kNothing);
  EXPECT_EQ(Word(KeptWord::Kind::kAll), Got::kAll);
  restore_.End();
  EXPECT_FALSE(restore_.is_restoring());
  EXPECT_EQ(test_.loggers()[kUnit].applied(kFlow), Clock{9});
  EXPECT_TRUE(restore_.EndIfWhole());
  EXPECT_FALSE(restore_.lacks_entries());
}

TEST_F(LoggerRestoreTest, IgnoresWordsForAnEarlierProcess) {
  Word(KeptWord::Kind::kBegin, kProcess - 1);
  EXPECT_EQ(Entry(Record(9)), Got::kNothing);
  EXPECT_EQ(Word(KeptWord::Kind::kAll), Got::kNothing);
  EXPECT_EQ(test_.loggers().Find(kUnit), nullptr);
}

TEST_F(LoggerRestoreTest, RefusesAnEndBeforeThatOfEachUnit) {
  Word(KeptWord::Kind::kBegin, kProcess);
  Entry(Record(9));
  EXPECT_EQ(Word(KeptWord::Kind::kAll), Got::kTooEarly);
}

TEST_F(LoggerRestoreTest, RefusesARecordTwiceAndBehindTheEndOfItsUnit) {
  Word(KeptWord::Kind::kBegin, kProcess);
  EXPECT_EQ(Entry(Record(9)), Got::kRecord);
  EXPECT_EQ(Entry(Record(9)), Got::kImpossible);
  Word(KeptWord::Kind::kUnit);
  EXPECT_EQ(Entry(Record(9)), Got::kImpossible);
  EXPECT_EQ(Word(KeptWord::Kind::kUnit), Got::kImpossible);
}

TEST_F(LoggerRestoreTest, LacksEntriesThatItsRecordsHaveTheEffectsOf) {
  Word(KeptWord::Kind::kBegin, kProcess);
  Word(KeptWord::Kind::kUnit, /*number=*/1);
  Word(KeptWord::Kind::kAll);
  restore_.End();
  EXPECT_FALSE(restore_.EndIfWhole());
  LogEntry ended = test_.Next(kUnit);
  ended.kind = LogEntry::Kind::kEnded;
  test_.Take(kUnit, ended);
  EXPECT_TRUE(restore_.EndIfWhole());
}

TEST_F(LoggerRestoreTest, LacksEntriesUntilRecordsAreNotAheadAnyMore) {
  Word(KeptWord::Kind::kBegin, kProcess);
  Entry(Record(9), /*is_ahead=*/true);
  Word(KeptWord::Kind::kUnit, /*number=*/1);
  Word(KeptWord::Kind::kAll);
  restore_.End();
  EXPECT_FALSE(restore_.EndIfWhole()) << "entry 1 is missing";
  LogEntry told = test_.Next(kUnit);
  told.number = 1;
  told.kind = LogEntry::Kind::kEnded;
  test_.Take(kUnit, told);
  EXPECT_TRUE(restore_.has_flows_ahead());
  EXPECT_FALSE(restore_.EndIfWhole()) << "the flow is ahead";
  restore_.on_entry(kUnit, Record(9));
  EXPECT_FALSE(restore_.EndIfWhole());
  restore_.on_entry(kUnit, Record(10));
  EXPECT_FALSE(restore_.has_flows_ahead());
  EXPECT_TRUE(restore_.EndIfWhole());
}

}  // namespace
}  // namespace snf
