// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_channel.h"

#include "gtest/gtest.h"

namespace snf {
namespace {

TEST(UnitChannel, CountsPacketsUntilTheyDrain) {
  UnitChannel channel{};
  EXPECT_TRUE(channel.is_empty());
  for (uint64_t number = 1; number <= 3; ++number) {
    EXPECT_EQ(channel.Take(100), number);
  }
  EXPECT_TRUE(channel.HasSlot(4));
  EXPECT_FALSE(channel.HasSlot(3));
  EXPECT_EQ(channel.queued_bytes(), 300u);
  EXPECT_TRUE(channel.Drain(2, 200));
  EXPECT_TRUE(channel.HasSlot(2));
  EXPECT_EQ(channel.queued_bytes(), 100u);
  EXPECT_EQ(channel.number(), 3u);
  EXPECT_TRUE(channel.Drain(1, 100));
  EXPECT_TRUE(channel.is_empty());
}

TEST(UnitChannel, RefusesToDrainMoreThanIsQueued) {
  UnitChannel channel{};
  channel.Take(100);
  EXPECT_FALSE(channel.Drain(2, 100));
  EXPECT_FALSE(channel.Drain(1, 101));
  EXPECT_EQ(channel.queued_bytes(), 100u);
  channel.Shut();
  EXPECT_FALSE(channel.Drain(2, 100)) << "the mark counts as slots";
  EXPECT_TRUE(channel.Drain(1, 100));
}

TEST(UnitChannel, TakesNothingMoreOnceItIsShutButDrains) {
  UnitChannel channel{};
  channel.Take(100);
  channel.Shut();
  EXPECT_TRUE(channel.is_shut());
  EXPECT_FALSE(channel.HasSlot(UnitChannel::kMaxSlots - 1));
  EXPECT_TRUE(channel.has_packets());
  EXPECT_TRUE(channel.Drain(1, 100));
  EXPECT_FALSE(channel.has_packets());
  EXPECT_FALSE(channel.is_empty());
  channel.Open();
  EXPECT_TRUE(channel.is_empty());
  EXPECT_EQ(channel.Take(100), 2u) << "numbers continue";
}

TEST(UnitChannel, LosesItsPacketsWithTheUnit) {
  UnitChannel channel{};
  channel.Take(100);
  channel.Break();
  EXPECT_FALSE(channel.HasSlot(UnitChannel::kMaxSlots - 1));
  EXPECT_FALSE(channel.Drain(1, 0));
  EXPECT_FALSE(channel.is_shut());
  EXPECT_EQ(channel.queued_bytes(), 0u);
  channel.Mend();
  EXPECT_TRUE(channel.is_empty());
  EXPECT_EQ(channel.Take(100), 2u);
}

TEST(UnitChannel, RemembersItsLastUse) {
  UnitChannel channel{};
  channel.Use(Instant{700});
  channel.Use(Instant{500});
  EXPECT_EQ(channel.last_packet(), Instant{700});
}

TEST(UnitChannel, GoesOnForAnEarlierController) {
  UnitChannel channel{};
  channel.NumberFrom(1'000);
  channel.Restore(2, 250);
  EXPECT_TRUE(channel.HasSlot(3));
  EXPECT_FALSE(channel.HasSlot(2));
  EXPECT_EQ(channel.Take(50), 1'001u);
  EXPECT_TRUE(channel.Drain(3, 300));
}

}  // namespace
}  // namespace snf
