// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/ip_translation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/ip_address_text.h"
#include "base/packet/test_packet_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "base/tunnels/test_buffer.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr uint32_t kMtu = 1'500;

IpPrefix Prefix(const std::string& text) { return ParsePrefixes(text)->at(0); }
IpAddress Ipv6Of(const std::string& text) { return Prefix(text).address; }

IpTranslation Translation(const std::string& prefix = "64:ff9b::/96") {
  return {.prefix = *Ipv4InIpv6::Of(Prefix(prefix)),
          .stand_in = V4(10, 0, 0, 1).ipv4(),
          .inside = Ipv6Of("2001:db8::1")};
}

// Returns the text of the translated packet without its identification, or why
// it was not translated.
std::string Translate(const TestPacket& packet,
                      const IpTranslation& translation = Translation(),
                      uint32_t mtu = kMtu) {
  TestBuffer buffer(packet);
  const TestBuffer before = buffer;
  const PacketResize done =
      TranslateIp(buffer.info, buffer.room, translation, mtu);
  if (done != PacketResize::kDone) {
    EXPECT_EQ(buffer.room, before.room);
    return std::string(Name(done));
  }
  std::string text = buffer.Text();
  const size_t id = text.find(" ip_id=");
  if (id != std::string::npos && text.find(" more") == std::string::npos &&
      text.find(" offset=") == std::string::npos) {
    text.erase(id, text.find(' ', id + 1) - id);
  }
  return text;
}
std::string Translate(const std::string& text,
                      const IpTranslation& translation = Translation(),
                      uint32_t mtu = kMtu) {
  return Translate(*ParsePacket(text), translation, mtu);
}

// The table of RFC 6052 §2.4.
TEST(Ipv4InIpv6, EmbedsAsTheTableOfTheRfcSays) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"2001:db8::/32", "2001:db8:c000:221::"},
      {"2001:db8:100::/40", "2001:db8:1c0:2:21::"},
      {"2001:db8:122::/48", "2001:db8:122:c000:2:2100::"},
      {"2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"},
      {"2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"},
      {"2001:db8:122:344::/96", "2001:db8:122:344::c000:221"}};
  const be32 address = V4(192, 0, 2, 33).ipv4();
  for (const auto& [prefix, embedded] : cases) {
    const auto parsed = Ipv4InIpv6::Of(Prefix(prefix));
    ASSERT_TRUE(parsed.has_value()) << prefix;
    EXPECT_EQ(parsed->Embed(address), Ipv6Of(embedded)) << prefix;
    EXPECT_EQ(parsed->Extract(Ipv6Of(embedded)), address) << prefix;
    EXPECT_EQ(parsed->Extract(Ipv6Of("2001:db9::1")), std::nullopt);
  }
  for (const char* const wrong :
       {"2001:db8::/33", "2001:db8::/128", "10.0.0.0/8", "::/0",
        "2001:db8:0:0:100::/96"}) {
    EXPECT_FALSE(Ipv4InIpv6::Of(Prefix(wrong)).has_value()) << wrong;
  }
}

TEST(IpTranslation, TranslatesBothWays) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"udp [2001:db8::1]:5000 > [64:ff9b::192.0.2.9]:53 \"query\" ttl=9 tos=3",
       "udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\" ttl=9 tos=3"},
      {"tcp [64:ff9b::192.0.2.9]:80 > [2001:db8::1]:5000 SYN ACK seq=7 "
       "options=x'020405b4'",
       "tcp 192.0.2.9:80 > 10.0.0.1:5000 SYN ACK seq=7 options=x'020405b4'"},
      {"icmp6 [2001:db8::1] > [64:ff9b::192.0.2.9] echo id=7 seq=9 \"abc\"",
       "icmp 10.0.0.1 > 192.0.2.9 echo id=7 seq=9 \"abc\""},
      {"icmp6 [64:ff9b::192.0.2.9] > [2001:db8::1] echo_reply id=7 vlan=5",
       "icmp 192.0.2.9 > 10.0.0.1 echo_reply id=7 vlan=5"},
      // A wrong checksum is not put right.
      {"udp [2001:db8::1]:5000 > [64:ff9b::192.0.2.9]:53 bad_checksum=1",
       "digest"}};
  for (const auto& [ipv6, ipv4] : cases) {
    if (ipv4 == "digest") {
      EXPECT_NE(Translate(ipv6).find("bad_checksum"), std::string::npos);
      continue;
    }
    EXPECT_EQ(Translate(ipv6), Same(ipv4));
    EXPECT_EQ(Translate(ipv4), Same(ipv6));
  }
}

TEST(IpTranslation, MayFragmentWhatAnIpv6LinkCarries) {
  const std::string ends = "udp [2001:db8::1]:5000 > [64:ff9b::192.0.2.9]:53 ";
  EXPECT_EQ(Translate(ends + "len=1232").find(" df"), std::string::npos);
  EXPECT_NE(Translate(ends + "len=1233").find(" df"), std::string::npos);
}

TEST(IpTranslation, KeepsFragments) {
  const IpAddress inside = Ipv6Of("2001:db8::1");
  const IpAddress outside = Ipv6Of("64:ff9b::192.0.2.9");
  const std::string first =
      "udp 192.0.2.9:53 > 10.0.0.1:5000 len=64 ip_id=77 more";
  TestBuffer buffer(first);
  ASSERT_EQ(TranslateIp(buffer.info, buffer.room, Translation(), kMtu),
            PacketResize::kDone);
  buffer.Text();
  EXPECT_EQ(buffer.info.headers.fragment, Fragment::kFirst);
  EXPECT_EQ(buffer.info.headers.fragment_id, 77u);
  const auto ip = Ipv6Header<const std::byte>::At(buffer.bytes(), 14);
  EXPECT_EQ(ip.source(), outside);
  EXPECT_EQ(ip.destination(), inside);
  ASSERT_EQ(TranslateIp(buffer.info, buffer.room, Translation(), kMtu),
            PacketResize::kDone);
  EXPECT_EQ(buffer.Text(), Same(first));

  const std::string later = "17 192.0.2.9 > 10.0.0.1 len=64 ip_id=77 offset=72";
  TestBuffer end(later);
  const std::string before = end.Text();
  ASSERT_EQ(TranslateIp(end.info, end.room, Translation(), kMtu),
            PacketResize::kDone);
  end.Text();
  EXPECT_EQ(end.info.headers.fragment, Fragment::kLater);
  EXPECT_EQ(end.info.headers.fragment_offset_bytes, 72);
  ASSERT_EQ(TranslateIp(end.info, end.room, Translation(), kMtu),
            PacketResize::kDone);
  EXPECT_EQ(end.Text(), before);
}

TEST(IpTranslation, TranslatesErrorsAndWhatTheyQuote) {
  const std::string about6 =
      " about {udp [2001:db8::1]:5000 > [64:ff9b::192.0.2.9]:53 \"q\"}";
  const std::string about4 = " about {udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\"}";
  const auto ipv4 = [&](const std::string& what) {
    return "icmp 192.0.2.1 > 10.0.0.1 " + what + about4;
  };
  const auto ipv6 = [&](const std::string& what) {
    return "icmp6 [64:ff9b::192.0.2.1] > [2001:db8::1] " + what + about6;
  };
  const std::vector<std::pair<std::string, std::string>> from_ipv4 = {
      {"unreachable code=0", "unreachable code=0"},
      {"unreachable code=1", "unreachable code=0"},
      {"unreachable code=3", "unreachable code=4"},
      {"unreachable code=4 seq=1400", "too_big seq=1420"},
      {"unreachable code=4 seq=600", "too_big seq=1280"},
      {"unreachable code=13", "unreachable code=1"},
      {"time_exceeded", "time_exceeded"}};
  for (const auto& [from, to] : from_ipv4) {
    EXPECT_EQ(Translate(ipv4(from)), Same(ipv6(to))) << from;
  }
  const std::vector<std::pair<std::string, std::string>> from_ipv6 = {
      {"unreachable code=0", "unreachable code=1"},
      {"unreachable code=1", "unreachable code=10"},
      {"unreachable code=4", "unreachable code=3"},
      {"too_big seq=1400", "unreachable code=4 seq=1380"},
      {"time_exceeded code=1", "time_exceeded code=1"},
      {"type=4 code=1 seq=6", "unreachable code=2"}};
  for (const auto& [from, to] : from_ipv6) {
    EXPECT_EQ(Translate(ipv6(from)), Same(ipv4(to))) << from;
  }
  // A router on the inside has no IPv4 address.
  EXPECT_EQ(
      Translate("icmp6 [2001:db8::77] > [64:ff9b::192.0.2.9] time_exceeded "
                "about {udp [64:ff9b::192.0.2.9]:53 > [2001:db8::1]:5000}"),
      Same("icmp 10.0.0.1 > 192.0.2.9 time_exceeded about "
           "{udp 192.0.2.9:53 > 10.0.0.1:5000}"));
}

TEST(IpTranslation, ComputesAChecksumThatIpv6Needs) {
  EXPECT_EQ(Translate("udp 192.0.2.9:53 > 10.0.0.1:5000 \"odd\" no_checksum"),
            Same("udp [64:ff9b::192.0.2.9]:53 > [2001:db8::1]:5000 \"odd\""));
  EXPECT_EQ(Translate("udp 192.0.2.9:53 > 10.0.0.1:5000 \"12345678\" more "
                      "ip_id=3 no_checksum"),
            "no_counterpart");
  TestPacket cut =
      *ParsePacket("udp 192.0.2.9:53 > 10.0.0.1:5000 len=100 no_checksum");
  cut.bytes.resize(80);
  EXPECT_EQ(Translate(cut), "not_whole");
}

TEST(IpTranslation, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"udp [2001:db8::1]:5000 > [2001:db8::9]:53", "no_counterpart"},
      {"udp [2001:db8::2]:5000 > [64:ff9b::192.0.2.9]:53", "no_counterpart"},
      {"89 10.0.0.1 > 192.0.2.9 \"ospf\"", "no_counterpart"},
      {"icmp 10.0.0.1 > 192.0.2.9 type=13 id=7", "no_counterpart"},
      {"icmp 10.0.0.1 > 192.0.2.9 echo id=7 more ip_id=3 len=16",
       "no_counterpart"},
      {"icmp6 [2001:db8::1] > [64:ff9b::192.0.2.9] type=135", "no_counterpart"},
      {"icmp 192.0.2.1 > 10.0.0.1 unreachable code=14 about "
       "{udp 10.0.0.1:5000 > 192.0.2.9:53}",
       "no_counterpart"},
      {"icmp 192.0.2.1 > 10.0.0.1 unreachable code=1 bad_checksum=1 about "
       "{udp 10.0.0.1:5000 > 192.0.2.9:53}",
       "no_counterpart"},
      {"icmp 192.0.2.1 > 10.0.0.1 unreachable code=1", "no_counterpart"},
      {"udp 192.0.2.9:53 > 10.0.0.1:5000 len=1453 df", "too_long"}};
  for (const auto& [text, why] : cases) EXPECT_EQ(Translate(text), why) << text;
  EXPECT_NE(Translate("udp 192.0.2.9:53 > 10.0.0.1:5000 len=1452 df"),
            "too_long");
  TestBuffer tight("udp 192.0.2.9:53 > 10.0.0.1:5000 len=100", 160);
  EXPECT_EQ(TranslateIp(tight.info, tight.room, Translation(), kMtu),
            PacketResize::kNoRoom);
  // Source routes, of both versions.
  TestPacket routed = {.bytes = Ipv4({.option_words = 1}, Udp(5000, 53)),
                       .link = LinkType::kRawIp};
  routed.original_length = static_cast<uint32_t>(routed.bytes.size());
  EXPECT_NE(Translate(routed), "no_counterpart");
  routed.bytes[20] = std::byte{131};
  EXPECT_EQ(Translate(routed), "no_counterpart");
  const Frame behind = Ipv6Extension(17, 1, Udp(5000, 53));
  routed.bytes = Ipv6(
      {.destination = Ipv6Of("64:ff9b::192.0.2.9"), .next_header = 43}, behind);
  routed.original_length = static_cast<uint32_t>(routed.bytes.size());
  routed.bytes[43] = std::byte{0};
  EXPECT_NE(Translate(routed), "no_counterpart");
  routed.bytes[43] = std::byte{1};
  EXPECT_EQ(Translate(routed), "no_counterpart");
}

// Reads and writes nothing beyond the packet, however it is cut or broken.
TEST(IpTranslation, WithstandsAnyBytes) {
  const TestSeeds seeds(200);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const std::vector<std::string> texts = {
        "udp [2001:db8::1]:5000 > [64:ff9b::192.0.2.9]:53 \"query\"",
        "tcp 192.0.2.9:80 > 10.0.0.1:5000 SYN options=x'020405b4'",
        "icmp 192.0.2.1 > 10.0.0.1 unreachable code=4 seq=1400 about "
        "{icmp 10.0.0.1 > 192.0.2.9 echo id=7}",
        "icmp6 [64:ff9b::192.0.2.1] > [2001:db8::1] too_big seq=1400 about "
        "{tcp [2001:db8::1]:5000 > [64:ff9b::192.0.2.9]:80}"};
    TestPacket packet = *ParsePacket(texts[rng.Below(texts.size())]);
    packet.original_length = static_cast<uint32_t>(packet.bytes.size());
    for (uint64_t i = rng.Below(3); i > 0; --i) {
      packet.bytes[rng.Below(packet.bytes.size())] =
          static_cast<std::byte>(rng.Below(256));
    }
    if (rng.Below(2) == 0) packet.bytes.resize(rng.Below(packet.bytes.size()));
    const ParsedPacket headers = Parse(packet.link, packet.bytes);
    if (!headers.has_ip()) continue;
    TestBuffer buffer(packet, packet.bytes.size() + kMaxPacketGrowth);
    if (TranslateIp(buffer.info, buffer.room, Translation(), kMtu) ==
        PacketResize::kDone) {
      buffer.Text();
    }
  }
}

}  // namespace
}  // namespace snf
