// SPDX-License-Identifier: Apache-2.0
#include "platform/run/ingress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

CapturedPacket PacketOf(const Frame& frame, Side side) {
  CapturedPacket packet;
  packet.bytes = frame;
  packet.original_bytes = static_cast<uint32_t>(frame.size());
  packet.side = side;
  return packet;
}

// From 10.0.0.1:5000 to 192.0.2.9:53.
Frame Query() { return Ethernet(0x0800, Ipv4({}, Udp(5000, 53))); }

TEST(Ingress, TakesTheSideThatAPacketSaysAndRewritesNothing) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  Ingress ingress({}, true, buffers);
  const Frame frame = Query();
  for (const Side side : {Side::kOutside, Side::kInside, Side::kOutside}) {
    const Ingress::Taken& taken =
        ingress.Take(Instant{}, PacketOf(frame, side));
    ASSERT_EQ(taken.fate, Ingress::Taken::Fate::kPacket);
    const bool is_outside = side == Side::kOutside;
    EXPECT_EQ(taken.by_alias, is_outside);
    EXPECT_EQ(taken.key->source,
              is_outside ? V4(192, 0, 2, 9) : V4(10, 0, 0, 1));
    EXPECT_EQ(taken.key->source_port, be16(is_outside ? 53 : 5000));
    const PacketInfo& info = buffers.info(taken.packet);
    EXPECT_EQ(info.side, side);
    EXPECT_EQ(info.far_address,
              is_outside ? V4(10, 0, 0, 1) : V4(192, 0, 2, 9));
    const auto bytes = buffers.bytes(taken.packet);
    EXPECT_TRUE(std::ranges::equal(bytes, frame));
    buffers.Free(taken.packet);
  }
}

TEST(Ingress, NotesTheSideAlsoForAnNfThatHasNone) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  Ingress ingress({}, false, buffers);
  const Frame frame = Query();
  const Ingress::Taken& taken =
      ingress.Take(Instant{}, PacketOf(frame, Side::kOutside));
  EXPECT_FALSE(taken.by_alias);
  EXPECT_EQ(buffers.info(taken.packet).side, Side::kOutside);
}

}  // namespace
}  // namespace snf
