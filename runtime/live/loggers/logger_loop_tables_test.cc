// SPDX-License-Identifier: Apache-2.0
//
// Updates of shared tables in a loop of loggers, whose units may fail.
#include <gtest/gtest.h>

#include <vector>

#include "base/ids.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/loggers/test_loggers.h"

namespace snf {
namespace {

constexpr std::string_view kMonitor = "monitor";

class LoggedTables : public testing::Test {
 protected:
  // Returns the one message for homes that has come since the last call.
  TableMessage Heard() {
    loggers_.Turn();
    loggers_.TakeHeard();
    std::vector<TableMessage> heard = loggers_.TakeUpdates();
    EXPECT_GE(heard.size(), 1u);
    return heard.empty() ? TableMessage{} : heard.back();
  }
  void ExpectNoFault() {
    EXPECT_EQ(loggers_.faults().count(), 0u)
        << ToString(loggers_.faults().first().value_or(WireFault{}));
  }

  Loggers loggers_{/*recovers=*/true, /*reports=*/false, kMonitor};
};

TEST_F(LoggedTables, GoToTheHomesAndAreForgottenOnceMerged) {
  loggers_.LogUpdate(1);
  loggers_.LogUpdate(2);
  const TableMessage message = Heard();
  EXPECT_EQ(message.kind, TableMessage::Kind::kLogged);
  EXPECT_EQ(message.unit, kUnit);
  EXPECT_EQ(message.incarnation, LogWord::kIncarnation);
  EXPECT_EQ(message.merged, 0u);
  EXPECT_EQ(message.seq, 2u);
  EXPECT_EQ(message.entries, 1u);
  EXPECT_TRUE(loggers_.progress().has_updates);
  EXPECT_EQ(loggers_.TakeMerged(), 0u);
  loggers_.Answer(LogWord::kIncarnation, 2);
  loggers_.Turn();
  EXPECT_FALSE(loggers_.progress().has_updates);
  EXPECT_EQ(loggers_.TakeMerged(), 2u) << "the unit keeps no update either";
  ExpectNoFault();
}

// The loggers alone have the updates: until these are merged, the controller
// does not count the process as drained.
TEST_F(LoggedTables, HoldBackTheEndOfTheirUnitsProcess) {
  loggers_.LogUpdate(1);
  Heard();
  loggers_.LogUpdate(2);
  loggers_.End();
  loggers_.Turn();
  EXPECT_EQ(loggers_.control().drained, 0u);
  loggers_.Answer(LogWord::kIncarnation, 1);
  EXPECT_EQ(Heard().seq, 2u) << "at once, not a period later";
  EXPECT_EQ(loggers_.control().drained, 0u);
  loggers_.Answer(LogWord::kIncarnation, 2);
  loggers_.Turn();
  EXPECT_EQ(loggers_.control().drained, 1u);
  // The next process begins with number 1 again.
  loggers_.BeginAnew();
  loggers_.LogUpdate(1);
  const TableMessage next = Heard();
  EXPECT_EQ(next.incarnation, LogWord::kIncarnation + 1);
  EXPECT_EQ(next.merged, 0u);
  ExpectNoFault();
}

TEST_F(LoggedTables, AreNoWordsThatAnotherProcessCounts) {
  loggers_.LogUpdate(1);
  loggers_.LogUpdate(2);
  Heard();
  loggers_.Replace();
  loggers_.HandOver(1, 2, /*is_ahead=*/false, /*merged=*/2);
  loggers_.Turn();
  loggers_.LogUpdate(3);
  const TableMessage next = Heard();
  EXPECT_EQ(next.merged, 2u);
  EXPECT_EQ(next.seq, 3u);
  loggers_.Log(loggers_.NextClock());
  loggers_.Turn();
  EXPECT_EQ(loggers_.TakeHeard().size(), 1u) << "no word is left out";
  ExpectNoFault();
}

// Else a run could end before the units have handed their updates over.
TEST_F(LoggedTables, MayBeThereUntilAllIsHandedOver) {
  loggers_.LogUpdate(1);
  Heard();
  loggers_.Answer(LogWord::kIncarnation, 1);
  loggers_.Turn();
  EXPECT_FALSE(loggers_.progress().has_updates);
  loggers_.Replace();
  EXPECT_TRUE(loggers_.progress().has_updates);
  loggers_.Turn();
  EXPECT_TRUE(loggers_.progress().has_updates);
  loggers_.HandOver(1, 1, /*is_ahead=*/false, /*merged=*/1);
  loggers_.Turn();
  loggers_.Turn();
  EXPECT_FALSE(loggers_.progress().has_updates);
  ExpectNoFault();
}

TEST_F(LoggedTables, HaveNoAnswerFromTheFuture) {
  loggers_.LogUpdate(1);
  Heard();
  loggers_.Answer(LogWord::kIncarnation + 1, 1);
  loggers_.Turn();
  ASSERT_EQ(loggers_.faults().count(), 1u);
  EXPECT_EQ(ToString(*loggers_.faults().first()),
            "the loop of units 0 sent a bad word: table with incarnation 2");
}

}  // namespace
}  // namespace snf
