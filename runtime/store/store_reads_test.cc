// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/store_reads.h"

#include <gtest/gtest.h>

#include <vector>

namespace snf {
namespace {

constexpr FlowId kFlow{7};
constexpr UnitId kUnit{1};

constexpr Instant At(Nanos time) { return {time.ns}; }

Pull PullOf(uint64_t need, UnitId unit = kUnit) {
  return {.flow = kFlow, .need = Clock{need}, .requester = unit};
}

StoreOptions Options() {
  return {.poll = Microseconds(50),
          .timeout = Milliseconds(10),
          .patience = Milliseconds(100)};
}

TEST(StoreReads, AskAgainAfterEachAnswerThatIsTooOldAndTwiceAsLate) {
  StoreReads reads(Options());
  EXPECT_TRUE(reads.Open(At({}), PullOf(7)));
  Instant now = At({});
  std::vector<int64_t> pauses;
  for (int i = 0; i < 7; ++i) {
    EXPECT_FALSE(reads.on_answer(now, now, kUnit, kFlow, Clock{5}));
    const Instant due = reads.next_due();
    pauses.push_back((due - now).ns / 1'000);
    now = due;
    const auto again = reads.PopDue(now);
    ASSERT_TRUE(again.has_value());
    EXPECT_FALSE(again->is_silent);
    EXPECT_EQ(again->pull.need, Clock{7});
    // The entries of answers that came are void.
    while (reads.next_due() <= now) EXPECT_FALSE(reads.PopDue(now).has_value());
  }
  EXPECT_EQ(pauses, (std::vector<int64_t>{50, 100, 200, 250, 250, 250, 250}));
  EXPECT_TRUE(reads.on_answer(now, now, kUnit, kFlow, Clock{7}));
  EXPECT_EQ(reads.size(), 0u);
  EXPECT_EQ(reads.counters().reads, 1u);
  EXPECT_EQ(reads.counters().read_again, 7u);
  EXPECT_EQ(reads.counters().timeouts, 0u);
}

TEST(StoreReads, TellARepetitionFromAReadAndOneClockFromAnother) {
  StoreReads reads(Options());
  EXPECT_TRUE(reads.Open(At({}), PullOf(7)));
  EXPECT_FALSE(reads.Open(At({}), PullOf(7)));
  EXPECT_TRUE(reads.Open(At({}), PullOf(7, UnitId{2})));
  EXPECT_TRUE(reads.Open(At({}), PullOf(9)));
  EXPECT_FALSE(reads.on_answer(At({}), At({}), kUnit, kFlow, Clock{7}));
  EXPECT_TRUE(reads.on_answer(At({}), At({}), kUnit, kFlow, Clock{9}));
  EXPECT_FALSE(reads.on_answer(At({}), At({}), kUnit, kFlow, Clock{9}));
  EXPECT_TRUE(reads.on_answer(At({}), At({}), UnitId{2}, kFlow, Clock{7}));
  EXPECT_EQ(reads.counters().reads, 3u);
}

TEST(StoreReads, TellOfAStoreThatIsSilentAndOfNoOther) {
  StoreReads reads(Options());
  reads.Open(At({}), PullOf(7));
  std::vector<int64_t> asked;
  std::vector<int64_t> told;
  for (int i = 0; i < 7; ++i) {
    const Instant now = reads.next_due();
    const auto due = reads.PopDue(now);
    ASSERT_TRUE(due.has_value());
    asked.push_back(now.ns / 1'000'000);
    if (due->is_silent) told.push_back(asked.back());
  }
  EXPECT_EQ(asked, (std::vector<int64_t>{10, 30, 70, 150, 310, 630, 1'270}));
  EXPECT_EQ(told, (std::vector<int64_t>{150, 310, 630, 1'270}));
  EXPECT_EQ(reads.counters().silent, 4u);
  EXPECT_EQ(reads.counters().timeouts, 7u);
  // An answer that comes late is one.
  EXPECT_TRUE(reads.on_answer(At(Seconds(2)), At({}), kUnit, kFlow, Clock{7}));
  // One that answers is never called silent, whatever it has not.
  EXPECT_TRUE(reads.Open(At(Seconds(2)), PullOf(8)));
  for (Instant now = At(Seconds(2)); now < At(Seconds(10));
       now = reads.next_due()) {
    const auto due = reads.PopDue(now);
    EXPECT_FALSE(due.has_value() && due->is_silent);
    reads.on_answer(now, now, kUnit, kFlow, std::nullopt);
  }
  // Nor is it after one request that it has not answered yet.
  while (reads.counters().timeouts < 8) {
    const auto due = reads.PopDue(reads.next_due());
    EXPECT_FALSE(due.has_value() && due->is_silent);
  }
  EXPECT_EQ(reads.size(), 1u);
}

TEST(StoreReads, AskOnlyAfterTheAnswerToTheLastRequest) {
  StoreReads reads(Options());
  reads.Open(At({}), PullOf(7));
  const Instant again = At(Milliseconds(10));
  ASSERT_TRUE(reads.PopDue(again).has_value());
  const Instant due = reads.next_due();
  EXPECT_EQ(due, again + Milliseconds(20));
  // That to the first one comes late, and changes nothing.
  const Instant late = At(Milliseconds(11));
  EXPECT_FALSE(reads.on_answer(late, At({}), kUnit, kFlow, Clock{5}));
  EXPECT_EQ(reads.next_due(), due);
  EXPECT_FALSE(reads.on_answer(late, again, kUnit, kFlow, Clock{5}));
  EXPECT_EQ(reads.next_due(), late + Microseconds(50));
}

TEST(StoreReads, EndWhereNobodyWantsThemAnyMore) {
  StoreReads reads(Options());
  reads.Open(At({}), PullOf(7));
  reads.Open(At({}), PullOf(7, UnitId{2}));
  reads.Forget(kUnit);
  EXPECT_EQ(reads.size(), 1u);
  Instant now;
  for (; reads.size() > 0 && now < At(Seconds(60)); now = reads.next_due()) {
    const auto due = reads.PopDue(now);
    EXPECT_FALSE(due.has_value() && due->is_silent);
    reads.on_answer(now, now, UnitId{2}, kFlow, Clock{6});
  }
  EXPECT_EQ(reads.size(), 0u);
  EXPECT_GT(now, At(Seconds(20)));
}

}  // namespace
}  // namespace snf
