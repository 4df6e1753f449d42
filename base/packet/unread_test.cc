// SPDX-License-Identifier: Apache-2.0
#include "base/packet/unread.h"

#include <gtest/gtest.h>

#include "base/packet/classifier.h"
#include "base/packet/test_packets.h"

namespace snf {
namespace {

// The classifier remembers the first fragment of a packet.
class UnreadInFragments : public testing::Test {
 protected:
  Unread Of(const Frame& frame) {
    ParsedPacket packet;
    FlowKey key;
    classifier_.Classify(Instant{}, LinkType::kRawIp, frame, packet, key);
    return classifier_.unread();
  }
  static Frame V4(uint8_t protocol, uint16_t offset, size_t bytes,
                  uint16_t id = 7) {
    return Ipv4({.protocol = protocol,
                 .id = id,
                 .fragment_offset_bytes = offset,
                 .more_fragments = true},
                offset == 0 ? Tcp(1, 2, 0, bytes - 20) : Frame(bytes));
  }

  FlowClassifier classifier_ = FlowClassifier({});
};

TEST_F(UnreadInFragments, TellsAFragmentThatOverlapsTheFirst) {
  EXPECT_EQ(Of(V4(6, 0, 40)), Unread::kNothing);
  EXPECT_EQ(Of(V4(6, 40, 40)), Unread::kNothing);
  EXPECT_EQ(Of(V4(6, 32, 40)), Unread::kOverlap);
  EXPECT_EQ(Of(V4(6, 16, 40, 8)), Unread::kNothing) << "of another packet";
  EXPECT_EQ(Of(V4(6, 8, 40, 9)), Unread::kOverlap) << "without its first";
}

TEST_F(UnreadInFragments, TellsNoOverlapOfProtocolsWhosePortsCannotChange) {
  EXPECT_EQ(Of(V4(17, 0, 40)), Unread::kNothing);
  EXPECT_EQ(Of(V4(17, 8, 40)), Unread::kNothing);
}

TEST_F(UnreadInFragments, TellsTheLaterOnesOfAFirstWithoutPorts) {
  const auto v6 = [](uint16_t offset, const Frame& part) {
    return Ipv6({.next_header = 44}, Ipv6Fragment(60, offset, true, 1, part));
  };
  EXPECT_EQ(Of(v6(0, Ipv6Extension(6, 1, {}))), Unread::kUpperHeader);
  EXPECT_EQ(Of(v6(8, Tcp(1, 22))), Unread::kUpperHeader);
}

TEST_F(UnreadInFragments, ReadsAnErrorAboutAFragmentThatIsUnread) {
  const Frame quoted = V4(6, 8, 40);
  EXPECT_EQ(Of(V4(6, 0, 40)), Unread::kNothing);
  EXPECT_EQ(Of(Ipv4({.protocol = 1}, Icmp(11, 0, 0, quoted))),
            Unread::kNothing);
}

}  // namespace
}  // namespace snf
