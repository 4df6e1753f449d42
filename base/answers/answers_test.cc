// SPDX-License-Identifier: Apache-2.0
#include "base/answers/answers.h"

#include <algorithm>
#include <string>

#include "base/packet/checksum.h"
#include "base/packet/flow_key.h"
#include "base/packet/headers.h"
#include "base/packet/test_packet_text.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

TestPacket PacketOf(const std::string& text) {
  const auto packet = ParsePacket(text);
  EXPECT_TRUE(packet.ok()) << packet.status();
  return *packet;
}

std::string TextOf(std::span<const std::byte> frame) {
  if (frame.empty()) return "";
  return ToText({.bytes = {frame.begin(), frame.end()},
                 .original_length = static_cast<uint32_t>(frame.size())});
}

// The answers to a packet, as text; "" if there is none.
std::string ResetOf(const TestPacket& packet) {
  const ParsedPacket headers = Parse(packet.link, packet.bytes);
  return TextOf(TcpReset(packet.link, packet.bytes, headers).frame());
}
std::string ResetOf(const std::string& text) { return ResetOf(PacketOf(text)); }
std::string ErrorOf(const std::string& text) {
  const TestPacket packet = PacketOf(text);
  const ParsedPacket headers = Parse(packet.link, packet.bytes);
  return TextOf(
      IcmpError::Prohibited(packet.link, packet.bytes, headers).frame());
}

// Returns the same packet, as other words describe it.
std::string Same(const std::string& text) { return ToText(PacketOf(text)); }

constexpr char kMacs[] = " src=02:00:00:00:00:02 dst=02:00:00:00:00:01";

// RFC 9293 §3.10.7.1.
TEST(TcpReset, HasTheNumbersThatTheSenderExpects) {
  const std::string there = "tcp 10.0.0.1:5000 > 192.0.2.9:80 ";
  const std::string back = "tcp 192.0.2.9:80 > 10.0.0.1:5000 df win=0 ";
  const auto expect = [&](const std::string& sent, const std::string& answer) {
    EXPECT_EQ(ResetOf(there + sent), Same(back + answer + kMacs)) << sent;
  };
  expect("SYN seq=7", "RST ACK ack=8");
  expect("SYN seq=0xffffffff", "RST ACK ack=0");
  expect("SYN seq=7 len=10", "RST ACK ack=18");
  expect("FIN seq=7 len=10", "RST ACK ack=18");
  expect("no_flags seq=7", "RST ACK ack=7");
  expect("ACK seq=7 ack=99 len=10", "RST seq=99");
  expect("SYN ACK seq=7 ack=99", "RST seq=99");
  expect("ACK seq=7 ack=99 tos=0xbb vlan=12", "RST seq=99 tos=0xb8 vlan=12");
  EXPECT_EQ(ResetOf("tcp [2001:db8::1]:5000 > [2001:db8::9]:80 SYN seq=7"),
            Same(std::string("tcp [2001:db8::9]:80 > [2001:db8::1]:5000 RST "
                             "ACK ack=8 win=0") +
                 kMacs));
}

TEST(TcpReset, CountsBytesThatTheCaptureCutOff) {
  TestPacket packet =
      PacketOf("tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN seq=7 len=1000");
  packet.bytes.resize(100);
  EXPECT_NE(ResetOf(packet).find("ack=1008"), std::string::npos)
      << ResetOf(packet);
  packet.bytes.resize(14 + 20 + 19);  // in the midst of the header
  EXPECT_EQ(ResetOf(packet), "");
}

TEST(TcpReset, AnswersNoResetGroupOrFragment) {
  for (const char* none :
       {"tcp 10.0.0.1:5000 > 192.0.2.9:80 RST seq=7",
        "tcp 10.0.0.1:5000 > 192.0.2.9:80 RST ACK seq=7 ack=9",
        "tcp 10.0.0.1:5000 > 224.0.0.9:80 SYN",
        "tcp 10.0.0.1:5000 > 255.255.255.255:80 SYN",
        "tcp 0.0.0.0:5000 > 192.0.2.9:80 SYN",
        "tcp 127.0.0.1:5000 > 192.0.2.9:80 SYN",
        "tcp [2001:db8::1]:5000 > [ff02::1]:80 SYN",
        "tcp [ff02::1]:5000 > [2001:db8::1]:80 SYN",
        "tcp [::]:5000 > [2001:db8::1]:80 SYN",
        "tcp [::1]:5000 > [2001:db8::1]:80 SYN",
        "tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN dst=ff:ff:ff:ff:ff:ff",
        "tcp 10.0.0.1 > 192.0.2.9 len=40 ip_id=7 offset=64",
        "udp 10.0.0.1:5000 > 192.0.2.9:80"}) {
    EXPECT_EQ(ResetOf(none), "") << none;
  }
}

TEST(IcmpError, SaysProhibited) {
  const auto expect = [](const std::string& sent, const std::string& answer) {
    EXPECT_EQ(ErrorOf(sent).substr(0, answer.size()), answer);
  };
  expect("udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\" tos=0xbb",
         std::string("icmp 192.0.2.9 > 10.0.0.1 unreachable code=13") + kMacs +
             " tos=184 df about {udp 10.0.0.1:5000 > 192.0.2.9:53}");
  expect("udp [2001:db8::1]:5000 > [2001:db8::9]:53 \"query\"",
         std::string("icmp6 [2001:db8::9] > [2001:db8::1] unreachable code=1") +
             kMacs + " about {udp [2001:db8::1]:5000 > [2001:db8::9]:53}");
  EXPECT_NE(ErrorOf("icmp 10.0.0.1 > 192.0.2.9 echo id=7"), "");
  EXPECT_NE(ErrorOf("icmp6 [2001:db8::1] > [2001:db8::9] echo id=7"), "");
  EXPECT_NE(ErrorOf("47 10.0.0.1 > 192.0.2.9 \"tunnel\""), "");
  EXPECT_NE(ErrorOf("udp 10.0.0.1:5000 > 192.0.2.9:53 len=16 ip_id=7 more"),
            "");
}

// RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e).
TEST(IcmpError, IsNeverAboutErrorsFragmentsAndGroups) {
  for (const char* none :
       {"icmp 10.0.0.1 > 192.0.2.9 unreachable code=1 about {udp "
        "192.0.2.9:53 > 10.0.0.1:5000}",
        "icmp 10.0.0.1 > 192.0.2.9 unreachable code=1",
        "icmp 10.0.0.1 > 192.0.2.9 time_exceeded",
        "icmp 10.0.0.1 > 192.0.2.9 type=5",
        "icmp6 [2001:db8::1] > [2001:db8::9] type=1",
        "icmp6 [2001:db8::1] > [2001:db8::9] type=100",
        "icmp6 [2001:db8::1] > [2001:db8::9] type=137",
        "udp 10.0.0.1 > 192.0.2.9 len=40 ip_id=7 offset=64",
        "udp 10.0.0.1:5000 > 224.0.0.251:5353",
        "udp 10.0.0.1:5000 > 255.255.255.255:67",
        "udp 10.0.0.1:5000 > 10.0.0.255:67 dst=ff:ff:ff:ff:ff:ff",
        "udp 10.0.0.1:5000 > 10.0.0.255:67 dst=01:00:5e:00:00:01",
        "udp 0.0.0.0:68 > 192.0.2.9:67", "udp 127.0.0.1:68 > 192.0.2.9:67",
        "udp 240.0.0.1:68 > 192.0.2.9:67", "udp [::]:5000 > [2001:db8::9]:53",
        "udp [2001:db8::1]:5000 > [ff02::fb]:5353"}) {
    EXPECT_EQ(ErrorOf(none), "") << none;
  }
}

// Bytes of both answers.
TEST(IcmpError, QuotesThePacketAndNamesTheMtu) {
  using Bytes = std::span<const std::byte>;
  for (const bool is_ipv6 : {false, true}) {
    const Frame frame =
        PacketOf(
            is_ipv6
                ? "tcp [fc00:2::1]:31337 > [fc00:1::1]:80 ACK vlan=5 len=1500"
                : "udp 192.168.1.1:31337 > 10.200.1.1:80 vlan=5 len=1500")
            .bytes;
    const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
    const IcmpError answer =
        IcmpError::TooBig(LinkType::kEthernet, frame, headers, 1'460);
    const Bytes bytes = answer.frame();
    const ParsedPacket parsed = Parse(LinkType::kEthernet, bytes);
    EXPECT_EQ(bytes.size(), 18u + (is_ipv6 ? 1'280 : 576));
    EXPECT_TRUE(std::ranges::equal(bytes.first(6), Bytes(frame).subspan(6, 6)));
    EXPECT_EQ(parsed.outer_vlan, 5);
    EXPECT_EQ(parsed.result, ParseResult::kComplete);
    const Bytes l4 = bytes.subspan(parsed.l4_offset);
    const FlowKey ends = FiveTuple(bytes, parsed, false);
    const FlowKey asked = FiveTuple(frame, headers, false);
    EXPECT_EQ(ends.source, asked.destination);
    EXPECT_EQ(ends.destination, asked.source);
    EXPECT_EQ(l4[0], is_ipv6 ? std::byte{2} : std::byte{3});
    EXPECT_EQ(l4[1], is_ipv6 ? std::byte{0} : std::byte{4});
    EXPECT_EQ(LoadBe32(&l4[4]), be32(1'460));
    if (is_ipv6) {
      EXPECT_EQ(
          L4Checksum(ends.source, ends.destination, IpProtocol::kIcmpv6, l4),
          be16(0));
    } else {
      EXPECT_EQ(InternetChecksum(l4), be16(0));
      EXPECT_EQ(InternetChecksum(bytes.subspan(18, 20)), be16(0));
    }
    const Bytes quoted = l4.subspan(8);
    EXPECT_TRUE(
        std::ranges::equal(quoted, Bytes(frame).subspan(18, quoted.size())));
  }
}

}  // namespace
}  // namespace snf
