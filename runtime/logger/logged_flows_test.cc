// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/logged_flows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace snf {
namespace {

constexpr uint32_t kNone = LoggedFlows::kNone;

TEST(LoggedFlows, FindsAFlowUntilItIsForgotten) {
  LoggedFlows flows(2, 16);
  EXPECT_EQ(flows.Find(FlowId{7}), kNone);
  const uint32_t slot = flows.Add(FlowId{7});
  EXPECT_EQ(flows.Find(FlowId{7}), slot);
  EXPECT_EQ(flows[slot].flow, FlowId{7});
  EXPECT_EQ(flows[slot].applied, Clock{});
  EXPECT_EQ(flows[slot].timer, Instant::max());
  EXPECT_TRUE(flows[slot].in_use);
  EXPECT_EQ(flows.size(), 1u);
  flows.Forget(slot);
  EXPECT_EQ(flows.Find(FlowId{7}), kNone);
  EXPECT_FALSE(flows[slot].in_use);
  EXPECT_EQ(flows.size(), 0u);
}

TEST(LoggedFlows, HasNoRoomForMoreFlowsThanSlots) {
  LoggedFlows flows(2, 16);
  const uint32_t first = flows.Add(FlowId{7});
  EXPECT_NE(flows.Add(FlowId{9}), kNone);
  EXPECT_EQ(flows.Add(FlowId{11}), kNone);
  flows.Forget(first);
  EXPECT_EQ(flows.Add(FlowId{11}), first);
  EXPECT_EQ(flows.slots(), 2u);
}

TEST(LoggedFlows, UsesForgottenSlotsAgainBeforeNewOnes) {
  LoggedFlows flows(4, 16);
  const uint32_t first = flows.Add(FlowId{1});
  const uint32_t second = flows.Add(FlowId{2});
  flows.Forget(first);
  flows.Forget(second);
  EXPECT_EQ(flows.Add(FlowId{3}), second);
  EXPECT_EQ(flows.Add(FlowId{4}), first);
  EXPECT_EQ(flows.slots(), 2u);
  EXPECT_EQ(flows.Find(FlowId{3}), second);
}

TEST(LoggedFlows, KeepsTheStateOfEachFlowApart) {
  LoggedFlows flows(2, 16);
  const uint32_t first = flows.Add(FlowId{1});
  const uint32_t second = flows.Add(FlowId{2});
  EXPECT_EQ(flows.state(first).size(), 16u);
  std::ranges::fill(flows.state(first), std::byte{1});
  std::ranges::fill(flows.state(second), std::byte{2});
  const auto is = [&](uint32_t slot, std::byte byte) {
    return std::ranges::all_of(flows.state(slot),
                               [&](std::byte b) { return b == byte; });
  };
  EXPECT_TRUE(is(first, std::byte{1}));
  EXPECT_TRUE(is(second, std::byte{2}));
}

}  // namespace
}  // namespace snf
