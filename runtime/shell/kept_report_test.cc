// SPDX-License-Identifier: Apache-2.0
#include "runtime/shell/kept_report.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

namespace snf {
namespace {

constexpr UnitId kUnit{0};

FlowId Flow(uint32_t slot) { return MakeFlowId(0, slot, 0); }

PieceBlock Word(uint64_t mask) {
  return {.word = 2, .pool = 1, .unit = kUnit, .mask = mask};
}

uint64_t LedgerOf(const KeptReport& kept) {
  uint64_t mask = 0;
  kept.ForEachWord(kUnit, [&](const PieceBlock& word) {
    EXPECT_EQ(word.pool, 1);
    EXPECT_EQ(word.word, 2u);
    mask ^= word.mask;
  });
  return mask;
}

std::vector<uint64_t> UnloggedOf(const KeptReport& kept) {
  std::vector<uint64_t> numbers;
  kept.ForEachGrant(
      [&](const GrantReport& grant) { numbers.push_back(grant.number); });
  return numbers;
}

// The example in the header.
TEST(KeptReport, LedgersTogetherSayWhichPiecesAreOut) {
  KeptReport granted;
  KeptReport returned;
  granted.on_grant(Word(~uint64_t{0}));
  granted.on_returned(Word(~uint64_t{1 << 5}));
  EXPECT_EQ(LedgerOf(granted), uint64_t{1 << 5});
  returned.on_returned(Word(1 << 5));
  EXPECT_EQ(LedgerOf(granted) ^ LedgerOf(returned), 0u);
}

TEST(KeptReport, ReportsGrantsUntilTheyAreLogged) {
  KeptReport kept;
  for (int i = 0; i < 3; ++i) kept.on_grant(Word(uint64_t{1} << i));
  kept.on_grants_logged(1);
  EXPECT_EQ(UnloggedOf(kept), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(kept.grants(), 3u);
}

TEST(KeptReport, GivesUnloggedGrantsBackWhenItsUnitFails) {
  KeptReport kept;
  for (int i = 0; i < 3; ++i) kept.on_grant(Word(uint64_t{1} << i));
  kept.on_grants_sealed(2);
  EXPECT_EQ(LedgerOf(kept), 0b11u);
  kept.BeginAnew([](FlowId) { return false; });
  EXPECT_EQ(LedgerOf(kept), 0b11u);
  EXPECT_EQ(kept.grants(), 0u);
  EXPECT_TRUE(UnloggedOf(kept).empty());
}

TEST(KeptReport, ForgetsNamesOfFlowsThatAreGoneButNotLateOnes) {
  KeptReport kept;
  const auto keeps = [](FlowId flow) { return slot_of(flow) == 7; };
  for (uint32_t slot = 0; slot < 1'000; ++slot) {
    kept.on_name({.flow = Flow(slot), .version = slot}, keeps);
    EXPECT_LE(kept.names(), 256u);
  }
  std::map<FlowId, uint64_t> versions;
  kept.ForEachName(
      [&](const FlowName& name) { versions[name.flow] = name.version; });
  EXPECT_EQ(versions.count(Flow(7)), 1u);
  EXPECT_EQ(versions.count(Flow(999)), 1u);
  EXPECT_EQ(versions.count(Flow(0)), 0u);
}

}  // namespace
}  // namespace snf
