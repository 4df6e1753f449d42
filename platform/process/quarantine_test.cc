// SPDX-License-Identifier: Apache-2.0
#include "platform/process/quarantine.h"

#include "gtest/gtest.h"

namespace snf {
namespace {

FlowKey KeyOf(uint16_t port) {
  FlowKey key;
  key.source_port = be16(port);
  key.form = FlowKeyForm::kIpv4;
  return key;
}

constexpr Instant kNow{1'000'000};

TEST(Quarantine, DropsAPacketOnWhichAnNfCrashedAtOnce) {
  Quarantine quarantine;
  const auto verdict = quarantine.on_end(kNow, KeyOf(1), Clock{7}, false);
  EXPECT_TRUE(verdict.drops_packet);
  EXPECT_FALSE(verdict.blocks_flow);
  EXPECT_FALSE(quarantine.has_blocked());
}

TEST(Quarantine, DropsAPacketOnceTwoProcessesInARowWereKilledDuringIt) {
  Quarantine quarantine;
  EXPECT_FALSE(quarantine.on_end(kNow, KeyOf(1), Clock{7}, true).drops_packet);
  EXPECT_FALSE(quarantine.on_end(kNow, KeyOf(1), Clock{8}, true).drops_packet);
  EXPECT_FALSE(quarantine.on_end(kNow, KeyOf(2), Clock{8}, true).drops_packet);
  EXPECT_TRUE(quarantine.on_end(kNow, KeyOf(1), Clock{8}, true).drops_packet);
}

TEST(Quarantine, BlocksAFlowAfterSomeFailuresUntilItIsSilent) {
  Quarantine quarantine;
  for (uint32_t i = 1; i < Quarantine::kMostFailures; ++i) {
    EXPECT_FALSE(
        quarantine.on_end(kNow, KeyOf(1), Clock{i}, false).blocks_flow);
    EXPECT_FALSE(quarantine.IsBlocked(kNow, KeyOf(1)));
  }
  EXPECT_TRUE(quarantine.on_end(kNow, KeyOf(1), Clock{9}, false).blocks_flow);
  EXPECT_TRUE(quarantine.has_blocked());
  EXPECT_FALSE(quarantine.IsBlocked(kNow, KeyOf(2)));
  Instant now = kNow;
  for (int i = 0; i < 3; ++i) {
    now = now + Quarantine::kForget;
    EXPECT_TRUE(quarantine.IsBlocked(now, KeyOf(1))) << i;
  }
  now = now + Quarantine::kForget + Nanos{1};
  EXPECT_FALSE(quarantine.IsBlocked(now, KeyOf(1)));
  EXPECT_FALSE(quarantine.has_blocked());
}

TEST(Quarantine, ForgetsTheFirstOfTooManyFlows) {
  Quarantine quarantine;
  for (uint32_t i = 0; i < Quarantine::kMostFailures; ++i) {
    quarantine.on_end(kNow, KeyOf(0), Clock{i}, false);
  }
  for (size_t i = 1; i < Quarantine::kMostFlows; ++i) {
    quarantine.on_end(kNow + Nanos{static_cast<int64_t>(i)},
                      KeyOf(static_cast<uint16_t>(i)), Clock{1}, false);
  }
  EXPECT_TRUE(quarantine.has_blocked());
  quarantine.on_end(kNow + Seconds(1), KeyOf(60'000), Clock{1}, false);
  EXPECT_FALSE(quarantine.has_blocked());
  EXPECT_FALSE(quarantine.IsBlocked(kNow, KeyOf(0)));
}

}  // namespace
}  // namespace snf
