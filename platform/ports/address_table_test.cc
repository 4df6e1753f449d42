// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/address_table.h"

#include <cstdint>
#include <vector>

#include "base/byte_order.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Frame = std::vector<std::byte>;

constexpr uint64_t kA = 0x0200'0000'000A, kB = 0x0200'0000'000B;
constexpr uint64_t kAll = 0xFFFF'FFFF'FFFF, kGroup = 0x0100'5E00'0001;

// A frame with these words behind its addresses.
Frame FrameOf(uint64_t to, uint64_t from, std::vector<uint16_t> words) {
  Frame frame(12 + 2 * words.size() + 46);
  for (size_t i = 0; i < 6; ++i) {
    frame[i] = static_cast<std::byte>(to >> (40 - 8 * i));
    frame[6 + i] = static_cast<std::byte>(from >> (40 - 8 * i));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    Store(&frame[12 + 2 * i], be16(words[i]));
  }
  return frame;
}

Frame Untagged(uint64_t to, uint64_t from) {
  return FrameOf(to, from, {0x0800});
}

TEST(AddressTable, KnowsWhereASenderWasSeenLast) {
  AddressTable table;
  EXPECT_EQ(table.PortOfReceiver(Untagged(kA, kB)), std::nullopt);
  table.Learn(Untagged(kAll, kA), 2);
  table.Learn(Untagged(kA, kB), 0);
  EXPECT_EQ(table.PortOfReceiver(Untagged(kA, kB)), 2u);
  EXPECT_EQ(table.PortOfSender(Untagged(kA, kB)), 0u);
  // It moves, while others speak.
  table.Learn(Untagged(kB, kA), 1);
  EXPECT_EQ(table.PortOfReceiver(Untagged(kA, kB)), 1u);
  table.Learn(Untagged(kA, kB), 1);
  table.Learn(Untagged(kA, kB), 2);
  EXPECT_EQ(table.PortOfReceiver(Untagged(kA, kB)), 1u);
  EXPECT_EQ(table.PortOfReceiver(Untagged(kB, kA)), 2u);
}

TEST(AddressTable, LearnsNoGroupAndNothingOfAStump) {
  AddressTable table;
  table.Learn(Untagged(kA, kAll), 1);
  table.Learn(Untagged(kA, kGroup), 1);
  table.Learn(Frame(13), 1);
  table.Learn(Frame(3), 1);
  table.Learn(Frame(), 1);
  for (const uint64_t to : {kAll, kGroup, uint64_t{0}}) {
    EXPECT_EQ(table.PortOfReceiver(Untagged(to, kB)), std::nullopt);
  }
  EXPECT_EQ(table.PortOfReceiver(Frame()), std::nullopt);
  EXPECT_EQ(table.PortOfSender(Frame(11)), std::nullopt);
}

TEST(AddressTable, HasAnAddressInEachVlanByItself) {
  AddressTable table;
  table.Learn(Untagged(kAll, kA), 0);
  table.Learn(FrameOf(kAll, kA, {0x8100, 100, 0x0800}), 1);
  table.Learn(FrameOf(kAll, kA, {0x88A8, 200, 0x8100, 100, 0x0800}), 2);
  EXPECT_EQ(table.PortOfReceiver(Untagged(kA, kB)), 0u);
  // Priorities are no part of the VLAN, nor is the kind of its tag.
  EXPECT_EQ(table.PortOfReceiver(FrameOf(kA, kB, {0x8100, 0xE000 | 100})), 1u);
  EXPECT_EQ(table.PortOfReceiver(FrameOf(kA, kB, {0x8100, 200})), 2u);
  EXPECT_EQ(table.PortOfReceiver(FrameOf(kA, kB, {0x8100, 300})), std::nullopt);
  EXPECT_EQ(table.PortOfReceiver(FrameOf(kA, kB, {0x8100, 0xE000})), 0u);
}

TEST(AddressTable, KnowsWhoTalksHoweverManyThereAre) {
  AddressTable table;
  const Frame talker = Untagged(kAll, kA), silent = Untagged(kAll, kB);
  table.Learn(silent, 3);
  for (uint64_t i = 0; i < 4 * AddressTable::kGeneration; ++i) {
    table.Learn(Untagged(kAll, 0x0600'0000'0000 + i), 1);
    if (i % 1'000 == 0) table.Learn(talker, 2);
  }
  EXPECT_EQ(table.PortOfReceiver(Untagged(kA, kB)), 2u);
  EXPECT_EQ(table.PortOfReceiver(Untagged(0x0600'0000'0005, kB)), std::nullopt);
  table.Learn(silent, 2);
  EXPECT_EQ(table.PortOfReceiver(Untagged(kB, kA)), 2u);
}

}  // namespace
}  // namespace snf
