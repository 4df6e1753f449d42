// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"
#include "base/packet/test_packet_text.h"
#include "base/rng.h"
#include "base/test_seeds.h"

namespace snf {
namespace {

using testing::HasSubstr;

TestPacket Made(const std::string& text) {
  const absl::StatusOr<TestPacket> packet = ParsePacket(text);
  EXPECT_TRUE(packet.ok()) << packet.status();
  return packet.ok() ? *packet : TestPacket{};
}

std::string WhatIsWrong(const std::string& text) {
  const absl::StatusOr<TestPacket> packet = ParsePacket(text);
  return packet.ok() ? "" : std::string(packet.status().message());
}

TEST(PacketText, MakesTheFrameThatItSays) {
  EXPECT_EQ(Made("udp 10.0.0.1:5000 > 192.0.2.9:53 \"hi\"").bytes,
            Hex("020000000002 020000000001 0800"
                "45 00 001e 0000 0000 40 11 aec5 0a000001 c0000209"
                "1388 0035 000a b7a9 6869"));
}

TEST(PacketText, SaysOfEachKindOfPacketWhatItWasMadeOf) {
  for (const std::string text : {
           "udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\"",
           "udp 10.0.0.1:5000 > 192.0.2.9:53",
           "udp 10.0.0.1:5000 > 192.0.2.9:53 len=100 no_checksum",
           "udp 10.0.0.1:5000 > 192.0.2.9:53 \"a \\\"b\\\"\\\\\\r\\n\\t\"",
           "udp [2001:db8::1]:5000 > [2001:db8::9]:53 ttl=3 tos=17 x'00ff'",
           "tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN seq=1 options=x'020405b4'",
           "tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN ACK seq=1 ack=4294967295",
           "tcp 10.0.0.1:5000 > 192.0.2.9:80 FIN RST PSH URG ECE CWR win=9",
           "tcp 10.0.0.1:5000 > 192.0.2.9:80 no_flags vlan=12 vlan=7 df",
           "tcp 10.0.0.1:5000 > 192.0.2.9:80 src=02:00:00:00:00:07 len=3",
           "tcp 10.0.0.1:5000 > 192.0.2.9:80 dst=ff:00:00:00:00:07 wire=1514",
           "icmp 10.0.0.1 > 192.0.2.9 echo id=7 seq=9 \"abc\"",
           "icmp6 [2001:db8::1] > [2001:db8::9] echo_reply id=7",
           "icmp6 [2001:db8::1] > [2001:db8::9] too_big seq=1280 "
           "about {udp [2001:db8::9]:5000 > [2001:db8::7]:53}",
           "icmp 192.0.2.1 > 10.0.0.1 unreachable code=1 "
           "about {udp 10.0.0.1:5000 > 192.0.2.9:53}",
           "icmp 10.0.0.1 > 192.0.2.9 type=13 id=7",
           "89 10.0.0.1 > 224.0.0.5 ttl=1 \"hello\"",
           "sctp 10.0.0.1:1 > 10.0.0.2:2 \"hello\"",
           "udp 10.0.0.1:5000 > 192.0.2.9:53 ip_id=7 more len=40",
           "udp 10.0.0.1 > 192.0.2.9 ip_id=7 offset=48 len=40",
           "udp 10.0.0.1:5000 > 192.0.2.9:53 bad_checksum=1",
           "tcp 10.0.0.1:5000 > 192.0.2.9:53 bad_ip_checksum=65535",
           "frame x'ffffffffffff0200000000010806'",
       }) {
    EXPECT_EQ(ToText(Made(text)), text);
  }
}

TEST(PacketText, TakesWordsInAnyOrderAndNumbersInHexadecimal) {
  EXPECT_EQ(ToText(Made("  TCP 10.0.0.1:5000 > 192.0.2.9:80 ttl=0x3 seq=1 "
                        "x'00 ff' ACK\n SYN vlan=12")),
            "tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN ACK seq=1 vlan=12 ttl=3 "
            "x'00ff'");
  EXPECT_EQ(ToText(Made("udp 10.0.0.1:1 > 10.0.0.2:2 \"ab\" len=4")),
            "udp 10.0.0.1:1 > 10.0.0.2:2 x'61620000'");
}

TEST(PacketText, ComesAMillisecondAfterThePacketBeforeUnlessToldOtherwise) {
  EXPECT_EQ(Made("udp 10.0.0.1:1 > 10.0.0.2:2").gap, Milliseconds(1));
  EXPECT_EQ(Made("+20us udp 10.0.0.1:1 > 10.0.0.2:2").gap, Microseconds(20));
  EXPECT_EQ(Made("+0 frame x''").gap, Nanos{});
}

TEST(PacketText, NamesTheWordThatIsWrong) {
  const std::string udp = "udp 10.0.0.1:5000 > 192.0.2.9:53 ";
  EXPECT_THAT(WhatIsWrong("upd 10.0.0.1:5000 > 192.0.2.9:53"),
              HasSubstr("unknown protocol \"upd\""));
  EXPECT_THAT(WhatIsWrong("udp 10.0.0.256:1 > 10.0.0.2:2"),
              HasSubstr("no address \"10.0.0.256:1\""));
  EXPECT_THAT(WhatIsWrong("udp 10.0.0.1:5000 > [2001:db8::9]:53"),
              HasSubstr("IPv4 and IPv6 at once"));
  EXPECT_THAT(WhatIsWrong("udp 10.0.0.1:5000 <> 10.0.0.2:53"),
              HasSubstr("has no \">\""));
  EXPECT_THAT(WhatIsWrong("udp 10.0.0.1:5000"), HasSubstr("want for example"));
  EXPECT_THAT(WhatIsWrong(udp + "SYN"),
              testing::AllOf(HasSubstr("\"SYN\" says nothing of such a packet"),
                             HasSubstr("'" + udp + "SYN'")));
  EXPECT_THAT(WhatIsWrong(udp + "ttl=256"),
              HasSubstr("\"ttl=256\" is not 0 to 255"));
  EXPECT_THAT(WhatIsWrong(udp + "ttl="), HasSubstr("\"ttl=\" is not"));
  EXPECT_THAT(WhatIsWrong(udp + "\"query"), HasSubstr("does not end"));
  EXPECT_THAT(WhatIsWrong(udp + "\"a\\q\""), HasSubstr("unknown escape"));
  EXPECT_THAT(WhatIsWrong(udp + "x'0g'"), HasSubstr("is not hexadecimal"));
  EXPECT_THAT(WhatIsWrong(udp + "x'0'"), HasSubstr("odd number of digits"));
  EXPECT_THAT(WhatIsWrong(udp + "\"a\" \"b\""), HasSubstr("second payload"));
  EXPECT_THAT(WhatIsWrong(udp + "\"abc\" len=2"), HasSubstr("len=2 is less"));
  EXPECT_THAT(WhatIsWrong(udp + "wire=20"), HasSubstr("wire=20 is less"));
  EXPECT_THAT(WhatIsWrong(udp + "src=02:00"), HasSubstr("no MAC address"));
  EXPECT_THAT(WhatIsWrong(udp + "offset=7"), HasSubstr("no multiple of 8"));
  EXPECT_THAT(WhatIsWrong("+5 " + udp), HasSubstr("\"5\""));
  EXPECT_THAT(WhatIsWrong("frame x'0'"), HasSubstr("odd number of digits"));
  EXPECT_THAT(WhatIsWrong("icmp 10.0.0.1 > 10.0.0.2 about {udp}"),
              HasSubstr("want for example"));
}

TEST(PacketText, ShowsAChecksumThatWasNotUpdated) {
  TestPacket packet = Made("udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\"");
  packet.bytes[14 + 8] = std::byte{63};
  EXPECT_THAT(ToText(packet), HasSubstr(" ttl=63 \"query\" bad_ip_checksum="));
  packet = Made("tcp 10.0.0.1:5000 > 192.0.2.9:80 \"query\"");
  packet.bytes[14 + 20 + 1] ^= std::byte{1};
  EXPECT_THAT(ToText(packet), HasSubstr(":80 \"query\" bad_checksum="));
}

// For any two frames, the texts are equal only if the frames are.
TEST(PacketText, HidesNoByteOfAnyFrame) {
  for (const Sample& sample : AllSamples()) {
    SCOPED_TRACE(sample.name);
    const TestPacket packet = {.bytes = sample.frame, .link = sample.link};
    const std::string text = ToText(packet);
    for (size_t i = 0; i < sample.frame.size(); ++i) {
      TestPacket other = packet;
      other.bytes[i] ^= std::byte{1};
      EXPECT_NE(ToText(other), text) << i;
      other = packet;
      other.bytes.resize(i);
      EXPECT_NE(ToText(other), text) << i;
      other.original_length = static_cast<uint32_t>(packet.bytes.size());
      EXPECT_NE(ToText(other), text) << i;
    }
  }
}

// The input is random bytes, and correct texts with words replaced.
TEST(PacketText, StandsAnything) {
  const uint64_t seed = TestSeeds::One(7);
  Rng rng(seed);
  const std::string kWords[] = {
      "tcp",  "udp",   "icmp",  "icmp6",  "10.0.0.1:1", "[::1]:9", ">",
      "\"",   "x'00'", "SYN",   "echo",   "about",      "{udp",    "}",
      "{",    "'",     "len=9", "ttl=1",  "vlan=",      "=",       "offset=8",
      "more", "\\",    "+1ms",  "wire=99"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t words = rng.Below(9); words > 0; --words) {
      text += kWords[rng.Below(std::size(kWords))] + " ";
    }
    const absl::StatusOr<TestPacket> packet = ParsePacket(text);
    if (packet.ok()) {
      EXPECT_FALSE(ToText(*packet).empty());
    } else {
      EXPECT_THAT(std::string(packet.status().message()), HasSubstr(text));
    }
    const std::vector<Sample> samples = AllSamples();
    TestPacket any = {.bytes = samples[rng.Below(samples.size())].frame};
    any.bytes[rng.Below(any.bytes.size())] =
        static_cast<std::byte>(rng.Below(256));
    any.bytes.resize(rng.Below(any.bytes.size() + 1));
    ToText(any);
  }
}

}  // namespace
}  // namespace snf
