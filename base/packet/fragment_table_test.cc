// SPDX-License-Identifier: Apache-2.0
#include "base/packet/fragment_table.h"

#include <map>
#include <vector>

#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

Instant At(int64_t seconds) { return Instant{} + Seconds(seconds); }

FlowKey Fragmented(uint32_t id) {
  FlowKey key;
  key.source = V4(10, 0, 0, 1);
  key.destination = V4(192, 0, 2, 9);
  key.source_port = be16(static_cast<uint16_t>(id >> 16));
  key.destination_port = be16(static_cast<uint16_t>(id));
  key.protocol = IpProtocol::kUdp;
  key.form = FlowKeyForm::kIpv4Fragment;
  return key;
}

FragmentTable::Flow FlowTo(uint16_t port) {
  FragmentTable::Flow flow;
  flow.key.destination_port = be16(port);
  return flow;
}

TEST(FragmentTable, FindsWhatWasInserted) {
  FragmentTable table({});
  EXPECT_EQ(table.Find(At(0), Fragmented(7)), nullptr);
  table.Insert(At(0), Fragmented(7), FlowTo(53));
  ASSERT_NE(table.Find(At(29), Fragmented(7)), nullptr);
  EXPECT_EQ(table.Find(At(29), Fragmented(7))->key, FlowTo(53).key);
  EXPECT_EQ(table.Find(At(0), Fragmented(8)), nullptr);
}

TEST(FragmentTable, ForgetsAfterTheTimeout) {
  FragmentTable table({.timeout = Seconds(30)});
  table.Insert(At(0), Fragmented(7), FlowTo(53));
  EXPECT_NE(table.Find(At(30), Fragmented(7)), nullptr);
  EXPECT_EQ(table.Find(At(30) + Nanos{1}, Fragmented(7)), nullptr);
  table.Insert(At(31), Fragmented(8), FlowTo(54));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.evicted(), 0u);
}

TEST(FragmentTable, TakesTheNewFlowOfAnIdThatComesAgain) {
  FragmentTable table({});
  table.Insert(At(0), Fragmented(7), FlowTo(53));
  table.Insert(At(20), Fragmented(7), FlowTo(54));
  EXPECT_EQ(table.size(), 1u);
  ASSERT_NE(table.Find(At(45), Fragmented(7)), nullptr);
  EXPECT_EQ(table.Find(At(45), Fragmented(7))->key, FlowTo(54).key);
}

TEST(FragmentTable, EvictsTheOldestWhenFullAndCountsIt) {
  FragmentTable table({.capacity = 3});
  for (uint32_t id = 0; id < 5; ++id) {
    table.Insert(At(0), Fragmented(id), FlowTo(53));
  }
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.evicted(), 2u);
  EXPECT_EQ(table.Find(At(0), Fragmented(1)), nullptr);
  EXPECT_NE(table.Find(At(0), Fragmented(2)), nullptr);
}

TEST(FragmentTable, WorksWithASingleEntry) {
  FragmentTable table({.capacity = 1});
  for (uint32_t id = 0; id < 10; ++id) {
    table.Insert(At(0), Fragmented(id), FlowTo(53));
    EXPECT_NE(table.Find(At(0), Fragmented(id)), nullptr);
  }
  EXPECT_EQ(table.evicted(), 9u);
}

TEST(FragmentTable, SurvivesTimesThatGoBackAndOverflow) {
  FragmentTable table({});
  table.Insert(Instant::max(), Fragmented(1), FlowTo(53));
  EXPECT_NE(table.Find(Instant::min(), Fragmented(1)), nullptr);
  table.Insert(Instant::min(), Fragmented(2), FlowTo(53));
  EXPECT_EQ(table.Find(Instant::max(), Fragmented(2)), nullptr);
}

TEST(FragmentTable, IsAValue) {
  FragmentTable table({.capacity = 2});
  table.Insert(At(0), Fragmented(1), FlowTo(53));
  FragmentTable copy = table;
  copy.Insert(At(0), Fragmented(2), FlowTo(53));
  copy.Insert(At(0), Fragmented(3), FlowTo(53));
  EXPECT_NE(table.Find(At(0), Fragmented(1)), nullptr);
  EXPECT_EQ(copy.Find(At(0), Fragmented(1)), nullptr);
}

// Compares the table with a map and a list of the order of arrival; no time
// passes.
TEST(FragmentTable, AgreesWithAMapOverRandomUse) {
  Rng rng(11);
  constexpr uint32_t kCapacity = 64;
  FragmentTable table({.capacity = kCapacity});
  std::map<uint32_t, uint16_t> known;
  std::vector<uint32_t> order;
  int found = 0;
  for (int round = 0; round < 100'000; ++round) {
    const auto id = static_cast<uint32_t>(rng.Below(200));
    if (rng.Chance(32'768)) {
      const auto port = static_cast<uint16_t>(rng.Next());
      table.Insert(At(0), Fragmented(id), FlowTo(port));
      if (!known.contains(id)) {
        order.push_back(id);
        if (order.size() > kCapacity) {
          known.erase(order.front());
          order.erase(order.begin());
        }
      }
      known[id] = port;
    } else {
      const FragmentTable::Flow* flow = table.Find(At(1), Fragmented(id));
      ASSERT_EQ(flow != nullptr, known.contains(id));
      if (flow == nullptr) continue;
      ++found;
      ASSERT_EQ(flow->key, FlowTo(known[id]).key);
    }
  }
  EXPECT_GT(found, 10'000);
}

}  // namespace
}  // namespace snf
