// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/dispatch_table.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

FlowKey RandomKey(Rng& rng) {
  FlowKey key;
  auto* const bytes = reinterpret_cast<std::byte*>(&key);
  for (size_t i = 0; i < 36; ++i) bytes[i] = std::byte(rng.Below(256));
  key.form = FlowKeyForm::kIpv6;
  Canonicalize(key);
  return key;
}

FlowKey Opposite(const FlowKey& key) {
  FlowKey back = Reversed(key);
  Canonicalize(back);
  return back;
}

TEST(DispatchTable, MovesOnlyTheFlowsOfTheControllerThatLeavesOrJoins) {
  Rng rng(7);
  std::vector<FlowKey> keys;
  for (int i = 0; i < 2'000; ++i) keys.push_back(RandomKey(rng));
  DispatchTable table;
  for (uint8_t c = 0; c < 8; ++c) ASSERT_TRUE(table.Join(ControllerId{c}));
  const auto all = [&] {
    std::vector<std::optional<ControllerId>> owners;
    for (const auto& key : keys) {
      owners.push_back(table.Steer(key.destination, 9, key));
      EXPECT_EQ(owners.back(), table.Steer(key.source, 9, Opposite(key)));
    }
    return owners;
  };
  const auto before = all();
  ASSERT_TRUE(table.Leave(ControllerId{3}));
  const auto after = all();
  int moved = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (before[i] == ControllerId{3}) {
      ++moved;
      EXPECT_NE(after[i], before[i]);
    } else {
      EXPECT_EQ(after[i], before[i]);
    }
  }
  // A fair share is 250; 170 and 330 lie more than five deviations away.
  EXPECT_GT(moved, 170);
  EXPECT_LT(moved, 330);
  ASSERT_TRUE(table.Join(ControllerId{3}));
  EXPECT_EQ(all(), before);
  EXPECT_EQ(table.epoch(), 10u);
}

TEST(DispatchTable, SteersABlockToItsOwnerWhileThatLives) {
  Rng rng(8);
  DispatchTable table;
  const FlowKey key = RandomKey(rng);
  const FlowKey other = RandomKey(rng);
  EXPECT_EQ(table.Steer(key.source, 1, key), std::nullopt);
  ASSERT_TRUE(table.Join(ControllerId{1}));
  ASSERT_TRUE(table.Join(ControllerId{2}));
  const auto by_flow = table.Steer(key.source, 1'500, key);
  const ControllerId owner{by_flow == ControllerId{1} ? uint8_t{2}
                                                      : uint8_t{1}};
  ASSERT_TRUE(table.Give({key.source, 1'024, 2'047}, owner));
  EXPECT_EQ(table.Steer(key.source, 1'024, key), owner);
  EXPECT_EQ(table.Steer(key.source, 2'047, key), owner);
  EXPECT_EQ(table.Steer(key.source, 1'023, key), by_flow);
  EXPECT_EQ(table.Steer(key.source, 2'048, key), by_flow);
  EXPECT_EQ(table.Steer(other.source, 1'500, key), by_flow);
  ASSERT_TRUE(table.Leave(owner));
  EXPECT_EQ(table.Steer(key.source, 1'024, key), by_flow);
}

TEST(DispatchTable, RefusesWhatIsWrongAndKeepsItsEpoch) {
  DispatchTable table;
  const IpAddress address{};
  ASSERT_TRUE(table.Join(ControllerId{1}));
  ASSERT_TRUE(table.Give({address, 100, 199}, ControllerId{1}));
  EXPECT_FALSE(table.Join(ControllerId{1}));
  EXPECT_FALSE(table.Leave(ControllerId{2}));
  EXPECT_FALSE(table.Give({address, 300, 399}, ControllerId{2}));
  EXPECT_FALSE(table.Give({address, 399, 300}, ControllerId{1}));
  EXPECT_FALSE(table.Give({address, 199, 250}, ControllerId{1}));
  EXPECT_FALSE(table.Give({address, 50, 100}, ControllerId{1}));
  EXPECT_EQ(table.refused(), 6u);
  EXPECT_EQ(table.epoch(), 2u);
  EXPECT_TRUE(table.Give({address, 200, 299}, ControllerId{1}));
}

}  // namespace
}  // namespace snf
