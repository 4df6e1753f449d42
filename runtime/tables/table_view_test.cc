// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/table_view.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace snf {
namespace {

constexpr uint64_t kKey = 7;

class TableViewTest : public testing::Test {
 protected:
  static TableShape Shape() {
    return {.name = "t", .key_bytes = 8, .value_bytes = 8, .max_entries = 4};
  }
  void Add(uint64_t number, uint64_t delta, bool erases = false) {
    view_.Add(number, &kKey, erases, &delta);
  }
  void Tell(uint64_t version, uint64_t total, uint64_t number) {
    view_.totals().on_told(&kKey, version, &total, false);
    view_.on_told(&kKey, number);
  }
  uint64_t Read() const {
    uint64_t value = 0;
    return view_.Read(&kKey, &value) ? value : 0;
  }

  TableView view_{Shape()};
};

TEST_F(TableViewTest, ReadsEachOwnUpdateOnce) {
  Tell(1, 10, 3);
  Add(4, 1);
  Add(5, 1);
  EXPECT_EQ(Read(), 12u);
  Tell(2, 17, 4);
  EXPECT_EQ(Read(), 18u);
  Tell(3, 18, 5);
  EXPECT_EQ(Read(), 18u);
  EXPECT_EQ(view_.kept(), 0u);
}

TEST_F(TableViewTest, ReadsOwnErasuresInTheirOrder) {
  Tell(1, 10, 0);
  Add(1, 2);
  Add(2, 5, /*erases=*/true);
  Add(3, 1);
  EXPECT_EQ(Read(), 6u);
  Tell(2, 12, 1);  // merged before the erasure
  EXPECT_EQ(Read(), 6u);
  Tell(3, 9, 2);  // after it; 4 are another unit's
  EXPECT_EQ(Read(), 10u);
}

TEST_F(TableViewTest, ForgetsAKeyThatWentIntoTheRestAtTheEndOfASweep) {
  Add(1, 2);
  const uint64_t one = 1;
  view_.Add(2, nullptr, false, &one);
  uint64_t rest = 0;
  view_.ReadRest(&rest);
  EXPECT_EQ(rest, 1u);
  EXPECT_EQ(view_.size(), 1u);
  const uint64_t told = 3;
  view_.totals().on_told(nullptr, 1, &told, false);
  view_.on_told(nullptr, 2);
  EXPECT_EQ(Read(), 2u);
  view_.EndSweep(2);
  EXPECT_EQ(Read(), 0u);
  view_.ReadRest(&rest);
  EXPECT_EQ(rest, 3u);
  EXPECT_EQ(view_.size(), 0u);
}

TEST_F(TableViewTest, KeepsAKeyWhoseTotalIsStillToCome) {
  Add(3, 2);
  view_.EndSweep(2);
  EXPECT_EQ(Read(), 2u);
}

TEST_F(TableViewTest, NamesEachKeyOnce) {
  Tell(1, 10, 0);
  Add(1, 2);
  const uint64_t other = 8;
  const uint64_t one = 1;
  view_.Add(2, &other, false, &one);
  std::vector<uint64_t> keys;
  view_.AppendKeys(keys);
  EXPECT_EQ(keys, (std::vector<uint64_t>{7, 8}));
  EXPECT_EQ(view_.size(), 2u);
}

TEST_F(TableViewTest, SeesUpdatesBeyondTheLimitOnceTheyAreTold) {
  for (uint64_t i = 1; i <= TableView::kMaxOwn + 5; ++i) Add(i, 1);
  EXPECT_EQ(Read(), TableView::kMaxOwn);
  Tell(1, TableView::kMaxOwn + 5, TableView::kMaxOwn + 5);
  EXPECT_EQ(Read(), TableView::kMaxOwn + 5);
  EXPECT_EQ(view_.kept(), 0u);
}

// A copy that logs has the updates of the present call on top.
TEST_F(TableViewTest, AddsUpdatesOfThePresentCall) {
  TableCopy copy(Shape());
  copy.BeginLogging();
  copy.SetView(view_);
  Tell(1, 10, 0);
  Add(1, 2);
  const uint64_t delta = 4;
  copy.Update<1, 1>(&kKey, &delta);
  uint64_t value = 0;
  EXPECT_TRUE(copy.Read(&kKey, &value));
  EXPECT_EQ(value, 16u);
  EXPECT_EQ(copy.size(), 1u);
  copy.Erase(&kKey);
  EXPECT_TRUE(copy.Read(&kKey, &value));
  EXPECT_EQ(value, 0u);
  uint64_t rest = 0;
  copy.ReadRest(&rest);
  EXPECT_EQ(rest, 4u);
}

}  // namespace
}  // namespace snf
