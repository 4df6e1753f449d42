// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/ended_chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snf {
namespace {

using testing::ElementsAre;

RunResult ResultOf(uint64_t packets) {
  RunResult result;
  result.packets_in = packets;
  result.latency_ns.Record(1'000, static_cast<uint32_t>(packets));
  return result;
}

TEST(EndedChains, TellsOfTheLastOnesOneByOneAndOfAllBeforeAsOne) {
  EndedChains ended;
  const auto most = static_cast<uint32_t>(EndedChains::kMostTold);
  for (uint32_t n = 1; n <= most + 3; ++n) ended.Add(n, "nat", ResultOf(n));
  ASSERT_EQ(ended.list().size(), EndedChains::kMostTold);
  EXPECT_EQ(ended.list().front().number, 4u);
  EXPECT_EQ(ended.list().front().nf, "all before");
  EXPECT_EQ(ended.list().front().packets_in, 1u + 2 + 3 + 4);
  EXPECT_EQ(ended.list()[1].number, 5u);
  EXPECT_EQ(ended.list()[1].nf, "nat");
  EXPECT_EQ(ended.list().back().number, most + 3);
}

TEST(EndedChains, AddsFiguresAndLatenciesOfAllThatHaveEnded) {
  EndedChains ended;
  ended.Add(1, "nat", ResultOf(5));
  ended.AddRenewed(2, "nat", ResultOf(7));
  LiveFigures figures;
  AddCounts(ResultOf(30), figures);
  ended.AddFigures(figures);
  EXPECT_EQ(figures.counts[&RunResult::packets_in], 42u);
  EXPECT_EQ(ended.latency().count(), 12u);
}

// A generation that restarted is no failure of the run.
TEST(EndedChains, TellsAFailureOfTheRunFromOneThatARestartMended) {
  RunResult bad = ResultOf(1);
  bad.failure = "the launcher has ended";
  bad.violations = 2;
  bad.violation_messages = {"a packet was lost", "another one"};
  EndedChains ended;
  ended.AddRenewed(1, "nat", bad);
  RunResult result;
  AddViolations(ended.list(), result);
  EXPECT_EQ(ended.list()[0].renewed_for, "the launcher has ended");
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.violations, 0u);

  ended.Add(2, "nat", bad);
  AddViolations(ended.list(), result);
  EXPECT_EQ(result.failure, "the launcher has ended");
  EXPECT_EQ(result.violations, 2u);
  EXPECT_THAT(result.violation_messages,
              ElementsAre("chain 2: a packet was lost"));
}

}  // namespace
}  // namespace snf
