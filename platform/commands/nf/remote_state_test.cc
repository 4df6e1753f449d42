// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/remote_state.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

namespace snf {
namespace {

using Tables = std::vector<std::unique_ptr<TableCopy>>;

Tables MakeTables(uint32_t max_entries) {
  Tables tables;
  tables.push_back(
      std::make_unique<TableCopy>(TableShape{.name = "hosts",
                                             .key_bytes = 8,
                                             .value_bytes = 16,
                                             .max_entries = max_entries}));
  return tables;
}

void Update(TableCopy& table, uint64_t key, uint64_t packets, uint64_t bytes) {
  const std::array<uint64_t, 2> delta = {packets, bytes};
  table.Update<1, 2>(&key, delta.data());
}

std::array<uint64_t, 2> Read(const TableCopy& table, uint64_t key) {
  std::array<uint64_t, 2> value{};
  table.Read(&key, value.data());
  return value;
}

class RemoteStateTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v redis-server >/dev/null") != 0) {
      GTEST_SKIP() << "needs redis-server";
    }
    auto started = RemoteState::Start(true);
    ASSERT_TRUE(started.ok()) << started.status();
    state_ = *std::move(started);
  }
  std::unique_ptr<RemoteState> state_;
};

TEST_F(RemoteStateTest, KeepsRecordsAndLeavesNothingBehind) {
  constexpr FlowId kA = MakeFlowId(0, 1, 0);
  constexpr FlowId kB = MakeFlowId(0, 1, 1);  // another of the same slot
  std::vector<std::byte> a(5, std::byte{7});
  std::vector<std::byte> b(5, std::byte{9});
  const std::array<RemoteState::Record, 2> records = {
      RemoteState::Record{kA, a}, RemoteState::Record{kB, b}};
  ASSERT_TRUE(state_->Save(records).ok());
  EXPECT_EQ(a, std::vector<std::byte>(5));
  EXPECT_EQ(b, std::vector<std::byte>(5));
  ASSERT_TRUE(state_->Load(records).ok());
  EXPECT_EQ(a, std::vector(5, std::byte{7}));
  EXPECT_EQ(b, std::vector(5, std::byte{9}));
  EXPECT_EQ(state_->requests(), 2u);
  ASSERT_TRUE(state_->Forget(kA).ok());
  ASSERT_TRUE(state_->Load(records).ok());
  EXPECT_EQ(a, std::vector<std::byte>(5));
  EXPECT_EQ(b, std::vector(5, std::byte{9}));
}

TEST_F(RemoteStateTest, MergesWhatTwoInstancesUpdate) {
  const Tables one = MakeTables(100);
  const Tables other = MakeTables(100);
  Update(*one[0], 1, 5, 500);
  Update(*one[0], 2, 1, 60);
  ASSERT_TRUE(state_->Merge(one).ok());
  EXPECT_FALSE(one[0]->dirty());
  Update(*other[0], 1, 3, 300);
  ASSERT_TRUE(state_->Merge(other).ok());
  EXPECT_EQ(Read(*other[0], 1), (std::array<uint64_t, 2>{8, 800}));
  EXPECT_EQ(Read(*other[0], 2), (std::array<uint64_t, 2>{0, 0}));
  Update(*one[0], 1, 1, 100);
  ASSERT_TRUE(state_->Merge(one).ok());
  EXPECT_EQ(Read(*one[0], 1), (std::array<uint64_t, 2>{9, 900}));
  EXPECT_EQ(Read(*one[0], 2), (std::array<uint64_t, 2>{1, 60}));
}

// More than go together in one request, and more than the table has room for.
TEST_F(RemoteStateTest, MergesManyUpdatesAndTheRest) {
  constexpr uint32_t kRoom = 150;
  const Tables tables = MakeTables(kRoom);
  for (uint64_t key = 1; key <= 2 * kRoom; ++key) Update(*tables[0], key, 1, 2);
  ASSERT_TRUE(state_->Merge(tables).ok());
  std::array<uint64_t, 2> sum{};
  tables[0]->ReadRest(sum.data());
  EXPECT_GT(sum[0], 0u);
  tables[0]->ForEach([&](const uint64_t*, const uint64_t* value) {
    sum[0] += value[0];
    sum[1] += value[1];
  });
  EXPECT_EQ(sum, (std::array<uint64_t, 2>{2 * kRoom, 4 * kRoom}));
}

}  // namespace
}  // namespace snf
