// SPDX-License-Identifier: Apache-2.0
#include "base/packet/packet_parser.h"

#include <algorithm>
#include <memory>

#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

const Frame kUdp = Ipv4({}, Udp(5000, 53));
const Frame kUdp6 = Ipv6({}, Udp(5000, 53));

// Expects IP at `l3_offset` with UDP right behind it, and all of it there.
void ExpectUdp(const ParsedPacket& packet, L3 l3, size_t l3_offset) {
  EXPECT_EQ(packet.result, ParseResult::kComplete) << Name(packet.result);
  EXPECT_EQ(packet.l3, l3);
  EXPECT_EQ(packet.l3_offset, l3_offset);
  EXPECT_EQ(packet.l4_offset, l3_offset + (l3 == L3::kIpv4 ? 20 : 40));
  EXPECT_EQ(packet.l4_protocol, IpProtocol::kUdp);
  EXPECT_EQ(packet.payload_offset, packet.l4_offset + 8);
  EXPECT_EQ(packet.payload_bytes(), 8);
}

TEST(Parse, FindsUdpBehindEveryLinkHeader) {
  const auto ethernet = LinkType::kEthernet;
  ExpectUdp(Parse(ethernet, Ethernet(0x0800, kUdp)), L3::kIpv4, 14);
  ExpectUdp(Parse(ethernet, Ethernet(0x86dd, kUdp6)), L3::kIpv6, 14);
  ExpectUdp(Parse(ethernet, Snap(0x0800, kUdp)), L3::kIpv4, 22);
  ExpectUdp(Parse(ethernet, Snap(0x86dd, kUdp6)), L3::kIpv6, 22);
  ExpectUdp(Parse(LinkType::kRawIp, kUdp), L3::kIpv4, 0);
  ExpectUdp(Parse(LinkType::kRawIp, kUdp6), L3::kIpv6, 0);
  ExpectUdp(Parse(LinkType::kLinuxSll, LinuxSll(0x0800, kUdp)), L3::kIpv4, 16);
  ExpectUdp(Parse(LinkType::kLinuxSll2, LinuxSll2(0x86dd, kUdp6)), L3::kIpv6,
            20);
}

TEST(Parse, ReadsTheLoopbackFamilyInEitherByteOrder) {
  for (const LinkType link : {LinkType::kNull, LinkType::kLoop}) {
    ExpectUdp(Parse(link, Hex("02 00 00 00") + kUdp), L3::kIpv4, 4);
    ExpectUdp(Parse(link, Hex("00 00 00 02") + kUdp), L3::kIpv4, 4);
    for (const char* family : {"0a", "18", "1c", "1e"}) {
      const Frame little = Hex(family) + Hex("00 00 00");
      const Frame big = Hex("00 00 00") + Hex(family);
      ExpectUdp(Parse(link, little + kUdp6), L3::kIpv6, 4);
      ExpectUdp(Parse(link, big + kUdp6), L3::kIpv6, 4);
    }
    EXPECT_EQ(Parse(link, Hex("07 00 00 00") + kUdp).result,
              ParseResult::kNotIp);
  }
}

TEST(Parse, KeepsTheOuterAndTheInnerOfTheVlanTags) {
  const Frame one = Ethernet(0x8100, Vlan(7, 0x0800, kUdp));
  const Frame two = Ethernet(0x88a8, Vlan(100, 0x8100, Vlan(7, 0x0800, kUdp)));
  const Frame three = Ethernet(
      0x9100, Vlan(100, 0x8100, Vlan(7, 0x8100, Vlan(8, 0x86dd, kUdp6))));

  const ParsedPacket p1 = Parse(LinkType::kEthernet, one);
  ExpectUdp(p1, L3::kIpv4, 18);
  EXPECT_EQ(p1.vlan_tags, 1);
  EXPECT_EQ(p1.outer_vlan, 7);
  EXPECT_EQ(p1.inner_vlan, 0);

  const ParsedPacket p2 = Parse(LinkType::kEthernet, two);
  ExpectUdp(p2, L3::kIpv4, 22);
  EXPECT_EQ(p2.vlan_tags, 2);
  EXPECT_EQ(p2.outer_vlan, 100);
  EXPECT_EQ(p2.inner_vlan, 7);

  const ParsedPacket p3 = Parse(LinkType::kEthernet, three);
  ExpectUdp(p3, L3::kIpv6, 26);
  EXPECT_EQ(p3.vlan_tags, 3);
  EXPECT_EQ(p3.inner_vlan, 7);
}

TEST(Parse, TakesOnlyTheIdOfAVlanTag) {
  const Frame frame = Ethernet(0x8100, Vlan(0xe000 | 7, 0x0800, kUdp));
  EXPECT_EQ(Parse(LinkType::kEthernet, frame).outer_vlan, 7);
}

TEST(Parse, RefusesMoreTagsThanTheLimit) {
  Frame inside = Vlan(1, 0x0800, kUdp);
  for (int tags = 1; tags < kMaxVlanTags; ++tags) {
    inside = Vlan(1, 0x8100, inside);
  }
  EXPECT_EQ(Parse(LinkType::kEthernet, Ethernet(0x8100, inside)).result,
            ParseResult::kComplete);
  inside = Vlan(1, 0x8100, inside);
  EXPECT_EQ(Parse(LinkType::kEthernet, Ethernet(0x8100, inside)).result,
            ParseResult::kTooManyTags);
}

TEST(Parse, UnwrapsPppoeSessions) {
  const auto link = LinkType::kEthernet;
  ExpectUdp(Parse(link, Ethernet(0x8864, Pppoe(0x21, kUdp))), L3::kIpv4, 22);
  ExpectUdp(Parse(link, Ethernet(0x8864, Pppoe(0x57, kUdp6))), L3::kIpv6, 22);
  ExpectUdp(Parse(link, Ethernet(0x8864, Pppoe(0x281, Mpls(16, true, kUdp)))),
            L3::kIpv4, 26);
  // LCP, and the discovery stage.
  EXPECT_EQ(Parse(link, Ethernet(0x8864, Pppoe(0xc021, kUdp))).result,
            ParseResult::kLinkControl);
  EXPECT_EQ(Parse(link, Ethernet(0x8863, Pppoe(0x21, kUdp))).result,
            ParseResult::kLinkControl);
  Frame padt = Ethernet(0x8864, Pppoe(0x21, kUdp));
  padt[15] = std::byte{0xa7};
  EXPECT_EQ(Parse(link, padt).result, ParseResult::kNotIp);
}

TEST(Parse, UnwrapsMplsUpToTheLimit) {
  Frame stack = Mpls(16, true, kUdp6);
  for (int labels = 1; labels < kMaxMplsLabels; ++labels) {
    stack = Mpls(17, false, stack);
  }
  ExpectUdp(Parse(LinkType::kEthernet, Ethernet(0x8847, stack)), L3::kIpv6,
            14 + 4 * kMaxMplsLabels);
  stack = Mpls(17, false, stack);
  EXPECT_EQ(Parse(LinkType::kEthernet, Ethernet(0x8847, stack)).result,
            ParseResult::kTooManyTags);
}

TEST(Parse, TakesAPseudowireForWhatItIs) {
  const Frame wire = Hex("00 00 00 00") + Ethernet(0x0800, kUdp);
  EXPECT_EQ(
      Parse(LinkType::kEthernet, Ethernet(0x8847, Mpls(16, true, wire))).result,
      ParseResult::kNotIp);
}

TEST(Parse, FindsNoIpInLlcWithoutSnap) {
  const Frame stp = Ethernet(38, Hex("42 42 03") + Frame(35));
  EXPECT_EQ(Parse(LinkType::kEthernet, stp).result, ParseResult::kLinkControl);
  // Cisco's organisation code: no Ethernet type, and CDP.
  Frame cisco = Snap(0x0800, kUdp);
  cisco[19] = std::byte{0x0c};
  EXPECT_EQ(Parse(LinkType::kEthernet, cisco).result, ParseResult::kNotIp);
  cisco[20] = std::byte{0x20};
  EXPECT_EQ(Parse(LinkType::kEthernet, cisco).result,
            ParseResult::kLinkControl);
  const Frame unknown = Ethernet(38, Hex("06 06 03") + Frame(35));
  EXPECT_EQ(Parse(LinkType::kEthernet, unknown).result, ParseResult::kNotIp);
}

TEST(Parse, StepsOverIpv4AndTcpOptions) {
  const Frame frame = Ethernet(
      0x0800, Ipv4({.protocol = 6, .option_words = 10}, Tcp(1, 2, 10, 5)));
  const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
  EXPECT_EQ(packet.result, ParseResult::kComplete);
  EXPECT_EQ(packet.l4_offset, 14 + 60);
  EXPECT_EQ(packet.payload_offset, 14 + 60 + 60);
  EXPECT_EQ(packet.payload_bytes(), 5);
}

TEST(Parse, LeavesLinkPaddingOutOfThePacket) {
  const Frame frame = Ethernet(0x0800, Ipv4({}, Udp(1, 2, 0))) + Frame(18);
  const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
  EXPECT_EQ(packet.end_offset, 14 + 28);
  EXPECT_EQ(packet.payload_bytes(), 0);
}

TEST(Parse, DoesNotReadPortsFromPadding) {
  const Frame frame = Ethernet(0x0800, Ipv4({}, Hex("13 88"))) + Frame(24);
  EXPECT_EQ(Parse(LinkType::kEthernet, frame).result,
            ParseResult::kL4Truncated);
}

TEST(Parse, TakesALengthOfZeroForTheFrames) {
  Frame v4 = kUdp, v6 = kUdp6;
  v4[2] = v4[3] = v6[4] = v6[5] = std::byte{0};
  EXPECT_EQ(Parse(LinkType::kRawIp, v4).end_offset, v4.size());
  EXPECT_EQ(Parse(LinkType::kRawIp, v6).end_offset, v6.size());
}

TEST(Parse, WalksIpv6ExtensionsInAnyOrder) {
  const Frame packet = Ipv6(
      {.next_header = 0},
      Ipv6Extension(
          43, 2,
          Ipv6Extension(
              51, 3, Ipv6Authentication(60, Ipv6Extension(6, 1, Tcp(1, 2))))));
  const ParsedPacket parsed = Parse(LinkType::kRawIp, packet);
  EXPECT_EQ(parsed.result, ParseResult::kComplete) << Name(parsed.result);
  EXPECT_EQ(parsed.l4_offset, 40 + 16 + 24 + 24 + 8);
  EXPECT_EQ(parsed.l4_protocol, IpProtocol::kTcp);
}

// Every host walks only the extension headers of RFC 8200 and AH.
TEST(Parse, DoesNotWalkHeadersOfHostIdentity) {
  for (const uint8_t protocol : std::vector<uint8_t>{135, 139, 140}) {
    const auto parse = [&](uint8_t next) {
      return Parse(LinkType::kRawIp, Ipv6({.next_header = protocol},
                                          Ipv6Extension(next, 2, Udp(1, 53))));
    };
    const ParsedPacket before_udp = parse(17);
    EXPECT_EQ(before_udp.result, ParseResult::kExtensionNotRead);
    EXPECT_EQ(before_udp.l4_protocol, IpProtocol{protocol});
    EXPECT_EQ(before_udp.l4_offset, 40);
    EXPECT_TRUE(before_udp.has_ip());
    const ParsedPacket alone = parse(59);
    EXPECT_EQ(alone.result, ParseResult::kComplete);
    EXPECT_EQ(alone.l4_protocol, IpProtocol{protocol});
  }
}

TEST(Parse, FindsIpBehindPpp) {
  const auto link = LinkType::kPpp;
  ExpectUdp(Parse(link, Hex("ff 03 00 21") + kUdp), L3::kIpv4, 4);
  ExpectUdp(Parse(link, Hex("00 21") + kUdp), L3::kIpv4, 2);
  ExpectUdp(Parse(link, Hex("ff 03 57") + kUdp6), L3::kIpv6, 3);
  ExpectUdp(Parse(link, Hex("ff 03 02 81") + Mpls(16, true, kUdp)), L3::kIpv4,
            8);
  EXPECT_EQ(Parse(link, Hex("ff 03 c0 21") + kUdp).result,
            ParseResult::kLinkControl);
  EXPECT_EQ(Parse(link, Hex("00 2d") + kUdp).result, ParseResult::kNotIp);
  EXPECT_EQ(Parse(link, Hex("ff 03")).result, ParseResult::kLinkTruncated);
  EXPECT_EQ(Parse(link, Hex("ff 03 00")).result, ParseResult::kLinkTruncated);
  EXPECT_EQ(Parse(link, {}).result, ParseResult::kLinkTruncated);
}

TEST(Parse, FindsIpInANetfilterLogInEitherByteOrder) {
  const auto link = LinkType::kNflog;
  const Frame head = Hex("02 00 00 2a");
  // A prefix of 5 bytes, padded to 8, then the packet of 36 bytes and a header.
  const Frame little = head + Hex("0900 0a00 6669727374 000000 2800 0900") +
                       kUdp + Hex("0800 0100 00000000");
  const Frame big = head + Hex("0009 000a 6669727374 000000 0028 0009") + kUdp;
  ASSERT_EQ(kUdp.size(), 36u);
  for (const Frame& frame : {little, big}) {
    const ParsedPacket packet = Parse(link, frame);
    ExpectUdp(packet, L3::kIpv4, 4 + 12 + 4);
    EXPECT_EQ(packet.end_offset, 4 + 12 + 4 + 36);
  }
  EXPECT_EQ(Parse(link, head + Hex("0800 0100 00000000")).result,
            ParseResult::kNotIp);
  EXPECT_EQ(Parse(link, head + Hex("0200 0100")).result,
            ParseResult::kLinkTruncated)
      << "an attribute shorter than itself";
  Frame many = head;
  for (int i = 0; i < 600; ++i) many = many + Hex("0800 0100 00000000");
  EXPECT_EQ(Parse(link, many).result, ParseResult::kTooManyTags);
}

TEST(Parse, TellsWhatKeepsASegmentAliveFromUnknownTypes) {
  const auto of = [](uint16_t type) {
    return Parse(LinkType::kEthernet, Ethernet(type, Frame(46))).result;
  };
  for (const uint16_t type :
       std::vector<uint16_t>{0x0806, 0x8035, 0x8808, 0x8809, 0x8863, 0x888e,
                             0x88cc, 0x88f5, 0x88f6, 0x88f7, 0x8902, 0x9000}) {
    EXPECT_EQ(of(type), ParseResult::kLinkControl) << std::hex << type;
  }
  for (const uint16_t type :
       std::vector<uint16_t>{0x0801, 0x8137, 0x86de, 0x88e5, 0x88e7, 0x8909,
                             0x8926, 0x894f, 0x9200, 0xffff}) {
    EXPECT_EQ(of(type), ParseResult::kNotIp) << std::hex << type;
  }
}

TEST(Parse, StopsAtEncryption) {
  const Frame packet = Ipv6({.next_header = 50}, Frame(32));
  const ParsedPacket parsed = Parse(LinkType::kRawIp, packet);
  EXPECT_EQ(parsed.result, ParseResult::kComplete);
  EXPECT_EQ(parsed.l4_protocol, IpProtocol::kEsp);
  EXPECT_EQ(parsed.l4_offset, 40);
}

TEST(Parse, RefusesMoreExtensionsThanTheLimit) {
  Frame chain = Ipv6Extension(17, 1, Udp(1, 2));
  for (int i = 1; i < kMaxIpv6Extensions; ++i) {
    chain = Ipv6Extension(60, 1, chain);
  }
  EXPECT_EQ(Parse(LinkType::kRawIp, Ipv6({.next_header = 60}, chain)).result,
            ParseResult::kComplete);
  chain = Ipv6Extension(60, 1, chain);
  const ParsedPacket parsed =
      Parse(LinkType::kRawIp, Ipv6({.next_header = 60}, chain));
  EXPECT_EQ(parsed.result, ParseResult::kTooManyExtensions);
  EXPECT_TRUE(parsed.has_ip());
}

TEST(Parse, TellsFirstLaterAndWholePacketsApart) {
  const auto v4 = [](uint16_t offset, bool more) {
    return Parse(LinkType::kRawIp, Ipv4({.id = 4711,
                                         .fragment_offset_bytes = offset,
                                         .more_fragments = more},
                                        Udp(1, 2, 24)));
  };
  EXPECT_EQ(v4(0, false).fragment, Fragment::kNone);
  EXPECT_EQ(v4(0, true).fragment, Fragment::kFirst);
  EXPECT_EQ(v4(0, true).result, ParseResult::kComplete);
  EXPECT_EQ(v4(1480, true).fragment, Fragment::kLater);
  EXPECT_EQ(v4(1480, false).result, ParseResult::kLaterFragment);
  EXPECT_EQ(v4(1480, false).fragment_offset_bytes, 1480);
  EXPECT_EQ(v4(65528, false).fragment_offset_bytes, 65528);
  EXPECT_EQ(v4(0, true).fragment_id, 4711);
}

TEST(Parse, TellsIpv6FragmentsApart) {
  const auto v6 = [](uint16_t offset, bool more) {
    return Parse(LinkType::kRawIp,
                 Ipv6({.next_header = 0},
                      Ipv6Extension(44, 1,
                                    Ipv6Fragment(17, offset, more, 0x1234'5678,
                                                 Udp(1, 2)))));
  };
  EXPECT_EQ(v6(0, false).fragment, Fragment::kNone) << "an atomic fragment";
  EXPECT_EQ(v6(0, false).result, ParseResult::kComplete);
  EXPECT_EQ(v6(0, true).fragment, Fragment::kFirst);
  EXPECT_EQ(v6(0, true).fragment_id, 0x1234'5678);
  EXPECT_EQ(v6(0, true).l4_offset, 40 + 8 + 8);
  EXPECT_EQ(v6(1448, false).fragment, Fragment::kLater);
  EXPECT_EQ(v6(1448, false).fragment_offset_bytes, 1448);
  EXPECT_EQ(v6(1448, false).l4_protocol, IpProtocol::kUdp);
}

TEST(Parse, DoesNotLookForHeadersInALaterFragment) {
  const Frame packet =
      Ipv6({.next_header = 44}, Ipv6Fragment(60, 8, false, 1, Frame(8)));
  const ParsedPacket parsed = Parse(LinkType::kRawIp, packet);
  EXPECT_EQ(parsed.result, ParseResult::kLaterFragment);
  EXPECT_EQ(parsed.l4_protocol, IpProtocol::kDestinationOptions);
  EXPECT_EQ(parsed.l4_offset, 48);
}

TEST(Parse, FindsThePacketThatAnIcmpErrorQuotes) {
  const Frame cut(kUdp.begin(), kUdp.begin() + 28);
  const Frame frame =
      Ethernet(0x0800, Ipv4({.protocol = 1}, Icmp(3, 3, 0, cut)));
  const ParsedPacket outer = Parse(LinkType::kEthernet, frame);
  ASSERT_EQ(outer.icmp_inner_offset, 14 + 20 + 8);
  const ParsedPacket inner = ParseInner(frame, outer);
  EXPECT_EQ(inner.l3, L3::kIpv4);
  EXPECT_EQ(inner.l3_offset, 42);
  EXPECT_EQ(inner.l4_offset, 62);
  EXPECT_EQ(inner.l4_protocol, IpProtocol::kUdp);

  const Frame v6 = Ipv6({.next_header = 58}, Icmp(2, 0, 0, kUdp6));
  const ParsedPacket outer6 = Parse(LinkType::kRawIp, v6);
  ASSERT_EQ(outer6.icmp_inner_offset, 48);
  ExpectUdp(ParseInner(v6, outer6), L3::kIpv6, 48);
}

TEST(Parse, FindsNoQuotedPacketInAQuery) {
  for (const int type : {0, 8, 9, 10, 13, 30}) {
    const Frame packet =
        Ipv4({.protocol = 1}, Icmp(static_cast<uint8_t>(type), 0, 1, kUdp));
    EXPECT_EQ(Parse(LinkType::kRawIp, packet).icmp_inner_offset, 0) << type;
  }
  for (const int type : {128, 129, 134, 135}) {
    const Frame packet = Ipv6({.next_header = 58},
                              Icmp(static_cast<uint8_t>(type), 0, 1, kUdp6));
    EXPECT_EQ(Parse(LinkType::kRawIp, packet).icmp_inner_offset, 0) << type;
  }
}

TEST(Parse, NamesWhatIsWrongWithAnIpHeader) {
  const auto result = [](Frame ip, size_t at, uint8_t byte) {
    ip[at] = std::byte{byte};
    return Parse(LinkType::kEthernet, Ethernet(0x0800, ip)).result;
  };
  EXPECT_EQ(result(kUdp, 0, 0x65), ParseResult::kIpBadVersion);
  EXPECT_EQ(result(kUdp, 0, 0x44), ParseResult::kIpBadHeaderLength);
  EXPECT_EQ(result(kUdp, 3, 19), ParseResult::kIpBadHeaderLength);
  EXPECT_EQ(result(kUdp, 0, 0x4f), ParseResult::kIpTruncated);
  EXPECT_EQ(Parse(LinkType::kRawIp, Hex("00 11 22")).result,
            ParseResult::kIpBadVersion);
  EXPECT_EQ(Parse(LinkType::kEthernet, Ethernet(0x86dd, kUdp)).result,
            ParseResult::kIpBadVersion);
  EXPECT_EQ(Parse(LinkType::kRawIp, {}).result, ParseResult::kIpTruncated);
}

TEST(Parse, NamesATcpHeaderThatIsTooShort) {
  Frame tcp = Tcp(1, 2);
  tcp[12] = std::byte{0x40};
  EXPECT_EQ(Parse(LinkType::kRawIp, Ipv4({.protocol = 6}, tcp)).result,
            ParseResult::kL4Malformed);
  tcp[12] = std::byte{0x60};
  EXPECT_EQ(Parse(LinkType::kRawIp, Ipv4({.protocol = 6}, tcp)).result,
            ParseResult::kL4Truncated);
}

// Expects what must hold whatever the bytes are.
void ExpectSane(const ParsedPacket& packet, size_t frame_bytes) {
  ASSERT_LT(static_cast<size_t>(packet.result), kParseResults);
  ASSERT_EQ(packet.has_ip(), packet.result < ParseResult::kNotIp);
  if (!packet.has_ip()) return;
  ASSERT_LT(packet.l3_offset, packet.l4_offset);
  ASSERT_LE(packet.l4_offset, packet.payload_offset);
  ASSERT_LE(packet.payload_offset, packet.end_offset);
  ASSERT_LE(packet.end_offset, frame_bytes);
  if (packet.icmp_inner_offset != 0) {
    ASSERT_LT(packet.icmp_inner_offset, packet.end_offset);
  }
}

// Parses a copy that ends where its memory ends, so that a sanitizer sees every
// byte read beyond it, and that begins at an odd address.
ParsedPacket ParseAtTheEdge(LinkType link, std::span<const std::byte> frame) {
  const auto copy = std::make_unique<std::byte[]>(frame.size() + 1);
  std::copy(frame.begin(), frame.end(), copy.get() + 1);
  const std::span<const std::byte> odd(copy.get() + 1, frame.size());
  const ParsedPacket packet = Parse(link, odd);
  ExpectSane(packet, frame.size());
  if (packet.icmp_inner_offset != 0) {
    ExpectSane(ParseInner(odd, packet), frame.size());
  }
  return packet;
}

TEST(Parse, SurvivesEverySampleCutAtEveryByte) {
  for (const Sample& sample : AllSamples()) {
    SCOPED_TRACE(sample.name);
    const ParsedPacket whole = ParseAtTheEdge(sample.link, sample.frame);
    for (size_t size = 0; size < sample.frame.size(); ++size) {
      SCOPED_TRACE(size);
      const ParsedPacket cut =
          ParseAtTheEdge(sample.link, std::span(sample.frame).first(size));
      if (!whole.has_ip()) {
        EXPECT_FALSE(cut.has_ip());
      } else if (size >= whole.payload_offset) {
        EXPECT_EQ(cut.result, whole.result);
        EXPECT_EQ(cut.payload_offset, whole.payload_offset);
      } else if (cut.has_ip()) {
        EXPECT_EQ(cut.result, ParseResult::kL4Truncated);
        EXPECT_EQ(cut.l3_offset, whole.l3_offset);
      } else {
        EXPECT_NE(cut.result, ParseResult::kIpBadVersion);
        EXPECT_NE(cut.result, ParseResult::kIpBadHeaderLength);
      }
    }
  }
}

TEST(Parse, SurvivesMutatedSamples) {
  const uint64_t seed = TestSeeds::One(20'240'131);
  Rng rng(seed);
  const std::vector<Sample> samples = AllSamples();
  std::array<int, kParseResults> seen{};
  for (int round = 0; round < 200'000; ++round) {
    Sample sample = samples[rng.Below(samples.size())];
    for (uint64_t edits = 1 + rng.Below(4); edits > 0; --edits) {
      // Most edits hit the headers, where they matter.
      const size_t at = rng.Below(std::min<size_t>(sample.frame.size(), 80));
      sample.frame[at] = static_cast<std::byte>(rng.Next());
    }
    sample.frame.resize(rng.Below(sample.frame.size()) + 1);
    const auto link = static_cast<LinkType>(
        rng.Chance(8192) ? rng.Below(6) : static_cast<uint64_t>(sample.link));
    const ParsedPacket packet = ParseAtTheEdge(link, sample.frame);
    ++seen[static_cast<size_t>(packet.result)];
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
  for (size_t i = 0; i < kParseResults; ++i) {
    const auto result = static_cast<ParseResult>(i);
    if (result == ParseResult::kTooManyTags ||
        result == ParseResult::kTooManyExtensions) {
      continue;  // these need more headers than a sample has
    }
    EXPECT_GE(seen[i], 20) << Name(result);
  }
}

TEST(Parse, GivesEachResultItsName) {
  EXPECT_EQ(Name(ParseResult::kComplete), "complete");
  EXPECT_EQ(Name(ParseResult::kNotIp), "not_ip");
  EXPECT_EQ(Name(ParseResult::kIpBadHeaderLength), "ip_bad_header_length");
}

}  // namespace
}  // namespace snf
