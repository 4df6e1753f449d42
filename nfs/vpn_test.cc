// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "nfs/test_vpn.h"
#include "nfs/vpn_cipher.h"
#include "nfs/vpn_packet.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using vpn::Ends;
using vpn::kLink;
using vpn::kOuter4;
using vpn::kPacket;
using vpn::Pair;
using vpn::WordAt;
using Bytes = std::span<const std::byte>;

// draft-mcgrew-gcm-test-01 §4: the first case, with sequence numbers of 64
// bits, and the one of AES-256.
TEST(VpnCipher, GivesTheVectorsOfTheWorkingGroup) {
  struct Case {
    std::string key;
    uint32_t spi;
    uint64_t sequence;
    bool has_esn;
    std::string iv, text, sealed;
  };
  const Case cases[] = {
      {vpn::kKey1, 0x4321, 0x8765'4321'0000'0000, true, "4956ed7e3b244cfe",
       "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000"
       "00000000045f736970045f756470037369700963796265726369747902646b00"
       "0021000101020201",
       "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34"
       "cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce"
       "61bc17d768fd9732459018148f6cbe722fd04796562dfdb4"},
      {vpn::kKey2, 0x4a2c'bfe3, 2, false, "0102030405060708",
       "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000"
       "7002400020bf0000020405b40101040201020201",
       "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763"
       "748a637985771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c49"
       "15956c96"},
  };
  for (const Case& c : cases) {
    const std::optional<VpnKey> key = VpnKey::Parse(c.key);
    ASSERT_TRUE(key.has_value());
    const EspAssociated associated(c.spi, c.sequence, c.has_esn);
    const Frame iv = Hex(c.iv), plain = Hex(c.text), sealed = Hex(c.sealed);
    Frame text = plain;
    std::array<std::byte, VpnCipher::kTagBytes> tag;
    const auto iv8 = Bytes(iv).first<VpnCipher::kIvBytes>();
    VpnCipher(*key, true).Seal(iv8, associated.bytes(), text, tag);
    EXPECT_EQ(text + Frame(tag.begin(), tag.end()), sealed);
    VpnCipher opener(*key, false);
    Frame opened(plain.size());
    EXPECT_TRUE(opener.Open(iv8, associated.bytes(),
                            Bytes(sealed).first(plain.size()),
                            Bytes(sealed).last<16>(), opened));
    EXPECT_EQ(opened, plain);
    const EspAssociated other(c.spi, c.sequence + 1, c.has_esn);
    EXPECT_FALSE(opener.Open(iv8, other.bytes(),
                             Bytes(sealed).first(plain.size()),
                             Bytes(sealed).last<16>(), opened));
  }
}

TEST(Vpn, BringsPacketsThroughTheTunnelAsTheyWere) {
  const std::vector<std::string> there = {
      kPacket,
      "tcp 10.1.0.5:5000 > 10.2.0.9:80 SYN seq=7",
      "icmp 10.1.0.5 > 10.2.0.9 echo id=7 seq=1 \"ping\"",
      "89 10.1.0.5 > 10.2.0.9 \"any protocol\"",
      "udp 10.1.0.5:5000 > 10.2.0.9:53 len=1200 more ip_id=7 tos=0xb8",
      "udp [fd00:1::5]:5000 > [fd00:2::9]:53 \"query\" tos=0xb8 ttl=3",
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

}  // namespace
}  // namespace snf
