// SPDX-License-Identifier: Apache-2.0
#include "platform/run/early_fragments.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace snf {
namespace {

FlowKey PacketNumber(uint16_t id) {
  FlowKey key;
  key.form = FlowKeyForm::kIpv4Fragment;
  key.source_port = be16(id);
  return key;
}

CapturedPacket Fragment(const std::vector<std::byte>& bytes, uint64_t number) {
  CapturedPacket fragment;
  fragment.bytes = bytes;
  fragment.original_bytes = static_cast<uint32_t>(bytes.size());
  fragment.number = number;
  return fragment;
}

TEST(EarlyFragments, ReturnsACopyOfEachInOrderOnceTheFirstHasCome) {
  EarlyFragments early(4);
  std::vector<std::byte> bytes(8, std::byte{1});
  EXPECT_TRUE(early.Keep(Instant{}, PacketNumber(1), Fragment(bytes, 10)));
  EXPECT_TRUE(early.Keep(Instant{}, PacketNumber(2), Fragment(bytes, 11)));
  EXPECT_TRUE(early.Keep(Instant{}, PacketNumber(1), Fragment(bytes, 12)));
  bytes.assign(8, std::byte{2});
  EXPECT_EQ(early.Next(Instant{}), nullptr);
  early.Release(PacketNumber(3));
  EXPECT_EQ(early.Next(Instant{}), nullptr);
  early.Release(PacketNumber(1));
  for (const uint64_t number : {10u, 12u}) {
    const CapturedPacket* const next = early.Next(Instant{});
    ASSERT_NE(next, nullptr);
    EXPECT_EQ(next->number, number);
    EXPECT_EQ(next->bytes.size(), 8u);
    EXPECT_EQ(next->bytes[0], std::byte{1});
  }
  EXPECT_EQ(early.Next(Instant{}), nullptr);
  EXPECT_EQ(early.size(), 1u);
}

TEST(EarlyFragments, ReturnsOldOnesWithoutAFirst) {
  EarlyFragments early(4);
  ASSERT_TRUE(early.Keep(Instant{}, PacketNumber(1), Fragment({}, 1)));
  const Instant later = Instant{} + Milliseconds(1);
  ASSERT_TRUE(early.Keep(later, PacketNumber(1), Fragment({}, 2)));
  EXPECT_EQ(early.Next(Instant{} + EarlyFragments::kLongest), nullptr);
  const Instant too_old = Instant{} + EarlyFragments::kLongest + Nanos{1};
  const CapturedPacket* const next = early.Next(too_old);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->number, 1u);
  EXPECT_EQ(early.Next(too_old), nullptr);
  EXPECT_NE(early.Next(Instant::max()), nullptr);
  EXPECT_TRUE(early.empty());
}

TEST(EarlyFragments, KeepsNoMoreThanItsBound) {
  EarlyFragments early(2);
  EXPECT_TRUE(early.Keep(Instant{}, PacketNumber(1), Fragment({}, 1)));
  EXPECT_TRUE(early.Keep(Instant{}, PacketNumber(2), Fragment({}, 2)));
  EXPECT_FALSE(early.Keep(Instant{}, PacketNumber(1), Fragment({}, 3)));
  early.Release(PacketNumber(2));
  EXPECT_NE(early.Next(Instant{}), nullptr);
  EXPECT_TRUE(early.Keep(Instant{}, PacketNumber(1), Fragment({}, 4)));
  EXPECT_FALSE(EarlyFragments(0).Keep(Instant{}, PacketNumber(1), {}));
}

// Each kept fragment comes back once, the fragments of a packet in order.
TEST(EarlyFragments, LosesNone) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  EarlyFragments early(16);
  Instant now;
  uint64_t kept = 0;
  uint64_t back = 0;
  std::map<uint64_t, uint16_t> packet_of;
  std::map<uint16_t, uint64_t> last_of;
  const auto take_back = [&](const CapturedPacket& fragment) {
    ++back;
    const auto found = packet_of.find(fragment.number);
    ASSERT_NE(found, packet_of.end());
    EXPECT_GT(fragment.number, last_of[found->second]);
    last_of[found->second] = fragment.number;
    packet_of.erase(found);
  };
  for (int i = 0; i < 5'000; ++i) {
    now = now + Milliseconds(rng() % 100);
    const auto id = static_cast<uint16_t>(rng() % 8);
    if (rng() % 4 == 0) {
      early.Release(PacketNumber(id));
    } else if (early.Keep(now, PacketNumber(id), Fragment({}, kept + 1))) {
      packet_of[++kept] = id;
    } else {
      EXPECT_EQ(early.size(), 16u);
    }
    while (const CapturedPacket* const next = early.Next(now)) {
      take_back(*next);
    }
  }
  while (const CapturedPacket* const next = early.Next(Instant::max())) {
    take_back(*next);
  }
  EXPECT_GT(kept, 1'000u);
  EXPECT_EQ(back, kept);
  EXPECT_TRUE(early.empty());
}

}  // namespace
}  // namespace snf
