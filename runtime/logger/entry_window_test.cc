// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/entry_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace snf {
namespace {

std::vector<std::byte> Bytes(size_t size, int fill) {
  return std::vector<std::byte>(size, static_cast<std::byte>(fill));
}

TEST(EntryWindow, KeepsEntriesOfDifferentLengthsUntilTheyAreDropped) {
  EntryWindow window(4, 8);
  EXPECT_TRUE(window.empty());
  EXPECT_FALSE(window.Has(6));
  window.Put(6, Bytes(8, 1));
  window.Put(7, Bytes(3, 2));
  EXPECT_FALSE(window.empty());
  EXPECT_TRUE(std::ranges::equal(window.At(6), Bytes(8, 1)));
  EXPECT_TRUE(std::ranges::equal(window.At(7), Bytes(3, 2)));
  EXPECT_TRUE(window.At(5).empty());
  window.Drop(6);
  EXPECT_FALSE(window.Has(6));
  EXPECT_TRUE(window.Has(7));
  window.Drop(7);
  EXPECT_TRUE(window.empty());
}

TEST(EntryWindow, APlaceServesTheNextWindow) {
  EntryWindow window(4, 8);
  window.Put(6, Bytes(8, 1));
  window.Drop(6);
  window.Put(10, Bytes(2, 3));
  EXPECT_TRUE(std::ranges::equal(window.At(10), Bytes(2, 3)));
}

TEST(EntryWindow, ADropOfNoEntryCountsNothing) {
  EntryWindow window(4, 8);
  window.Put(6, Bytes(8, 1));
  window.Drop(5);
  EXPECT_FALSE(window.empty());
  window.Drop(6);
  window.Drop(6);
  EXPECT_TRUE(window.empty());
}

}  // namespace
}  // namespace snf
