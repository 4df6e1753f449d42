// SPDX-License-Identifier: Apache-2.0
#include "controller/core/flow_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>

namespace snf {
namespace {

FlowKey Key(uint32_t number) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  for (int i = 0; i < 4; ++i) {
    key.source.bytes[12 + i] = static_cast<std::byte>(number >> (8 * i));
  }
  return key;
}

using Ids = std::set<std::pair<uint32_t, uint32_t>>;

// Returns the slots and generations of flows, each of which ends before the
// next begins.
Ids IdsOf(FlowTable& table, uint32_t flows) {
  Ids ids;
  for (uint32_t i = 0; i < flows; ++i) {
    const uint32_t slot = table.Insert(Key(i), table.HashOf(Key(i)));
    EXPECT_NE(slot, FlowTable::kNone);
    ids.emplace(slot, table.numbers(slot).generation);
    table.Unlink(slot);
    table.Free(slot);
  }
  return ids;
}

// Each flow gets the slot freed last, so one slot has more flows than an epoch
// has generations.
TEST(FlowTable, GivesNoIdOfAnEpochBeforeIt) {
  constexpr uint32_t kFlows = FlowTable::kPerEpoch + 5'000;
  Ids before;
  for (const uint32_t epoch : {0u, 1u, 2u, 255u, 256u + 3u}) {
    FlowTable table(16, 0, 3);
    table.set_epoch(epoch, /*follow=*/true);
    Ids ids = IdsOf(table, kFlows);
    EXPECT_EQ(ids.size(), kFlows);
    for (const auto& id : ids) {
      ASSERT_FALSE(before.contains(id))
          << "epoch " << epoch << ", slot " << id.first << ", generation "
          << id.second;
    }
    before.merge(ids);
  }
}

TEST(FlowTable, HasRoomAlsoWhenAllSlotsAreWorn) {
  FlowTable table(2, 0, 3);
  table.set_epoch(1, /*follow=*/true);
  const Ids ids = IdsOf(table, 3 * FlowTable::kPerEpoch);
  EXPECT_EQ(ids.size(), 3 * FlowTable::kPerEpoch);
  EXPECT_EQ(table.size(), 0u);
}

TEST(FlowTable, UsesOneSlotForAllIfNoEpochFollows) {
  FlowTable table(16, 0, 3);
  table.set_epoch(0, /*follow=*/false);
  IdsOf(table, FlowTable::kPerEpoch + 10);
  EXPECT_EQ(table.used(), 1u);
}

}  // namespace
}  // namespace snf
