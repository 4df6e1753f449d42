// SPDX-License-Identifier: Apache-2.0
#include "controller/core/alias_table.h"

#include "controller/core/test_driver.h"

namespace snf {
namespace {

Alias Of(uint16_t port, uint64_t group = 0, uint32_t limit = 0,
         uint64_t clock = 1) {
  return {.key = External(port),
          .clock = Clock{clock},
          .group = group,
          .group_limit = limit};
}

uint32_t Find(const AliasTable& table, uint16_t port) {
  return table.Find(External(port), FlowKeyHash(7)(External(port)));
}

TEST(AliasTable, FindsTheFlowThatHasAnAlias) {
  AliasTable table(10, 7);
  EXPECT_EQ(Find(table, 1024), AliasTable::kNone);
  EXPECT_EQ(table.Set(9, Of(1024)), AliasResult::kGranted);
  EXPECT_EQ(table.Set(0, Of(1025)), AliasResult::kGranted);
  EXPECT_EQ(Find(table, 1024), 9u);
  EXPECT_EQ(Find(table, 1025), 0u);
  EXPECT_EQ(table.size(), 2u);
}

TEST(AliasTable, RefusesWhatAnotherFlowHasAndKeepsTheOld) {
  AliasTable table(10, 7);
  table.Set(1, Of(1024));
  table.Set(2, Of(1025));
  EXPECT_EQ(table.Set(2, Of(1024)), AliasResult::kConflict);
  EXPECT_EQ(Find(table, 1024), 1u);
  EXPECT_EQ(Find(table, 1025), 2u);
}

TEST(AliasTable, ReplacesAFlowsAlias) {
  AliasTable table(10, 7);
  table.Set(1, Of(1024));
  EXPECT_EQ(table.Set(1, Of(1026)), AliasResult::kGranted);
  EXPECT_EQ(Find(table, 1024), AliasTable::kNone);
  EXPECT_EQ(Find(table, 1026), 1u);
  EXPECT_EQ(table.Set(2, Of(1024)), AliasResult::kGranted);
  EXPECT_EQ(table.Set(2, Of(1024)), AliasResult::kGranted);  // its own
  EXPECT_EQ(table.size(), 2u);
}

TEST(AliasTable, KeepsTheAliasOfANewerClock) {
  AliasTable table(10, 7);
  EXPECT_EQ(table.Set(1, Of(1024, 0, 0, 5)), AliasResult::kGranted);
  EXPECT_EQ(table.Set(1, Of(1026, 0, 0, 4)), AliasResult::kUnknown);
  EXPECT_EQ(Find(table, 1024), 1u);
  EXPECT_EQ(Find(table, 1026), AliasTable::kNone);
  EXPECT_EQ(table.Set(1, Of(1026, 0, 0, 5)), AliasResult::kGranted);
  // A flow without an alias has no clock to hold against it.
  EXPECT_TRUE(table.Erase(1, Clock{5}));
  EXPECT_EQ(table.Set(1, Of(1024, 0, 0, 1)), AliasResult::kGranted);
}

TEST(AliasTable, GivesBackTheAliasBeforeOneThatIsWithdrawn) {
  AliasTable table(10, 7);
  table.Set(1, Of(1024, 0, 0, 2));
  table.Set(1, Of(1026, 0, 0, 4));
  table.Set(1, Of(1028, 0, 0, 6));
  EXPECT_FALSE(table.Withdraw(1, Clock{6}));
  EXPECT_EQ(Find(table, 1028), 1u);
  EXPECT_TRUE(table.Withdraw(1, Clock{5}));
  EXPECT_EQ(Find(table, 1026), 1u);
  EXPECT_EQ(table.clock(1), Clock{4});
  EXPECT_EQ(table.Set(2, Of(1028)), AliasResult::kGranted);
  // What was withdrawn does not come back.
  EXPECT_TRUE(table.Withdraw(1, Clock{3}));
  EXPECT_EQ(Find(table, 1024), 1u);
  EXPECT_TRUE(table.Withdraw(1, Clock{1}));
  EXPECT_EQ(table.clock(1), Clock{});
  EXPECT_EQ(table.size(), 1u);
}

TEST(AliasTable, GivesBackNoAliasThatIsGivenUpOrAnothers) {
  AliasTable table(10, 7);
  table.Set(1, Of(1024, 0, 0, 2));
  table.Set(1, Of(1026, 0, 0, 4));
  EXPECT_FALSE(table.Erase(1, Clock{3}));  // gives up that of clock 2
  EXPECT_TRUE(table.Withdraw(1, Clock{3}));
  EXPECT_EQ(table.clock(1), Clock{});
  table.Set(2, Of(1030, 0, 0, 2));
  table.Set(2, Of(1032, 0, 0, 4));
  table.Set(3, Of(1030));
  EXPECT_TRUE(table.Withdraw(2, Clock{3}));
  EXPECT_EQ(Find(table, 1030), 3u);
  EXPECT_EQ(table.clock(2), Clock{});
}

TEST(AliasTable, KeepsSoManyFormerAliases) {
  AliasTable table(10, 7);
  table.Set(1, Of(1, 0, 0, 1));
  table.Set(1, Of(2, 0, 0, 2));
  for (uint64_t i = 0; i < AliasTable::kMaxFormer; ++i) {
    table.Set(2, Of(static_cast<uint16_t>(10 + i), 0, 0, i + 1));
  }
  EXPECT_TRUE(table.Withdraw(1, Clock{1}));
  EXPECT_EQ(Find(table, 1), 1u);
  table.Set(1, Of(3, 0, 0, 3));
  table.Set(2, Of(9, 0, 0, 1'000));
  table.Set(2, Of(8, 0, 0, 1'001));
  EXPECT_TRUE(table.Withdraw(1, Clock{2}));
  EXPECT_EQ(Find(table, 1), 1u);
}

TEST(AliasTable, HoldsAGroupToItsLimit) {
  AliasTable table(10, 7);
  EXPECT_EQ(table.Set(1, Of(1, 5, 2)), AliasResult::kGranted);
  EXPECT_EQ(table.Set(2, Of(2, 5, 2)), AliasResult::kGranted);
  EXPECT_EQ(table.Set(3, Of(3, 5, 2)), AliasResult::kGroupFull);
  EXPECT_EQ(table.Set(4, Of(4, 6, 1)), AliasResult::kGranted);  // another's
  // A flow of the full group may change its alias, but a flow of another group
  // may not join.
  EXPECT_EQ(table.Set(2, Of(5, 5, 2)), AliasResult::kGranted);
  EXPECT_EQ(table.Set(4, Of(6, 5, 2)), AliasResult::kGroupFull);
  EXPECT_EQ(Find(table, 4), 4u);
  EXPECT_TRUE(table.Erase(1, Clock{1}));
  EXPECT_EQ(table.Set(4, Of(6, 5, 2)), AliasResult::kGranted);
  EXPECT_EQ(table.Set(3, Of(3, 5, 2)), AliasResult::kGroupFull);
  // Limit 0 means no limit.
  EXPECT_EQ(table.Set(3, Of(3, 5, 0)), AliasResult::kGranted);
  EXPECT_EQ(table.groups(), 1u);
}

TEST(AliasTable, ForgetsGroupsWithoutFlows) {
  AliasTable table(2, 7);
  for (uint64_t group = 0; group < 1'000; ++group) {
    const auto port = static_cast<uint16_t>(group);
    ASSERT_EQ(table.Set(0, Of(port, group, 1)), AliasResult::kGranted);
    ASSERT_EQ(table.groups(), 1u);
    ASSERT_EQ(table.Set(1, Of(9'999, ~group, 1)), AliasResult::kGranted);
    ASSERT_EQ(table.groups(), 2u);
    ASSERT_TRUE(table.Erase(1, Clock{1}));
  }
}

TEST(AliasTable, KeepsAnAliasThatIsNewerThanTheWord) {
  AliasTable table(10, 7);
  table.Set(1, Of(1024, 0, 0, 5));
  EXPECT_FALSE(table.Erase(1, Clock{4}));
  EXPECT_EQ(Find(table, 1024), 1u);
  EXPECT_FALSE(table.Erase(2, Clock{9}));
  EXPECT_TRUE(table.Erase(1, Clock{5}));
  EXPECT_FALSE(table.Erase(1, Clock{5}));
  EXPECT_EQ(Find(table, 1024), AliasTable::kNone);
}

}  // namespace
}  // namespace snf
