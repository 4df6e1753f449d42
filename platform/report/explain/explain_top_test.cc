// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/explain_top.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "platform/report/explain/test_explain.h"

namespace snf {
namespace {

TEST(TopFlowFinder, FindsTheFlowWithTheMostBytesInAnyOrder) {
  std::vector<std::pair<uint16_t, uint32_t>> packets;
  for (uint16_t flow = 1; flow <= 200; ++flow) {
    packets.emplace_back(flow, 100);
    packets.emplace_back(flow, flow == 77 ? 51 : 50);
  }
  Rng rng(3);
  for (int round = 0; round < 20; ++round) {
    for (size_t i = packets.size(); i > 1; --i) {
      std::swap(packets[i - 1], packets[rng.Below(static_cast<uint32_t>(i))]);
    }
    TopFlowFinder finder;
    for (const auto& [flow, bytes] : packets) finder.Add(KeyOf(flow), bytes);
    EXPECT_THAT(finder.Top(2), ::testing::ElementsAre(KeyOf(77), KeyOf(1)));
    EXPECT_EQ(finder.flows(), 200u);
  }
}

TEST(TopFlowFinder, TakesTheLowestKeyOfEquals) {
  for (const bool is_upwards : {true, false}) {
    TopFlowFinder finder;
    for (uint16_t i = 1; i <= 9; ++i) {
      finder.Add(KeyOf(is_upwards ? i : static_cast<uint16_t>(10 - i)), 100);
    }
    EXPECT_THAT(finder.Top(3),
                ::testing::ElementsAre(KeyOf(1), KeyOf(2), KeyOf(3)));
  }
}

TEST(TopFlowFinder, FindsNothingInNothing) {
  EXPECT_TRUE(TopFlowFinder().Top(1).empty());
}

}  // namespace
}  // namespace snf
