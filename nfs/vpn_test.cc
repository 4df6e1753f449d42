// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "nfs/test_vpn.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using vpn::Ends;
using vpn::kLink;
using vpn::kOuter4;
using vpn::kPacket;
using vpn::Pair;
using vpn::WordAt;

TEST(Vpn, BringsPacketsThroughTheTunnelAsTheyWere) {
  const std::vector<std::string> there = {
      kPacket,
      "tcp 10.1.0.5:5000 > 10.2.0.9:80 SYN seq=7",
      "icmp 10.1.0.5 > 10.2.0.9 echo id=7 seq=1 \"ping\"",
      "89 10.1.0.5 > 10.2.0.9 \"any protocol\"",
      "udp 10.1.0.5:5000 > 10.2.0.9:53 len=1200 more ip_id=7 tos=0xb8",
      "udp [fd00:1::5]:5000 > [fd00:2::9]:53 \"query\" tos=0xb8 ttl=3",
      "17 10.1.0.5 > 10.2.0.9 offset=1208 ip_id=7 len=40 tos=0xb8",
      "icmp 10.1.0.7 > 10.2.0.9 unreachable code=1 "
      "about {udp 10.2.0.9:53 > 10.3.0.5:5000}",
      "tcp [fd00:1::5]:5000 > [fd00:2::9]:80 SYN vlan=12",
  };
  for (const bool is_ipv6 : {false, true}) {
    for (const std::string more : {"", "udp=4500", "esn=on"}) {
      SCOPED_TRACE(absl::StrCat(is_ipv6 ? "IPv6 " : "IPv4 ", more));
      Pair pair({.is_ipv6 = is_ipv6, .more = more});
      uint64_t sent = 0;
      for (const std::string& packet : there) {
        const TestPacket sealed = pair.Sealed(packet);
        const NfResult result = pair.b().Send(sealed);
        EXPECT_EQ(result, packet);
        const TestPacket before = Packets({packet})[0];
        EXPECT_EQ(result.packet.bytes, before.bytes);
        EXPECT_EQ(result.packet.original_length, before.original_length);
        ++sent;
      }
      EXPECT_EQ(pair.a().count("out t"), sent);
      EXPECT_EQ(pair.b().count("in t"), sent);
      // All of an association is one flow, also on other VLANs.
      EXPECT_EQ(pair.a().flows(), 1u);
      EXPECT_EQ(pair.b().flows(), 1u);
      // And back.
      const std::string back = "udp 10.2.0.9:53 > 10.1.0.5:5000 \"answer\"";
      EXPECT_EQ(pair.a().Send(pair.b().Send(back).packet), back);
    }
  }
}

TEST(Vpn, BringsPacketsOfEveryLength) {
  Pair pair;
  for (size_t bytes = 0; bytes < 200; ++bytes) {
    const std::string packet =
        absl::StrCat("udp 10.1.0.5:5000 > 10.2.0.9:53 len=", bytes);
    const TestPacket sealed = pair.Sealed(packet);
    // The outer headers, IV and tag; the text ends at a multiple of 4.
    const size_t text = sealed.bytes.size() - kLink - kOuter4 - 16 - 16;
    EXPECT_EQ(text % 4, 0u);
    EXPECT_LT(text - (28 + bytes + 2), 4u);
    const NfResult result = pair.b().Send(sealed);
    EXPECT_EQ(result, packet);
  }
}

TEST(Vpn, WritesTheOuterHeaders) {
  Pair pair;
  const TestPacket first = pair.Sealed(kPacket + " tos=0xb9 ttl=3");
  const auto ip = Ipv4Header<const std::byte>::At(first.bytes, kLink);
  EXPECT_EQ(ip.source(), be32(0xc000'0201));
  EXPECT_EQ(ip.destination(), be32(0xc633'6401));
  EXPECT_EQ(ip.protocol(), IpProtocol::kEsp);
  EXPECT_EQ(ip.traffic_class(), 0xb9);
  EXPECT_EQ(ip.ttl(), 64);
  EXPECT_TRUE(ip.dont_fragment());
  EXPECT_EQ(ip.total_bytes(), first.bytes.size() - kLink);
  EXPECT_EQ(InternetChecksum(ip.header()), be16(0));
  EXPECT_EQ(WordAt(first, kOuter4), be32(0x2000'2000));
  EXPECT_EQ(WordAt(first, kOuter4 + 4), be32(1));
  EXPECT_EQ(WordAt(pair.Sealed(kPacket), kOuter4 + 4), be32(2));

  Pair udp({.is_ipv6 = true, .more = "udp=4501"});
  const TestPacket in_udp = udp.Sealed(kPacket);
  const auto header = UdpHeader<const std::byte>::At(in_udp.bytes, kLink + 40);
  EXPECT_EQ(header.source_port(), be16(4'500));
  EXPECT_EQ(header.destination_port(), be16(4'501));
  EXPECT_EQ(header.checksum(), be16(0));
  EXPECT_EQ(header.length_bytes(), in_udp.bytes.size() - kLink - 40);
  EXPECT_EQ(WordAt(in_udp, 48), be32(0x2000'2000));
}

TEST(Vpn, DropsOrPassesOtherPacketsAsItIsTold) {
  const std::string others[] = {
      "udp 10.3.0.5:5000 > 10.2.0.9:53",
      "udp 10.1.0.5:5000 > 192.0.2.9:53",
      "udp 203.0.113.5:5000 > 192.0.2.1:53",
      "50 192.0.2.1 > 203.0.113.5 \"of somebody else\"",
      "udp 198.51.100.1:4500 > 192.0.2.1:4500 x'0000000001020304'",
      "udp [::ffff:10.1.0.5]:5000 > [::ffff:10.2.0.9]:53"};
  NfTest drops(Ends{}.OptionsOf(true));
  NfTest passes(
      Ends{.more = "udp=4500", .options = ",other=pass"}.OptionsOf(true));
  for (const std::string& packet : others) {
    EXPECT_EQ(drops.Send(packet), "drop no_tunnel") << packet;
    EXPECT_EQ(passes.Send(packet), packet);
  }
  EXPECT_EQ(passes.count("passed_by"), std::size(others));
}

TEST(Vpn, DropsPlainTextThatATunnelIsToBring) {
  NfTest a(Ends{.options = ",other=pass"}.OptionsOf(true));
  EXPECT_EQ(a.Send("udp 10.2.0.9:53 > 10.1.0.5:5000"), "drop not_protected");
  EXPECT_EQ(a.Send("udp [fd00:2::9]:53 > [fd00:1::5]:5000"),
            "drop not_protected");
}

TEST(Vpn, KnowsAssociationsBySpiEndsAndForm) {
  NfTest esp(Ends{}.OptionsOf(true));
  NfTest udp(Ends{.more = "udp=4500", .name = "udp"}.OptionsOf(true));
  const std::string text = std::string(80, '0');
  const auto plain = [&](const std::string& spi, const std::string& from) {
    return esp.Send("50 " + from + " > 192.0.2.1 x'" + spi + text + "'").text;
  };
  EXPECT_EQ(plain("00001000", "198.51.100.1"), "drop malformed");  // number 0
  EXPECT_EQ(plain("00001001", "198.51.100.1"), "drop unknown_spi");
  EXPECT_EQ(plain("00001000", "198.51.100.2"), "drop unknown_spi");
  EXPECT_EQ(esp.Send("50 198.51.100.1 > 192.0.2.1 x'000010'"),
            "drop malformed");
  EXPECT_EQ(esp.Send("50 198.51.100.1 > 192.0.2.1 more ip_id=1 len=64"),
            "drop fragment");
  EXPECT_EQ(esp.Send("50 198.51.100.1 > 192.0.2.1 offset=64 ip_id=1 len=64"),
            "drop fragment");
  const auto in_udp = [&](const std::string& hex, const std::string& from) {
    return udp.Send("udp " + from + " > 192.0.2.1:4500 x'" + hex + "'").text;
  };
  EXPECT_EQ(in_udp("ff", "198.51.100.1:4500"), "consume");
  EXPECT_EQ(udp.count("keepalives"), 1u);
  EXPECT_EQ(in_udp("ffff", "198.51.100.1:4500"), "drop malformed");
  EXPECT_EQ(in_udp("00001001" + text, "198.51.100.1:4500"), "drop unknown_spi");
  // A NAT gave the peer another address and port.
  EXPECT_EQ(in_udp("00001000" + text, "203.0.113.7:61000"), "drop malformed");
}

TEST(Vpn, AnswersPacketsThatAreTooLong) {
  // 20 of IP, 16 up to the IV, 16 of the tag: 1,448 remain, with 2 at the end.
  Pair pair({.options = ",mtu=1500"});
  const std::string fits = "udp 10.1.0.5:5000 > 10.2.0.9:53 df len=1418";
  const std::string long4 = "udp 10.1.0.5:5000 > 10.2.0.9:53 df len=1419";
  EXPECT_EQ(pair.ToB(pair.Sealed(fits)),
            Packets({fits}).size() == 1 ? ToText(Packets({fits})[0]) : "");
  EXPECT_EQ(pair.a().Send(long4), "drop too_big");
  std::vector<std::string> answers = pair.a().TakeEmitted();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_NE(answers[0].find("icmp 10.2.0.9 > 10.1.0.5 unreachable code=4"),
            std::string::npos)
      << answers[0];
  EXPECT_EQ(pair.a().Send("udp [fd00:1::5]:5000 > [fd00:2::9]:53 len=1400"),
            "drop too_big");
  answers = pair.a().TakeEmitted();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_NE(answers[0].find("too_big"), std::string::npos) << answers[0];
  EXPECT_EQ(pair.a().count("too_big"), 2u);
  // A packet that does not leave takes no number.
  EXPECT_EQ(WordAt(pair.Sealed(kPacket), kOuter4 + 4), be32(2));
}

// RFC 6040 §4.2, Figure 4.
TEST(Vpn, BringsMarksOfCongestion) {
  struct Case {
    int inner, outer;
    int result;  // -1: dropped
  };
  const Case cases[] = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 3, -1},
                        {1, 0, 1}, {1, 1, 1}, {1, 2, 1}, {1, 3, 3},
                        {2, 0, 2}, {2, 1, 1}, {2, 2, 2}, {2, 3, 3},
                        {3, 0, 3}, {3, 1, 3}, {3, 2, 3}, {3, 3, 3}};
  const std::string ends[] = {"udp 10.1.0.5:5000 > 10.2.0.9:53",
                              "udp [fd00:1::5]:5000 > [fd00:2::9]:53"};
  for (const bool is_ipv6 : {false, true}) {
    Pair pair({.is_ipv6 = is_ipv6});
    for (const std::string& packet : ends) {
      for (const Case& c : cases) {
        // The class of service stays as the sender gave it.
        const auto text = [&](int ecn) {
          return packet + " tos=" + std::to_string(0xb8 + ecn);
        };
        TestPacket sealed = pair.Sealed(text(c.inner));
        std::byte& byte = sealed.bytes[kLink + 1];
        const int shift = is_ipv6 ? 4 : 0;
        byte &= ~(std::byte{3} << shift);
        byte |= static_cast<std::byte>(c.outer) << shift;
        const NfResult result = pair.b().Send(sealed);
        EXPECT_EQ(result, c.result < 0 ? "drop congestion" : text(c.result))
            << c.inner << c.outer;
      }
    }
  }
}

TEST(Vpn, SendsNothingThatIsNotWhole) {
  NfTest a(Ends{}.OptionsOf(true));
  TestPacket cut = Packets({kPacket})[0];
  cut.bytes.pop_back();
  EXPECT_EQ(a.Send(cut), "drop cut");
}

TEST(Vpn, ChoosesTheFirstTunnelThatFits) {
  const std::string keys[] = {std::string(40, '1'), std::string(40, '2'),
                              std::string(40, '3'), std::string(40, '4')};
  const std::string file = vpn::FileOf(
      "two",
      "# name, ends, associations\n"
      "\n"
      "narrow local=192.0.2.1 peer=198.51.100.1 spi_in=256 spi_out=0x101 "
      "key_in=0x" +
          keys[0] + " key_out=" + keys[1] +
          " inside=10.1.0.0/16 remote=10.2.3.0/24\r\n"
          "\twide local=2001:db8::1 peer=2001:db8::2 spi_in=257 spi_out=0x101 "
          "key_in=" +
          keys[2] + " key_out=" + keys[3] +
          " inside=10.0.0.0/8,192.168.0.0/16 remote=0.0.0.0/0 esn=off");
  NfTest nf("vpn:tunnels=" + file);
  EXPECT_TRUE(nf.Send("udp 10.1.0.5:1 > 10.2.3.9:53").packet.bytes[12] ==
              std::byte{0x08});
  EXPECT_EQ(nf.count("out narrow"), 1u);
  nf.Send("udp 10.1.0.5:1 > 10.2.4.9:53");
  nf.Send("udp 10.9.0.5:1 > 10.2.3.9:53");
  EXPECT_EQ(nf.count("out wide"), 2u);
  EXPECT_EQ(nf.flows(), 2u);
}

TEST(Vpn, RunsInAChain) {
  // The IPv4 sides of what stands inside and outside of the tunnel.
  const std::string chain = "policer(rate=1Gbps) | " + [] {
    std::string options = Ends{}.OptionsOf(true);
    return options.replace(3, 1, "(") + ")";
  }() + " | monitor";
  Pair pair;
  NfTest a(chain);
  const NfResult sealed = a.Send(kPacket);
  EXPECT_EQ(pair.b().Send(sealed.packet), kPacket);
  const std::string back = "udp 10.2.0.9:53 > 10.1.0.5:5000 \"answer\"";
  EXPECT_EQ(a.Send(pair.b().Send(back).packet), back);
}

TEST(Vpn, NamesErrorsOfTheFileButNoKey) {
  const std::string key1(40, 'a'), key2(40, 'b');
  const std::string ends = "t local=192.0.2.1 peer=198.51.100.1 ";
  const std::string spis = "spi_in=0x1000 spi_out=0x1001 ";
  const std::string keys = "key_in=" + key1 + " key_out=" + key2 + " ";
  const std::string nets = "inside=10.1.0.0/16 remote=10.2.0.0/16";
  const std::string good = ends + spis + keys + nets;
  const std::pair<std::string, std::string> cases[] = {
      {"", ": names no tunnel"},
      {"# nothing", ": names no tunnel"},
      {"t/t " + spis, ":1: word 1: want a name"},
      {good + " more", ":1: word 10: want local="},
      {good + " " + key1, ":1: word 10: want local="},
      {good + " key=" + key1, ":1: word 10: want local="},
      {good + " udp=0", ":1: word 10, udp=: want a port"},
      {good + " esn=yes", ":1: word 10, esn=: want on or off"},
      {good + " first=0", ":1: word 10, first=: want a number"},
      {good + " first=0x100000000", ":1: first= of 64 bits without esn=on"},
      {good + " spi_in=256", ":1: spi_in= is given twice"},
      {ends + "spi_in=255 spi_out=256 " + keys + nets,
       "spi_in=: want a number"},
      {ends + "spi_in=0x100000000 " + keys + nets, "spi_in=: want a number"},
      {ends + spis + "key_in=" + key1 + "a key_out=" + key2 + nets,
       ":1: word 6, key_in=: want 40 or 72"},
      {ends + spis + "key_in=" + key1 + " " + nets, ":1: key_out= is missing"},
      {ends + spis + "key_in=" + key1 + " key_out=" + key1 + " " + nets,
       "key_in= and key_out= are equal"},
      {"t local=192.0.2.1 peer=2001:db8::1 " + spis, "peer=: want"},
      {"t local=192.0.2.1 peer=192.0.2.1 " + spis + keys + nets,
       "local= and peer= are the same"},
      {ends + spis + keys + "inside=10.1.0.1/16 remote=10.2.0.0/16",
       "inside=: want"},
      {good + "\n" + good, ":2: a second tunnel t"},
      {good + "\nu" + good.substr(1), ":2: spi_in= is that of t"},
      {good +
           "\nu local=192.0.2.1 peer=198.51.100.1 spi_in=300 "
           "spi_out=0x1001 " +
           keys + nets,
       ":2: spi_out= and peer= are as in t"},
      {good +
           "\nu local=192.0.2.1 peer=198.51.100.2 spi_in=300 "
           "spi_out=0x1001 key_in=" +
           key2 + " key_out=" + std::string(40, 'c') + " " + nets,
       ":2: a key is also that of t"},
  };
  const auto error_of = [](const std::string& options) {
    return std::string(
        FindNf("vpn")->check(*NfOptions::Parse(options)).message());
  };
  for (const auto& [text, why] : cases) {
    const std::string error = error_of("tunnels=" + vpn::FileOf("wrong", text));
    EXPECT_NE(error.find(why), std::string::npos) << text << ": " << error;
    EXPECT_EQ(error.find("aaaa"), std::string::npos) << error;
    EXPECT_EQ(error.find("bbbb"), std::string::npos) << error;
  }
  const std::string file = "tunnels=" + vpn::FileOf("good", good);
  EXPECT_EQ(error_of(file), "");
  EXPECT_NE(error_of("").find("tunnels"), std::string::npos);
  EXPECT_NE(error_of("tunnels=/nowhere").find("/nowhere"), std::string::npos);
  EXPECT_NE(error_of(file + ",window=5000").find("window"), std::string::npos);
  EXPECT_NE(error_of(file + ",other=x").find("other"), std::string::npos);
  const std::string v6 = vpn::FileOf(
      "v6", ends + spis + keys + "inside=fd00:1::/32 remote=fd00:2::/32");
  EXPECT_NE(error_of("mtu=1335,tunnels=" + v6).find("1280 bytes of IPv6 in t"),
            std::string::npos);
  EXPECT_EQ(error_of("mtu=1336,tunnels=" + v6), "");
}

}  // namespace
}  // namespace snf
