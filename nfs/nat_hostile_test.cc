// SPDX-License-Identifier: Apache-2.0
// Tests of the NAT's options, and of hostile and meaningless packets.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nfs/test_nat.h"

namespace snf {
namespace {

using testing::HasSubstr;

const TestEnd kInside = {V4(10, 0, 0, 1), 5000};
const TestEnd kPeer = {V4(192, 0, 9, 9), 53};
const TestEnd kExternal = {V4(192, 0, 2, 1), 5000};

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<NfOptions> options = NfOptions::Parse(text);
  EXPECT_TRUE(options.ok());
  return std::string(FindNf("nat")->check(*options).message());
}

TEST(NatOptions, AreGoodAsTheyAreAndAsDocumented) {
  EXPECT_EQ(ErrorOf(""), "");
  EXPECT_EQ(ErrorOf("ip=192.0.2.1-192.0.2.4+198.51.100.7,ports=1-65535,"
                    "filtering=address_and_port_dependent,host_ports=100,"
                    "udp_timeout=2m,tcp_timeout=3h,tcp_transitory_timeout=5m,"
                    "icmp_timeout=90s,refresh=both,pooling=arbitrary,peers=4,"
                    "other=pass"),
            "");
  EXPECT_EQ(ErrorOf("ip=10.0.0.0-10.0.0.255,ports=80"), "");
  EXPECT_EQ(ErrorOf("ip=192.0.2.1-192.0.2.4,pool=10.1.0.0/16:192.0.2.4-"
                    "192.0.2.9+10.1.2.3:192.0.2.7"),
            "");
}

TEST(NatOptions, ThatAreWrongSayWhichAndWhatIsRight) {
  struct Case {
    const char* text;
    const char* wanted;
  };
  const Case cases[] = {
      {"ip=", "ip=: must be addresses of hosts"},
      {"ip=192.0.2", "ip=192.0.2: must be addresses of hosts"},
      {"ip=192.0.2.1.5", "must be addresses of hosts"},
      {"ip=192.0.2.256", "must be addresses of hosts"},
      {"ip=192.0.2.1+", "must be addresses of hosts"},
      {"ip=192.0.2.4-192.0.2.1", "the smaller first"},
      {"ip=224.0.0.1", "must be addresses of hosts"},
      {"ip=0.0.0.0-255.255.255.255", "must be addresses of hosts"},
      {"ip=10.0.0.0-10.0.1.0", "must be at most 256 addresses"},
      {"ip=10.0.0.1-10.0.0.200+10.0.1.1-10.0.1.57", "at most 256"},
      {"ip=192.0.2.1-192.0.2.4+192.0.2.3", "without overlap"},
      {"ports=0-100", "ports=0-100: must be two port numbers from 1 to 65535"},
      {"ports=1024-65536", "from 1 to 65535"},
      {"ports=2000-1999", "the smaller first"},
      {"ports=", "such as 1024-65535"},
      {"filtering=none", "filtering=none: must be one of endpoint_independent"},
      {"host_ports=-1", "host_ports=-1: must be a whole number"},
      {"peers=0", "peers=0: must be a whole number from 1 to 256"},
      {"udp_timeout=fast", "udp_timeout=fast: must be a time"},
      {"refresh=inbound", "refresh=inbound: must be one of outbound, both"},
      {"pooling=some", "pooling=some: must be one of paired, arbitrary"},
      {"other=ipv6", "other=ipv6: must be one of drop, pass"},
      {"pool=10.1.0.0/16",
       "such as 10.1.0.0/16:192.0.2.1-192.0.2.4; not "
       "\"10.1.0.0/16\" at character 1"},
      {"pool=10.1.0.0/16:192.0.2.1+10.1.0.1/16:192.0.2.2",
       "not \"10.1.0.1/16:192.0.2.2\" at character 23"},
      {"pool=10.1.0.0/16:192.0.2.4-192.0.2.1", "networks of the inside"},
      {"pool=10.1.0.0/16:127.0.0.1", "networks of the inside"},
      {"pool=10.1.0.0/16:10.0.0.0-10.0.1.0", "at most 256 external addresses"},
      {"pool=fd00::/64:192.0.2.1", "networks of the inside"},
      {"pool=:192.0.2.1", "networks of the inside"},
      {"pool=10.1.0.0/16:192.0.2.1+10.1.0.0/16:192.0.2.2",
       "must be each network once; not \"10.1.0.0/16:192.0.2.2\" at character "
       "23"},
      {"ip=10.0.0.0-10.0.0.255,pool=10.1.0.0/16:192.0.2.1",
       "at most 256 external addresses, ip included"},
      {"forward=tcp:203.0.113.1:80", "such as tcp:203.0.113.1:80->10.0.0.5"},
      {"forward=tcp:203.0.113.1:80->10.0.0.5:80+sctp:203.0.113.1:81->10.0.0.5:"
       "1",
       "not \"sctp:203.0.113.1:81->10.0.0.5:1\" at character 33"},
      {"forward=tcp:203.0.113.1:0->10.0.0.5:80", "external ends with inside"},
      {"forward=tcp:224.0.0.1:1->10.0.0.5:80", "external ends with inside"},
      {"forward=ip:203.0.113.1:80->10.0.0.5:80", "external ends with inside"},
      {"forward=tcp:203.0.113.1:80->10.0.0.5:80+tcp:203.0.113.1:80->10.0.0.6:"
       "80",
       "must be each end once; not \"tcp:203.0.113.1:80->10.0.0.6:80\""},
      {"forward=tcp:203.0.113.1:80->10.0.0.5:80+tcp:203.0.113.1:81->10.0.0.5:"
       "80",
       "each end once"},
      {"forward=tcp:203.0.113.1:80->10.0.0.5:80+ip:203.0.113.1->10.0.0.6",
       "each end once"},
      {"forward=ip:192.0.2.1->10.0.0.5", "not 192.0.2.1"},
      {"exempt=10.0.0.0/8", "such as 10.0.0.0/8->192.168.0.0/16; not "},
      {"exempt=10.0.0.0/8->fd00::/8", "networks inside and outside"},
      {"nat64=64:ff9b::/95", "an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits"},
      {"nat64=10.0.0.0/8", "an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits"},
      {"mtu=1279", "1280"},
      {"colour=red", "there is no option \"colour\""},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ErrorOf(c.text), HasSubstr(c.wanted)) << c.text;
  }
}

TEST(NatHostile, DropsWhatIsNoIpv4OrOfAnotherProtocol) {
  TestNat nat;
  TestNat::Flow flow = nat.NewFlow();
  EXPECT_EQ(nat.FromInside(flow, Ipv6({}, Udp(5000, 53))).drop, "not_ipv4");
  EXPECT_EQ(nat.FromInside(flow, Ipv4({.protocol = 47}, Frame(20))).drop,
            "protocol_not_translated");
  EXPECT_EQ(nat.FromInside(flow, Ipv4({.protocol = 132}, Frame(20))).drop,
            "protocol_not_translated");
  EXPECT_EQ(nat.FromInside(flow, Ipv4({.protocol = 1}, Icmp(9, 0, 0, {}))).drop,
            "icmp_type");
  EXPECT_EQ(nat.Send(flow, Side::kUnknown, Between(17, kInside, kPeer)).drop,
            "side_unknown");
  EXPECT_TRUE(nat.aliases.empty());
}

TEST(NatHostile, DropsTruncatedAndMalformedHeaders) {
  TestNat nat;
  for (const auto& [protocol, header] :
       std::map<uint8_t, size_t>{{1, 8}, {6, 24}, {17, 8}}) {
    const Frame whole = Between(protocol, kInside, kPeer);
    for (size_t size = 0; size < header; ++size) {
      TestNat::Flow flow = nat.NewFlow();
      const Frame l4(whole.begin() + 20,
                     whole.begin() + 20 + static_cast<ptrdiff_t>(size));
      EXPECT_EQ(nat.FromInside(flow, Ipv4({.protocol = protocol}, l4)).drop,
                "l4_truncated");
    }
  }
  TestNat::Flow flow = nat.NewFlow();
  Frame bad = Between(6, kInside, kPeer);
  bad[32] = std::byte{0x40};
  EXPECT_EQ(nat.FromInside(flow, bad).drop, "l4_malformed");
  EXPECT_TRUE(nat.aliases.empty());
}

TEST(NatHostile, TranslatesWhatTheCaptureCutShort) {
  for (const auto& [protocol, bytes] :
       std::map<uint8_t, size_t>{{1, 8}, {6, 14}, {17, 4}}) {
    TestNat nat("ports=2000-2000");
    TestNat::Flow flow = nat.NewFlow();
    const Frame whole = Between(protocol, kInside, kPeer);
    Frame cut = whole;
    cut.resize(20 + bytes);
    const auto sent = nat.Send(flow, Side::kInside, cut, {}, LinkType::kRawIp,
                               static_cast<uint32_t>(whole.size()));
    EXPECT_EQ(sent.drop, "");
    EXPECT_EQ(SourceOf(sent.frame).port, 2000);
    cut.resize(20 + bytes - 1);
    EXPECT_EQ(nat.Send(flow, Side::kInside, cut, {}, LinkType::kRawIp,
                       static_cast<uint32_t>(whole.size()))
                  .drop,
              "l4_truncated");
  }
}

TEST(NatHostile, DropsAnInsidePacketThatClaimsAnExternalAddress) {
  TestNat nat("ip=192.0.2.1+192.0.2.5");
  TestNat::Flow flow = nat.NewFlow();
  for (const uint8_t last : {uint8_t{1}, uint8_t{5}}) {
    EXPECT_EQ(
        nat.FromInside(flow, Between(17, {V4(192, 0, 2, last), 5000}, kPeer))
            .drop,
        "source_is_external");
  }
  EXPECT_EQ(
      nat.FromInside(flow, Between(17, {V4(192, 0, 2, 3), 5000}, kPeer)).drop,
      "");
  EXPECT_EQ(nat.FromInside(flow, ErrorAbout(Between(17, kPeer,
                                                    {V4(192, 0, 2, 3), 5000}),
                                            kExternal.address, kPeer.address))
                .drop,
            "source_is_external");
}

// RFC 1812 §4.2.3.1, §5.3.4, §5.3.5 and §5.3.7.
TEST(NatHostile, TranslatesNoBroadcastMulticastOrMartianAndTakesNoPort) {
  TestNat nat;
  const size_t pieces = nat.pieces();
  const auto drop = [&nat](const IpAddress& from, const IpAddress& to) {
    TestNat::Flow flow = nat.NewFlow();
    return nat.FromInside(flow, Between(17, {from, 5000}, {to, 53})).drop;
  };
  const IpAddress inside = kInside.address;
  for (const IpAddress& to : {V4(255, 255, 255, 255), V4(224, 0, 0, 1),
                              V4(224, 0, 0, 251), V4(239, 255, 255, 250)}) {
    EXPECT_EQ(drop(inside, to), "not_unicast");
    EXPECT_EQ(drop(V4(0, 0, 0, 0), to), "not_unicast");  // DHCP
  }
  for (const IpAddress& martian :
       {V4(0, 0, 0, 0), V4(0, 1, 2, 3), V4(127, 0, 0, 1), V4(240, 0, 0, 1)}) {
    EXPECT_EQ(drop(martian, kPeer.address), "martian_address");
    EXPECT_EQ(drop(inside, martian), "martian_address");
  }
  for (const IpAddress& martian : {V4(224, 0, 0, 5), V4(255, 255, 255, 255)}) {
    EXPECT_EQ(drop(martian, kPeer.address), "martian_address");
  }
  EXPECT_EQ(drop(inside, inside), "martian_address");
  // The broadcast address of a network shows in the frame alone.
  Frame broadcast =
      Ethernet(0x0800, Between(17, kInside, {V4(203, 0, 113, 255), 53}));
  std::fill_n(broadcast.begin(), 6, std::byte{0xff});
  TestNat::Flow flow = nat.NewFlow();
  EXPECT_EQ(
      nat.Send(flow, Side::kInside, broadcast, {}, LinkType::kEthernet).drop,
      "not_unicast");
  EXPECT_EQ(nat.pieces(), pieces);
  EXPECT_TRUE(nat.aliases.empty());
  EXPECT_TRUE(nat.emitted.empty());
  // Their neighbours are translated.
  EXPECT_EQ(drop(inside, V4(223, 255, 255, 255)), "");
  EXPECT_EQ(drop(inside, V4(1, 0, 0, 0)), "");
  EXPECT_EQ(drop(V4(126, 0, 0, 1), kPeer.address), "");
  EXPECT_EQ(nat.pieces(), pieces - 3);
}

TEST(NatHostile, LetsNoMartianInThroughAMapping) {
  TestNat nat;
  TestNat::Flow flow = nat.NewFlow();
  nat.FromInside(flow, Between(17, kInside, kPeer));
  for (const IpAddress& from :
       {V4(127, 0, 0, 1), V4(224, 0, 0, 5), V4(0, 0, 0, 0)}) {
    EXPECT_EQ(nat.FromOutside(flow, Between(17, {from, 53}, kExternal)).drop,
              "martian_address");
  }
}

TEST(NatHostile, DropsAnOutsidePacketToNoneOrAnothersMapping) {
  TestNat nat;
  TestNat::Flow flow = nat.NewFlow();
  EXPECT_EQ(nat.FromOutside(flow, Between(17, kPeer, kExternal)).drop,
            "no_mapping");
  EXPECT_EQ(nat.FromOutside(flow, ErrorAbout(Between(17, kExternal, kPeer),
                                             kPeer.address, kExternal.address))
                .drop,
            "no_mapping");
  nat.FromInside(flow, Between(17, kInside, kPeer));
  EXPECT_EQ(nat.FromOutside(flow, Between(17, kPeer, kExternal)).drop, "");
  EXPECT_EQ(
      nat.FromOutside(flow, Between(17, kPeer, {kExternal.address, 5002})).drop,
      "no_mapping");
  EXPECT_EQ(nat.FromOutside(flow, Between(6, kPeer, kExternal)).drop,
            "no_mapping");
}

// Sends packets of one endpoint, some of them corrupted, from both sides and at
// any time. Every packet that leaves has the right endpoint, no piece is lost,
// and every drop reason occurs (except for those of the tests above).
TEST(NatHostile, TranslatesOrDropsAnyPacketAndLosesNoPort) {
  Rng rng(TestSeeds::One(7));
  TestNat nat("filtering=address_dependent,peers=3,host_ports=5");
  const size_t pieces = nat.pieces();
  std::map<std::string, int> counts;
  constexpr uint8_t kProtocols[] = {1, 6, 17};
  for (int round = 0; round < 2'000; ++round) {
    TestNat::Flow flow = nat.NewFlow();
    const uint8_t protocol = kProtocols[rng.Below(3)];
    Nanos at{};
    for (int i = 0; i < 30; ++i) {
      at.ns += static_cast<int64_t>(rng.Below(40'000'000'000));
      const TestEnd peer = {V4(192, 0, 9, static_cast<uint8_t>(rng.Below(6))),
                            static_cast<uint16_t>(1 + rng.Below(3))};
      const bool is_inside = rng.Below(2) == 0;
      const auto flags = static_cast<uint8_t>(rng.Below(32));
      Frame frame = is_inside ? Between(protocol, kInside, peer, flags)
                              : Between(protocol, peer, kExternal, flags, 0);
      if (rng.Below(5) == 0) {
        frame = is_inside ? ErrorAbout(Between(protocol, peer, kInside),
                                       kInside.address, peer.address)
                          : ErrorAbout(Between(protocol, kExternal, peer),
                                       peer.address, kExternal.address);
      }
      const bool is_spoilt = rng.Below(4) == 0;
      if (is_spoilt) {
        // A packet with another address would belong to another flow.
        const size_t spoilt = rng.Below(frame.size());
        const bool is_address = spoilt >= 12 && spoilt < 20;
        if (!is_address) frame[spoilt] ^= std::byte{1} << rng.Below(8);
        if (rng.Below(4) == 0) frame.resize(1 + rng.Below(frame.size()));
        if (!Parse(LinkType::kRawIp, frame).has_ip()) continue;
      }
      const auto sent =
          nat.Send(flow, is_inside ? Side::kInside : Side::kOutside, frame, at);
      ASSERT_NE(sent.verdict.kind(), Verdict::Kind::kWait);
      ++counts[sent.drop];
      if (sent.drop == "") {
        EXPECT_EQ(is_inside ? SourceOf(sent.frame).address
                            : DestinationOf(sent.frame).address,
                  is_inside ? kExternal.address : kInside.address);
        EXPECT_TRUE(is_spoilt || HasGoodChecksums(sent.frame));
      }
      if (rng.Below(100) == 0) nat.RefuseAlias(flow, AliasResult::kGroupFull);
    }
    nat.End(flow);
    ASSERT_EQ(nat.pieces(), pieces) << round;
  }
  for (const auto& [drop, count] : counts) {
    std::printf("%8d %s\n", count, drop == "" ? "translated" : drop.c_str());
  }
  EXPECT_GT(counts[""], 10'000);
  for (const char* drop : {"no_mapping", "filtered", "mapping_expired",
                           "icmp_checksum", "l4_truncated", "quoted_not_ours",
                           "l4_malformed", "protocol_not_translated"}) {
    EXPECT_GT(counts[drop], 20) << drop;
  }
}

}  // namespace
}  // namespace snf
