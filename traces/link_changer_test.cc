// SPDX-License-Identifier: Apache-2.0
#include "traces/link_changer.h"

#include <gtest/gtest.h>

#include "base/packet/packet_parser.h"
#include "base/packet/test_packets.h"

namespace snf {
namespace {

CapturedPacket PacketOf(const Frame& frame, LinkType link) {
  return {.time = {},
          .bytes = frame,
          .original_bytes = static_cast<uint32_t>(frame.size()),
          .link = link};
}

Frame BytesOf(const CapturedPacket& packet) {
  return {packet.bytes.begin(), packet.bytes.end()};
}

TEST(LinkChanger, TakesTagsAndPaddingAwayForRawIp) {
  const Frame ip = Ipv4({}, Udp(5000, 53, 4));
  const Frame frame = Ethernet(0x8100, Vlan(7, 0x0800, ip)) + Frame(10);
  CapturedPacket packet = PacketOf(frame, LinkType::kEthernet);
  LinkChanger changer(LinkType::kRawIp);
  ASSERT_TRUE(changer.Change(packet));
  EXPECT_EQ(BytesOf(packet), ip);
  EXPECT_EQ(packet.original_bytes, ip.size());
  EXPECT_EQ(packet.link, LinkType::kRawIp);
}

TEST(LinkChanger, PutsEthernetBeforeEverySampleWithAnIpHeader) {
  LinkChanger changer(LinkType::kEthernet);
  int changed = 0;
  for (const Sample& sample : AllSamples()) {
    SCOPED_TRACE(sample.name);
    const ParsedPacket before = Parse(sample.link, sample.frame);
    CapturedPacket packet = PacketOf(sample.frame, sample.link);
    EXPECT_EQ(changer.Change(packet),
              before.has_ip() || sample.link == LinkType::kEthernet);
    if (sample.link == LinkType::kEthernet) {
      EXPECT_EQ(BytesOf(packet), sample.frame);
      continue;
    }
    if (!before.has_ip()) continue;
    const ParsedPacket after = Parse(packet.link, packet.bytes);
    EXPECT_EQ(after.l3, before.l3);
    EXPECT_EQ(after.l3_offset, 14);
    EXPECT_EQ(after.result, before.result);
    EXPECT_EQ(after.payload_bytes(), before.payload_bytes());
    EXPECT_EQ(packet.original_bytes, packet.bytes.size());
    ++changed;
  }
  EXPECT_GE(changed, 4);
}

TEST(LinkChanger, KeepsHowMuchOfAPacketWasNotCaptured) {
  const Frame frame = Ethernet(0x0800, Ipv4({}, Udp(5000, 53, 100)));
  CapturedPacket packet = PacketOf(frame, LinkType::kEthernet);
  packet.bytes = packet.bytes.first(60);
  LinkChanger(LinkType::kRawIp).Change(packet);
  EXPECT_EQ(packet.bytes.size(), 46u);
  EXPECT_EQ(packet.original_bytes, 128u);
}

TEST(LinkChanger, GivesRawIpItsUsualNumber) {
  const Frame ip = Ipv4({}, Udp(5000, 53));
  CapturedPacket packet = PacketOf(ip, LinkType::kRawIp);
  packet.link_number = 228;
  LinkChanger(LinkType::kRawIp).Change(packet);
  EXPECT_EQ(packet.link_number, 0);
  packet.link_number = 228;
  LinkChanger(LinkType::kEthernet).Change(packet);
  EXPECT_EQ(packet.link_number, 0);
}

TEST(LinkChanger, LeavesAloneWhatHoldsNoIp) {
  const Frame frame = Ethernet(0x0806, Frame(28));
  CapturedPacket packet = PacketOf(frame, LinkType::kEthernet);
  EXPECT_FALSE(LinkChanger(LinkType::kRawIp).Change(packet));
  EXPECT_EQ(BytesOf(packet), frame);
  EXPECT_EQ(packet.link, LinkType::kEthernet);
}

}  // namespace
}  // namespace snf
