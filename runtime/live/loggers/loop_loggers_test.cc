// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/loop_loggers.h"

#include <gtest/gtest.h>

#include "runtime/live/loggers/test_loop_loggers.h"

namespace snf {
namespace {

using Result = OutputLogger::Result;

constexpr UnitId kUnit{2};
constexpr uint32_t kFirst = LogWord::kIncarnation;

void Report(OutputLogger& logger) {
  LoggerOut out;
  while (logger.has_more()) {
    out.clear();
    logger.Resume(out);
  }
}

TEST(LoopLoggers, MakesALoggerWithTheFirstWordOfItsUnit) {
  TestLoopLoggers test;
  LoopLoggers& loggers = test.loggers();
  EXPECT_EQ(loggers.Find(kUnit), nullptr);
  EXPECT_EQ(test.Take(kUnit, test.NextOf(kUnit, FlowId{7}, Clock{1})),
            Result::kTaken);
  OutputLogger* const logger = loggers.Find(kUnit);
  ASSERT_NE(logger, nullptr);
  EXPECT_EQ(&loggers.Of(kUnit, kFirst), logger);
  EXPECT_EQ(logger->applied(FlowId{7}), Clock{1});
  EXPECT_EQ(loggers.Find(UnitId{1}), nullptr);
}

TEST(LoopLoggers, ALoggerIsOfTheEndedProcessUntilItBegins) {
  TestLoopLoggers test;
  LoopLoggers& loggers = test.loggers();
  test.Take(kUnit, test.NextOf(kUnit, FlowId{7}, Clock{1}));
  EXPECT_TRUE(loggers.is_of_now(kUnit));
  loggers.on_end(1);
  EXPECT_EQ(loggers.incarnation(), kFirst + 1);
  EXPECT_EQ(loggers.incarnation(kUnit), kFirst);
  EXPECT_FALSE(loggers.is_of_now(kUnit));
  loggers[kUnit].Seal();
  Report(loggers[kUnit]);
  loggers.Begin(kUnit);
  EXPECT_TRUE(loggers.is_of_now(kUnit));
  EXPECT_FALSE(loggers[kUnit].sealed());
}

TEST(LoopLoggers, SealsLoggersOfAnEndedProcessOnly) {
  TestLoopLoggers test;
  LoopLoggers& loggers = test.loggers();
  loggers.Of(kUnit, kFirst);
  loggers.on_end(1);
  loggers.Of(UnitId{1}, loggers.incarnation());
  loggers.SealEnded();
  EXPECT_TRUE(loggers[kUnit].sealed());
  EXPECT_FALSE(loggers[UnitId{1}].sealed());
}

TEST(LoopLoggers, AProcessThatTakesOverWaitsForRecordsOfUnitsThatHaveSome) {
  TestLoopLoggers test("passthrough", /*process=*/1);
  LoopLoggers& loggers = test.loggers();
  EXPECT_FALSE(loggers.Of(UnitId{1}, kFirst).is_restoring());
  EXPECT_FALSE(loggers.AreRestoring());
  OutputLogger& logger = loggers.ToRestore(kUnit);
  EXPECT_TRUE(loggers.AreRestoring());
  logger.EndRestore(/*released=*/7, /*made=*/9);
  EXPECT_FALSE(loggers.AreRestoring());
  EXPECT_TRUE(loggers.LackEntries());
  for (uint64_t number = 1; number <= 9; ++number) {
    EXPECT_TRUE(loggers.LackEntries());
    LogEntry entry = test.Next(kUnit);
    entry.kind = LogEntry::Kind::kEnded;
    test.Take(kUnit, entry);
  }
  EXPECT_FALSE(loggers.LackEntries());
}

TEST(LoopLoggers, MakesASenderIfEntriesHaveUpdatesOfTables) {
  TestLoopLoggers plain;
  plain.loggers().Of(kUnit, kFirst);
  EXPECT_TRUE(plain.loggers().updates().empty());
  TestLoopLoggers monitor("monitor");
  monitor.loggers().Of(kUnit, kFirst);
  EXPECT_TRUE(monitor.loggers().updates().Has(kUnit));
  EXPECT_FALSE(monitor.loggers().updates().Has(UnitId{1}));
}

}  // namespace
}  // namespace snf
