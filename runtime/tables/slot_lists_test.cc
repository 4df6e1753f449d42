// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/slot_lists.h"

#include <gtest/gtest.h>

#include <vector>

namespace snf {
namespace {

// Removes all slots of the list, the oldest first.
std::vector<uint32_t> Drain(SlotLists& lists, SlotLists::List& list) {
  std::vector<uint32_t> slots;
  while (!list.empty()) {
    slots.push_back(list.front());
    lists.Remove(list, list.front());
  }
  return slots;
}

TEST(SlotLists, HasSlotsInTheOrderInWhichTheyCame) {
  SlotLists lists(10);
  SlotLists::List list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), SlotLists::kNone);
  for (const uint32_t slot : {4u, 0u, 9u}) lists.Append(list, slot);
  EXPECT_EQ(Drain(lists, list), (std::vector{4u, 0u, 9u}));
  lists.Append(list, 0);
  EXPECT_EQ(Drain(lists, list), std::vector{0u});
}

TEST(SlotLists, RemovesSlotsAtTheEndsAndBetween) {
  SlotLists lists(10);
  SlotLists::List list;
  for (uint32_t slot = 0; slot < 5; ++slot) lists.Append(list, slot);
  lists.Remove(list, 2);
  lists.Remove(list, 0);
  lists.Remove(list, 4);
  lists.Append(list, 2);
  EXPECT_EQ(Drain(lists, list), (std::vector{1u, 3u, 2u}));
}

TEST(SlotLists, KeepsListsApart) {
  SlotLists lists(10);
  SlotLists::List gone;
  SlotLists::List updated;
  lists.Append(gone, 1);
  lists.Append(updated, 2);
  lists.Append(gone, 3);
  lists.Append(updated, 4);
  lists.Remove(gone, 1);
  lists.Append(updated, 1);
  EXPECT_EQ(Drain(lists, gone), std::vector{3u});
  EXPECT_EQ(Drain(lists, updated), (std::vector{2u, 4u, 1u}));
}

}  // namespace
}  // namespace snf
