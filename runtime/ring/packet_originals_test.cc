// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/packet_originals.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "runtime/ring/shared_region.h"

namespace snf {
namespace {

constexpr BufferPool::Options kShare = {.small = 4, .medium = 2, .large = 1};
constexpr PacketHandle kSmall{3};
constexpr PacketHandle kMedium{uint32_t{1} << 30 | 1};
constexpr PacketHandle kLarge{uint32_t{2} << 30};
constexpr FlowId kFlow{7};

class Originals : public ::testing::Test {
 protected:
  Originals()
      : region_(
            *SharedRegion::Create({.name = "test",
                                   .bytes = PacketOriginals::BytesFor(kShare),
                                   .huge_pages = false})),
        originals_(region_.bytes(), kShare) {}

  static std::vector<std::byte> Bytes(int what, size_t count = 100) {
    return std::vector<std::byte>(count, static_cast<std::byte>(what));
  }

  SharedRegion region_;
  PacketOriginals originals_;
};

TEST_F(Originals, ComeBackAfterThePacketWasRewritten) {
  for (const PacketHandle packet : {kSmall, kMedium, kLarge}) {
    auto bytes = Bytes(1, packet == kLarge ? BufferPool::kMaxPacketBytes : 100);
    const auto before = bytes;
    originals_.Keep(packet, kFlow, Clock{5}, bytes);
    bytes.front() = bytes.back() = std::byte{2};
    originals_.Restore(packet, kFlow, Clock{5}, bytes);
    EXPECT_EQ(bytes, before);
  }
}

TEST_F(Originals, AreThoseOfOneClockAlone) {
  originals_.Keep(kSmall, kFlow, Clock{5}, Bytes(1));
  auto other = Bytes(2);
  originals_.Restore(kSmall, kFlow, Clock{6}, other);
  originals_.Restore(kSmall, FlowId{8}, Clock{5}, other);
  EXPECT_EQ(other, Bytes(2));
}

TEST_F(Originals, AreKeptOnceForAClock) {
  originals_.Keep(kSmall, kFlow, Clock{5}, Bytes(1));
  originals_.Keep(kSmall, kFlow, Clock{5}, Bytes(2));  // it is run again
  auto bytes = Bytes(3);
  originals_.Restore(kSmall, kFlow, Clock{5}, bytes);
  EXPECT_EQ(bytes, Bytes(1));
}

TEST_F(Originals, OfNeighboursDoNotMeet) {
  for (uint32_t i = 0; i < kShare.small; ++i) {
    originals_.Keep(PacketHandle{i}, kFlow, Clock{i + 1},
                    Bytes(static_cast<int>(i), BufferPool::kBufferBytes[0]));
  }
  originals_.Keep(kMedium, kFlow, Clock{9}, Bytes(9));
  for (uint32_t i = 0; i < kShare.small; ++i) {
    auto bytes = Bytes(0x55, BufferPool::kBufferBytes[0]);
    originals_.Restore(PacketHandle{i}, kFlow, Clock{i + 1}, bytes);
    EXPECT_EQ(bytes, Bytes(static_cast<int>(i), BufferPool::kBufferBytes[0]));
  }
}

}  // namespace
}  // namespace snf
