// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/seal_reports.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "runtime/live/loggers/test_loop_loggers.h"

namespace snf {
namespace {

using Kind = UnitCommand::Kind;

constexpr UnitId kUnit{2};
constexpr FlowId kFlow{7};

class SealReportsTest : public testing::Test {
 protected:
  LoopLoggers& loggers() { return test_.loggers(); }
  void EndProcess() { loggers().on_end(loggers().ends() + 1); }
  void TakeInto(std::vector<UnitCommand>& words) {
    seals_.TakeWords(
        [&words](const UnitCommand& word) { words.push_back(word); });
  }
  // Lets reports go on to their end.
  std::vector<UnitCommand> Words() {
    std::vector<UnitCommand> words;
    for (int i = 0; i < 100 && seals_.is_due(); ++i) {
      seals_.GoOn();
      TakeInto(words);
    }
    EXPECT_FALSE(seals_.is_due());
    return words;
  }
  std::vector<FlowId> Forgotten() {
    std::vector<FlowId> forgotten;
    seals_.ForgetSome([&](UnitId, FlowId flow) { forgotten.push_back(flow); });
    return forgotten;
  }

  TestLoopLoggers test_;
  std::optional<LoggerLedger> ledger_;
  SealReports seals_{test_.loggers(), ledger_};
};

TEST_F(SealReportsTest, SealsALoggerAndSaysItsClocks) {
  test_.Take(kUnit, test_.NextOf(kUnit, kFlow, Clock{9}));
  EndProcess();
  EXPECT_FALSE(seals_.is_due());
  seals_.on_seal({.unit = kUnit, .round = 3});
  const std::vector<UnitCommand> words = Words();
  EXPECT_TRUE(loggers()[kUnit].sealed());
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(words[0].kind, Kind::kSendDone);
  EXPECT_EQ(words[0].done.flow, kFlow);
  EXPECT_EQ(words[0].done.applied, Clock{9});
  EXPECT_EQ(words[0].done.round, 3u);
  EXPECT_EQ(words[1].kind, Kind::kSendGrants);
  EXPECT_EQ(words[2].done.flow, kNoFlow);
  EXPECT_EQ(words[2].done.round, 3u);
  for (const UnitCommand& word : words) EXPECT_EQ(word.unit, kUnit);
}

TEST_F(SealReportsTest, AnswersTheLastOfSeveralSealsOnly) {
  test_.Take(kUnit, test_.NextOf(kUnit, kFlow, Clock{9}));
  EndProcess();
  seals_.on_seal({.unit = kUnit, .round = 3});
  seals_.on_seal({.unit = kUnit, .round = 4});
  uint32_t done = 0;
  for (const UnitCommand& word : Words()) {
    if (word.kind != Kind::kSendDone) continue;
    EXPECT_EQ(word.done.round, 4u);
    ++done;
  }
  EXPECT_EQ(done, 2u);  // of the flow, and that this was all
}

TEST_F(SealReportsTest, DoesNotSealALoggerThatHasBegunAgain) {
  test_.Take(kUnit, test_.NextOf(kUnit, kFlow, Clock{9}));
  EndProcess();
  seals_.on_seal({.unit = kUnit, .round = 3});
  Words();
  loggers().Begin(kUnit);
  seals_.on_seal({.unit = kUnit, .round = 4});
  const std::vector<UnitCommand> words = Words();
  EXPECT_FALSE(loggers()[kUnit].sealed());
  ASSERT_EQ(words.size(), 2u) << "no grants, which are another process's";
  EXPECT_EQ(words[0].done.flow, kFlow);
}

TEST_F(SealReportsTest, SaysOfAUnitWithoutALoggerThatThatWasAll) {
  EndProcess();
  seals_.on_seal({.unit = kUnit, .round = 3});
  const std::vector<UnitCommand> words = Words();
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[1].done.flow, kNoFlow);
}

TEST_F(SealReportsTest, ForgetsACopyOnceItsLoggerHasReported) {
  test_.Take(kUnit, test_.NextOf(kUnit, kFlow, Clock{9}));
  EndProcess();
  seals_.on_seal({.unit = kUnit, .round = 3});
  seals_.on_forget({.flow = kFlow, .clock = Clock{10}, .taker = kUnit});
  loggers()[kUnit].Seal();
  EXPECT_TRUE(Forgotten().empty());
  EXPECT_TRUE(seals_.has_forgets());
  Words();
  EXPECT_EQ(Forgotten(), std::vector{kFlow});
  EXPECT_FALSE(seals_.has_forgets());
  EXPECT_EQ(loggers()[kUnit].applied(kFlow), Clock{});
  const std::vector<UnitCommand> words = Words();
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].unit, kUnit);
}

TEST_F(SealReportsTest, AnotherReportTakesTheUnitsPlace) {
  test_.Take(kUnit, test_.NextOf(kUnit, kFlow, Clock{9}));
  EndProcess();
  seals_.on_seal({.unit = kUnit, .round = 3});
  seals_.on_forget({.flow = kFlow, .clock = Clock{10}, .taker = kUnit});
  seals_.DropForAnother();
  EXPECT_TRUE(seals_.is_due());
  seals_.Cancel(kUnit);
  EXPECT_FALSE(seals_.is_due());
  EXPECT_FALSE(seals_.has_forgets());
  seals_.Cancel(kUnit);
  EXPECT_FALSE(seals_.is_due());
}

TEST_F(SealReportsTest, ALoggerThatBeginsAgainReportsOnItsWay) {
  constexpr uint32_t kFlows = 200;  // more than it reports in one turn
  for (uint32_t i = 0; i < kFlows; ++i) {
    test_.Take(kUnit, test_.NextOf(kUnit, FlowId{i}, Clock{1}));
  }
  EndProcess();
  const LoggerCommand applied = {
      .kind = LoggerCommand::Kind::kApplied,
      .applied = {.flow = kFlow, .clock = Clock{9}, .ended = false}};
  std::vector<UnitCommand> words;
  seals_.on_command(kUnit, applied);
  TakeInto(words);
  EXPECT_TRUE(words.empty()) << "nobody has asked";
  seals_.on_seal({.unit = kUnit, .round = 3});
  seals_.on_command(kUnit, applied);
  TakeInto(words);
  EXPECT_TRUE(words.empty()) << "the report is yet to begin";
  seals_.GoOn();
  TakeInto(words);
  ASSERT_TRUE(seals_.is_due());
  words.clear();
  seals_.on_command(kUnit, applied);
  TakeInto(words);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].done.applied, Clock{9});
}

}  // namespace
}  // namespace snf
