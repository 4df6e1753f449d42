// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/packet_feed.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

CapturedPacket Packet(int64_t time, const std::vector<std::byte>& bytes) {
  CapturedPacket packet;
  packet.time = Instant{time};
  packet.bytes = bytes;
  packet.original_bytes = static_cast<uint32_t>(bytes.size()) + 4;
  packet.side = Side::kOutside;
  packet.number = static_cast<uint64_t>(time);
  return packet;
}

TEST(PacketFeed, BringsPacketsOnceTheyAreFlushed) {
  const auto feed = std::make_unique<PacketFeed>();
  const std::vector<std::byte> bytes(60, std::byte{7});
  ASSERT_TRUE(feed->Push(Packet(1, bytes)));
  ASSERT_TRUE(feed->Push(Packet(2, bytes)));
  const auto none = [](const CapturedPacket&) { ADD_FAILURE(); };
  EXPECT_EQ(feed->Take(8, none), 0u);
  feed->Flush();
  std::vector<int64_t> times;
  const auto take = [&](const CapturedPacket& packet) {
    times.push_back(packet.time.ns);
    EXPECT_TRUE(std::ranges::equal(packet.bytes, bytes));
    EXPECT_EQ(packet.original_bytes, 64u);
    EXPECT_EQ(packet.side, Side::kOutside);
  };
  EXPECT_EQ(feed->Take(1, take), 1u);
  EXPECT_EQ(feed->Take(8, take), 1u);
  EXPECT_EQ(times, (std::vector<int64_t>{1, 2}));
}

TEST(PacketFeed, FlushesABurstItself) {
  const auto feed = std::make_unique<PacketFeed>();
  for (uint32_t i = 0; i < PacketFeed::kBurst; ++i) {
    ASSERT_TRUE(feed->Push(Packet(i, {})));
  }
  EXPECT_EQ(feed->Take(100, [](const CapturedPacket&) {}), PacketFeed::kBurst);
}

TEST(PacketFeed, RefusesWhatItHasNoRoomFor) {
  const auto feed = std::make_unique<PacketFeed>();
  uint64_t pushed = 0;
  while (feed->Push(Packet(1, {}))) ++pushed;
  EXPECT_EQ(pushed, PacketFeed::kMostPackets);
  EXPECT_EQ(feed->pushed(), pushed);
  feed->Flush();
  EXPECT_EQ(feed->Take(1, [](const CapturedPacket&) {}), 1u);
  EXPECT_TRUE(feed->Push(Packet(1, {})));
  EXPECT_FALSE(feed->Push(Packet(1, {})));
}

TEST(PacketFeed, HasRoomForTheLongestWhereverItBegins) {
  const auto feed = std::make_unique<PacketFeed>();
  const std::vector<std::byte> small(1'000);
  const std::vector<std::byte> longest(PacketFeed::kMostBytes + 5);
  for (uint32_t i = 0; i < 3'000; ++i) {
    const bool is_longest = i % 7 == 0;
    ASSERT_TRUE(feed->Push(Packet(1, is_longest ? longest : small))) << i;
    feed->Flush();
    const uint32_t taken = feed->Take(1, [&](const CapturedPacket& packet) {
      EXPECT_EQ(packet.bytes.size(),
                is_longest ? PacketFeed::kMostBytes : small.size());
    });
    ASSERT_EQ(taken, 1u);
  }
}

TEST(PacketFeed, IsSettledWhenAllThatWasPushedIs) {
  const auto feed = std::make_unique<PacketFeed>();
  EXPECT_TRUE(feed->WaitUntilSettled(Nanos{}));
  ASSERT_TRUE(feed->Push(Packet(1, {})));
  EXPECT_FALSE(feed->WaitUntilSettled(Nanos{}));
  EXPECT_EQ(feed->Take(8, [](const CapturedPacket&) {}), 1u);
  EXPECT_FALSE(feed->WaitUntilSettled(Nanos{}));
  feed->Settle();
  EXPECT_TRUE(feed->WaitUntilSettled(Nanos{}));
}

TEST(PacketFeed, IsOverOnceItIsClosedAndEmpty) {
  const auto feed = std::make_unique<PacketFeed>();
  ASSERT_TRUE(feed->Push(Packet(1, {})));
  feed->Close();
  EXPECT_FALSE(feed->is_over());
  EXPECT_EQ(feed->Take(8, [](const CapturedPacket&) {}), 1u);
  EXPECT_TRUE(feed->is_over());
}

// Sizes of all kinds, while either side sleeps now and then.
TEST(PacketFeed, LosesNothingBetweenTwoThreads) {
  constexpr uint64_t kSeed = 4;
  constexpr uint64_t kPackets = 30'000;
  const auto feed = std::make_unique<PacketFeed>();
  std::thread consumer([&] {
    uint64_t next = 0;
    Rng rng(kSeed + 1);
    while (!feed->is_over()) {
      const auto most = static_cast<uint32_t>(rng.Uniform(1, 64));
      const uint32_t taken =
          feed->Take(most, [&](const CapturedPacket& packet) {
            ASSERT_EQ(packet.number, next);
            const auto expected = static_cast<std::byte>(next);
            ASSERT_TRUE(std::ranges::all_of(
                packet.bytes, [=](std::byte b) { return b == expected; }));
            ++next;
          });
      if (taken == 0) feed->Wait(Milliseconds(1));
    }
    EXPECT_EQ(next, kPackets);
  });
  Rng rng(kSeed);
  uint64_t waits = 0;
  for (uint64_t i = 0; i < kPackets; ++i) {
    const int64_t most = rng.Chance(500) ? 200'000 : 2'000;
    const std::vector<std::byte> bytes(
        static_cast<size_t>(rng.Uniform(0, most)), static_cast<std::byte>(i));
    while (!feed->Push(Packet(static_cast<int64_t>(i), bytes))) {
      ++waits;
      feed->WaitForRoom(Milliseconds(1));
    }
    if (rng.Chance(1'000)) feed->Flush();
  }
  feed->Close();
  consumer.join();
  std::cout << "seed " << kSeed << ": " << kPackets << " packets, " << waits
            << " waits for room\n";
}

}  // namespace
}  // namespace snf
