// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/stream/tcp_segment.h"

#include <string>

#include "base/packet/l4_headers.h"
#include "base/packet/test_packet_text.h"
#include "base/packet/test_packets.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

std::optional<TcpSegment> Of(const Frame& frame, uint32_t original_length,
                             LinkType link = LinkType::kEthernet) {
  return TcpSegmentOf(frame, Parse(link, frame), original_length);
}
std::string DataOf(const std::optional<TcpSegment>& segment) {
  if (!segment.has_value()) return "no segment";
  return {reinterpret_cast<const char*>(segment->data.data()),
          segment->data.size()};
}
Frame Of(const std::string& text) { return ParsePacket(text)->bytes; }

TEST(TcpSegment, HasTheFieldsOfThePacket) {
  for (const std::string ends : {"10.0.0.1:5000 > 192.0.2.9:80",
                                 "[2001:db8::1]:5000 > [2001:db8::9]:80"}) {
    const Frame frame =
        Of("tcp " + ends + " PSH ACK seq=4294967295 ack=7 vlan=3 \"data\"");
    const auto segment = Of(frame, static_cast<uint32_t>(frame.size()));
    EXPECT_EQ(DataOf(segment), "data");
    EXPECT_EQ(segment->data_bytes, 4u);
    EXPECT_EQ(segment->sequence, 0xffff'ffff);
    EXPECT_EQ(segment->acknowledgement, 7u);
    EXPECT_TRUE(segment->has(Tcp::kPsh));
    EXPECT_FALSE(segment->has(Tcp::kFin));
  }
}

TEST(TcpSegment, HasNoBytesThatPadTheFrame) {
  for (const std::string ends : {"10.0.0.1:5000 > 192.0.2.9:80",
                                 "[2001:db8::1]:5000 > [2001:db8::9]:80"}) {
    for (const std::string data : {"", "abc"}) {
      Frame frame = Of("tcp " + ends + " ACK \"" + data + "\"");
      frame.resize(frame.size() + 20, std::byte{'x'});
      const auto segment = Of(frame, static_cast<uint32_t>(frame.size()));
      EXPECT_EQ(DataOf(segment), data);
      EXPECT_EQ(segment->data_bytes, data.size());
    }
  }
}

TEST(TcpSegment, TellsHowManyBytesWereSentThoughTheCaptureCutThem) {
  for (const std::string ends : {"10.0.0.1:5000 > 192.0.2.9:80",
                                 "[2001:db8::1]:5000 > [2001:db8::9]:80"}) {
    Frame frame = Of("tcp " + ends + " ACK \"0123456789\"");
    const auto whole = static_cast<uint32_t>(frame.size());
    frame.resize(whole - 7);
    EXPECT_EQ(DataOf(Of(frame, whole)), "012");
    EXPECT_EQ(Of(frame, whole)->data_bytes, 10u);
  }
}

// Segments captured before the card cut them.
TEST(TcpSegment, ReachesToTheFramesEndIfIpGivesNoLength) {
  Frame frame = Of("tcp 10.0.0.1:5000 > 192.0.2.9:80 ACK \"0123\"");
  frame[14 + 2] = frame[14 + 3] = std::byte{0};
  const auto size = static_cast<uint32_t>(frame.size());
  EXPECT_EQ(DataOf(Of(frame, size)), "0123");
  EXPECT_EQ(Of(frame, size + 100'000)->data_bytes, 100'004u);
}

TEST(TcpSegment, IsNotInFragmentsOtherProtocolsAndHeadersThatAreCut) {
  for (const std::string text :
       {"udp 10.0.0.1:5000 > 192.0.2.9:80 \"data\"",
        "tcp 10.0.0.1:5000 > 192.0.2.9:80 ACK more \"data\"",
        "tcp 10.0.0.1:5000 > 192.0.2.9:80 ACK offset=8 \"data\"",
        "icmp 192.0.2.1 > 10.0.0.1 unreachable code=1 "
        "about {tcp 10.0.0.1:5000 > 192.0.2.9:80}",
        "frame x'ffffffffffff 020000000001 0806'"}) {
    const Frame frame = Of(text);
    EXPECT_FALSE(Of(frame, static_cast<uint32_t>(frame.size())).has_value())
        << text;
  }
  Frame frame = Of("tcp 10.0.0.1:5000 > 192.0.2.9:80 ACK options=x'01010101'");
  const auto whole = static_cast<uint32_t>(frame.size());
  for (; frame.size() > 14; frame.pop_back()) {
    EXPECT_EQ(Of(frame, whole).has_value(), frame.size() == whole);
  }
}

}  // namespace
}  // namespace snf
