// SPDX-License-Identifier: Apache-2.0
// Tests of IPv6 beside a NAT of IPv4; nfs/nat.md names them.
#include <map>
#include <string>
#include <vector>

#include "base/packet/endpoint.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "nfs/test_nat.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr char kPass[] = "nat:ip=198.51.100.1,other=pass";
constexpr uint8_t kSyn = 2, kFin = 1, kRst = 4, kAck = 16;

const IpAddress kHost6 = Ipv6Fields::Address("fd00::1");
const IpAddress kServer6 = Ipv6Fields::Address("2001:db8::9");

Frame Ipv6Between(const IpAddress& from, const IpAddress& to, uint8_t protocol,
                  const Frame& payload) {
  return Ipv6({.source = from, .destination = to, .next_header = protocol},
              payload);
}
Frame Ipv6Tcp(bool from_inside, uint8_t flags) {
  Frame packet = from_inside ? Ipv6Between(kHost6, kServer6, 6, Tcp(5000, 80))
                             : Ipv6Between(kServer6, kHost6, 6, Tcp(80, 5000));
  packet[40 + 13] = std::byte{flags};
  return packet;
}

TEST(NatOther, DropsIpv6UnlessAsked) {
  for (const char* nf : {"nat", "nat:other=drop"}) {
    NfTest nat(nf);
    EXPECT_EQ(nat.Send("udp [fd00::1]:5000 > [2001:db8::9]:53"),
              "drop not_ipv4");
    EXPECT_EQ(nat.alias("udp [fd00::1]:5000 > [2001:db8::9]:53"), "");
  }
}

TEST(NatOther, PassesIpv6AndItsAnswersUntouched) {
  NfTest nat(kPass);
  const std::pair<std::string, std::string> cases[] = {
      {"udp [fd00::1]:5000 > [2001:db8::9]:53 \"query\"",
       "udp [2001:db8::9]:53 > [fd00::1]:5000 \"answer\""},
      {"tcp [fd00::1]:5000 > [2001:db8::9]:80 SYN seq=7 ttl=3 vlan=12",
       "tcp [2001:db8::9]:80 > [fd00::1]:5000 SYN ACK seq=1 ack=8 vlan=12"},
      {"icmp6 [fd00::1] > [2001:db8::9] echo id=7 seq=1",
       "icmp6 [2001:db8::9] > [fd00::1] echo_reply id=7 seq=1"},
      {"esp [fd00::1] > [2001:db8::9] x'00112233'",
       "esp [2001:db8::9] > [fd00::1] x'44'"},
      {"udp [fd00::1]:5000 > [ff02::fb]:5353 \"a group\"",
       "udp [2001:db8::5]:53 > [fd00::1]:5000 \"of another\""}};
  for (const auto& [out, back] : cases) {
    EXPECT_EQ(nat.Send(out), out);
    EXPECT_EQ(nat.Send(back), back);
  }
  EXPECT_EQ(nat.flows(), 4u);
  EXPECT_EQ(nat.alias(cases[0].first), "udp [fd00::1]:5000");
  EXPECT_EQ(nat.count("passed"), 10u);
}

TEST(NatOther, TranslatesIpv4BesideIt) {
  NfTest nat(kPass);
  EXPECT_EQ(nat.Send("udp [fd00::1]:5000 > [2001:db8::9]:53"),
            "udp [fd00::1]:5000 > [2001:db8::9]:53");
  EXPECT_EQ(nat.Send("udp 10.0.0.1:5000 > 192.0.2.9:53"),
            "udp 198.51.100.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(nat.Send("udp 192.0.2.9:53 > 10.0.0.1:5000"),
            "udp 192.0.2.9:53 > 10.0.0.1:5000");
  // Other protocols of IPv4 would show the inside.
  EXPECT_EQ(nat.Send("gre 10.0.0.1 > 192.0.2.9"),
            "drop protocol_not_translated");
  EXPECT_EQ(nat.count("passed"), 1u);
}

TEST(NatOther, LetsNobodyOutsideBegin) {
  NfTest nat(kPass);
  EXPECT_EQ(nat.Send("tcp [2001:db8::9]:80 > [fd00::1]:22 SYN"),
            "drop not_translated");
  EXPECT_EQ(nat.Send("tcp [2001:db8::9]:80 > [2001:db8::1]:22 SYN"),
            "drop no_mapping");
  EXPECT_EQ(nat.flows(), 0u);
}

TEST(NatOther, BringsErrorsAboutWhatPassed) {
  NfTest nat(kPass);
  const std::string out = "udp [fd00::1]:5000 > [2001:db8::9]:53 len=1400";
  const std::string error =
      "icmp6 [2001:db8::7] > [fd00::1] too_big seq=1280 about {" + out + "}";
  EXPECT_EQ(nat.Send(error), "drop not_translated");
  EXPECT_EQ(nat.Send(out), out);
  EXPECT_EQ(nat.Send(error), error);
  EXPECT_EQ(nat.flows(), 1u);
}

// Later fragments show no port.
TEST(NatOther, PassesFragments) {
  TestNat nat("other=pass");
  TestNat::Flow flow = nat.NewFlow();
  const auto fragment = [](uint16_t offset, bool more, const Frame& payload) {
    return Ipv6Between(kHost6, kServer6, 44,
                       Ipv6Fragment(17, offset, more, 9, payload));
  };
  const Frame first = fragment(0, true, Udp(5000, 53, 32));
  const Frame later = fragment(40, false, Frame(16));
  for (const Frame& packet : {later, first, later}) {
    const auto sent = nat.FromInside(flow, packet);
    EXPECT_EQ(sent.drop, "");
    EXPECT_EQ(sent.frame, packet);
  }
  ASSERT_EQ(nat.aliases.size(), 1u);
  EXPECT_EQ(nat.aliases[0].key,
            EndpointKey(kHost6, be16(5000), IpProtocol::kUdp,
                        FlowKeyForm::kIpv6Endpoint));
  EXPECT_EQ(nat.aliases[0].limit, 0u);
}

TEST(NatOther, DropsIpv4AddressesInIpv6) {
  TestNat nat("other=pass");
  TestNat::Flow flow = nat.NewFlow();
  const IpAddress mapped = V4(10, 0, 0, 1);
  const auto drop = [&](Side side, const IpAddress& from, const IpAddress& to) {
    return nat.Send(flow, side, Ipv6Between(from, to, 17, Udp(5000, 53))).drop;
  };
  EXPECT_EQ(drop(Side::kInside, mapped, kServer6), "martian_address");
  EXPECT_EQ(drop(Side::kInside, kHost6, mapped), "martian_address");
  EXPECT_EQ(drop(Side::kOutside, kServer6, mapped), "martian_address");
  EXPECT_EQ(drop(Side::kUnknown, kHost6, kServer6), "side_unknown");
  EXPECT_TRUE(nat.aliases.empty());
}

// No answer reaches the unspecified address or a group.
TEST(NatOther, KeepsNothingForASourceThatIsNoHost) {
  TestNat nat("other=pass");
  for (const char* source : {"::", "ff02::1"}) {
    TestNat::Flow flow = nat.NewFlow();
    const Frame packet =
        Ipv6Between(Ipv6Fields::Address(source),
                    Ipv6Fields::Address("ff02::16"), 58, Icmp(143, 0, 0, {}));
    EXPECT_EQ(nat.FromInside(flow, packet).frame, packet);
  }
  EXPECT_TRUE(nat.aliases.empty());
  EXPECT_TRUE(nat.notes.empty());
}

TEST(NatOther, LivesAsLongAsAMapping) {
  TestNat nat(
      "other=pass,udp_timeout=1m,icmp_timeout=2m,tcp_timeout=1h,"
      "tcp_transitory_timeout=3m");
  const auto timeout = [&nat](uint8_t protocol, const Frame& payload) {
    TestNat::Flow flow = nat.NewFlow();
    nat.notes.clear();
    const Frame packet = Ipv6Between(kHost6, kServer6, protocol, payload);
    nat.FromInside(flow, packet);
    nat.FromInside(flow, packet);
    EXPECT_LE(nat.notes.size(), 1u);
    return nat.notes.empty() ? Nanos{} : nat.notes[0].idle_timeout;
  };
  EXPECT_EQ(timeout(17, Udp(5000, 53)), Seconds(60));
  EXPECT_EQ(timeout(58, Icmp(128, 0, 7, {})), Seconds(120));
  EXPECT_EQ(timeout(6, Tcp(5000, 80)), Seconds(180));
  EXPECT_EQ(timeout(50, Frame(8)), Nanos{});
}

TEST(NatOther, FollowsTcp) {
  TestNat nat("other=pass,tcp_timeout=1h,tcp_transitory_timeout=3m");
  TestNat::Flow flow = nat.NewFlow();
  const auto timeout = [&](bool from_inside, uint8_t flags) {
    nat.notes.clear();
    nat.Send(flow, from_inside ? Side::kInside : Side::kOutside,
             Ipv6Tcp(from_inside, flags));
    return nat.notes.empty() ? Nanos{} : nat.notes[0].idle_timeout;
  };
  EXPECT_EQ(timeout(true, kSyn), Seconds(180));
  EXPECT_EQ(timeout(true, kSyn), Nanos{});
  EXPECT_EQ(timeout(false, kSyn | kAck), Seconds(3600));
  EXPECT_EQ(timeout(true, kAck), Nanos{});
  EXPECT_EQ(timeout(true, kFin | kAck), Nanos{});
  EXPECT_EQ(timeout(false, kFin | kAck), Seconds(180));
  EXPECT_EQ(timeout(true, kSyn), Nanos{});
  EXPECT_EQ(timeout(false, kSyn | kAck), Seconds(3600));
  EXPECT_EQ(timeout(false, kRst), Seconds(180));
  EXPECT_EQ(nat.aliases.size(), 1u);
}

TEST(NatOther, AsksAgainForAnAliasThatWasRefused) {
  NfTest nat(std::string(kPass) + ",host_ports=1");
  const std::string packet = "udp [fd00::1]:5000 > [2001:db8::9]:53";
  nat.RefuseNextAlias(AliasResult::kConflict);
  EXPECT_EQ(nat.Send(packet), "drop mapping_conflict");
  EXPECT_EQ(nat.Send(packet), packet);
  EXPECT_EQ(nat.alias(packet), "udp [fd00::1]:5000");
  // The limit is of external ports, which IPv6 takes none of.
  const std::string other = "udp [fd00::1]:5001 > [2001:db8::9]:53";
  EXPECT_EQ(nat.Send(other), other);
  EXPECT_EQ(nat.count("over_host_ports"), 0u);
  nat.EndFlows();
  EXPECT_EQ(nat.alias(packet), "");
}

// Any bytes behind the addresses, from both sides: a packet passes as it came,
// and takes no port.
TEST(NatOther, ChangesNoPacketWhateverIsInIt) {
  Rng rng(TestSeeds::One(11));
  TestNat nat("other=pass");
  const size_t pieces = nat.pieces();
  std::map<std::string, int> counts;
  for (int round = 0; round < 20'000; ++round) {
    TestNat::Flow flow = nat.NewFlow();
    for (const bool is_inside : {true, false}) {
      Frame packet =
          is_inside ? Ipv6Between(kHost6, kServer6, 44, Frame(rng.Below(80)))
                    : Ipv6Tcp(false, static_cast<uint8_t>(rng.Below(64)));
      constexpr uint8_t kNext[] = {0, 6, 17, 44, 58, 60, 135};
      packet[6] = std::byte{kNext[rng.Below(7)]};
      for (size_t i = 40; i < packet.size(); ++i) {
        packet[i] = static_cast<std::byte>(
            rng.Below(2) == 0 ? kNext[rng.Below(7)] : rng.Below(256));
      }
      if (rng.Below(4) == 0) packet.resize(40 + rng.Below(packet.size() - 39));
      if (!Parse(LinkType::kRawIp, packet).has_ip()) continue;
      const auto sent =
          nat.Send(flow, is_inside ? Side::kInside : Side::kOutside, packet);
      ++counts[sent.drop];
      ASSERT_EQ(sent.drop, "");
      ASSERT_EQ(sent.frame, packet);
    }
    nat.End(flow);
  }
  EXPECT_GT(counts[""], 30'000);
  EXPECT_GT(nat.aliases.size(), 10'000u);
  EXPECT_EQ(nat.pieces(), pieces);
  EXPECT_TRUE(nat.emitted.empty());
}

std::vector<std::string> BothVersions() {
  std::vector<std::string> packets;
  for (int i = 0; i < 40; ++i) {
    const std::string port = std::to_string(5000 + i % 5);
    packets.push_back("udp [fd00::1]:" + port + " > [2001:db8::9]:53 \"q" +
                      std::to_string(i) + "\"");
    packets.push_back("udp [2001:db8::9]:53 > [fd00::1]:" + port + " \"a\"");
    packets.push_back("tcp [fd00::2]:" + port + " > [2001:db8::9]:80 SYN");
    packets.push_back("udp 10.0.0.1:" + port + " > 192.0.2.9:53 \"q\"");
    packets.push_back("udp 192.0.2.9:53 > 10.0.0.1:" + port + " \"a\"");
  }
  return packets;
}

TEST(NatOther, RunsEverywhere) {
  EXPECT_TRUE(RunEverywhere(kPass, Packets(BothVersions())));
}

TEST(NatOther, RunsInAChain) {
  const std::string chain =
      "firewall(deny=ip6 to any port 22) | monitor | "
      "nat(ip=198.51.100.1,other=pass)";
  NfTest nat(chain);
  const std::string out = "tcp [fd00::1]:5000 > [2001:db8::9]:80 SYN";
  const std::string back = "tcp [2001:db8::9]:80 > [fd00::1]:5000 SYN ACK";
  EXPECT_EQ(nat.Send(out), out);
  EXPECT_EQ(nat.Send(back), back);
  EXPECT_EQ(nat.Send("tcp [fd00::1]:5000 > [2001:db8::9]:22 SYN"),
            "drop firewall.denied");
  EXPECT_EQ(nat.count("nat.passed"), 2u);
}

}  // namespace
}  // namespace snf
