// SPDX-License-Identifier: Apache-2.0
// Tests of mappings that options give, and of exempt networks; nfs/nat.md names
// them.
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nfs/test_nat.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr char kForward[] =
    "nat:ip=203.0.113.1,"
    "forward=tcp:203.0.113.1:80->10.0.0.5:8080+udp:203.0.113.1:53->10.0.0.6:53+"
    "ip:203.0.113.9->10.0.0.9";
constexpr char kExempt[] =
    "nat:ip=203.0.113.1,exempt=10.0.0.0/8->192.0.2.0/24,"
    "forward=tcp:203.0.113.1:80->10.0.0.5:8080";

TEST(NatStatic, BringsConnectionsFromOutsideToTheInsideHost) {
  NfTest nat(kForward);
  EXPECT_EQ(nat.Send("tcp 198.51.100.7:4000 > 203.0.113.1:80 SYN seq=7"),
            "tcp 198.51.100.7:4000 > 10.0.0.5:8080 SYN seq=7");
  EXPECT_EQ(nat.Send("tcp 10.0.0.5:8080 > 198.51.100.7:4000 SYN ACK ack=8"),
            "tcp 203.0.113.1:80 > 198.51.100.7:4000 SYN ACK ack=8");
  EXPECT_EQ(nat.Send("udp 198.51.100.7:4000 > 203.0.113.1:53 \"q\""),
            "udp 198.51.100.7:4000 > 10.0.0.6:53 \"q\"");
  EXPECT_EQ(nat.Send("udp 10.0.0.6:53 > 198.51.100.7:4000 \"a\""),
            "udp 203.0.113.1:53 > 198.51.100.7:4000 \"a\"");
  EXPECT_EQ(nat.flows(), 2u);
  // Only these ends are open.
  EXPECT_EQ(nat.Send("udp 198.51.100.7:4000 > 203.0.113.1:80"),
            "drop no_mapping");
  EXPECT_EQ(nat.Send("tcp 198.51.100.7:4000 > 203.0.113.1:81 SYN"),
            "drop no_mapping");
  EXPECT_EQ(nat.Send("tcp 198.51.100.7:4000 > 203.0.113.2:80 SYN"),
            "drop no_mapping");
}

TEST(NatStatic, GivesTheInsideHostItsExternalEndWhenItBegins) {
  NfTest nat(kForward);
  EXPECT_EQ(nat.Send("udp 10.0.0.6:53 > 198.51.100.7:53 \"q\""),
            "udp 203.0.113.1:53 > 198.51.100.7:53 \"q\"");
  // Its other ports are dynamic.
  EXPECT_EQ(nat.Send("udp 10.0.0.6:5000 > 198.51.100.7:53 \"q\""),
            "udp 203.0.113.1:5000 > 198.51.100.7:53 \"q\"");
}

TEST(NatStatic, ForwardsAWholeAddressWithItsPorts) {
  NfTest nat(kForward);
  const std::pair<const char*, const char*> cases[] = {
      {"tcp 198.51.100.7:4000 > 203.0.113.9:22 SYN",
       "tcp 198.51.100.7:4000 > 10.0.0.9:22 SYN"},
      {"tcp 10.0.0.9:22 > 198.51.100.7:4000 SYN ACK",
       "tcp 203.0.113.9:22 > 198.51.100.7:4000 SYN ACK"},
      {"icmp 198.51.100.7 > 203.0.113.9 echo id=7 seq=1",
       "icmp 198.51.100.7 > 10.0.0.9 echo id=7 seq=1"},
      {"icmp 10.0.0.9 > 198.51.100.7 echo_reply id=7 seq=1",
       "icmp 203.0.113.9 > 198.51.100.7 echo_reply id=7 seq=1"},
      {"udp 10.0.0.9:5001 > 198.51.100.7:53",
       "udp 203.0.113.9:5001 > 198.51.100.7:53"}};
  for (const auto& [in, out] : cases) EXPECT_EQ(nat.Send(in), out);
}

TEST(NatStatic, BringsErrorsAboutForwardedConnections) {
  NfTest nat(kForward);
  nat.Send("udp 198.51.100.7:4000 > 203.0.113.1:53 \"q\"");
  nat.Send("udp 10.0.0.6:53 > 198.51.100.7:4000 \"a\"");
  EXPECT_EQ(nat.Send("icmp 198.51.100.1 > 203.0.113.1 unreachable code=1 about "
                     "{udp 203.0.113.1:53 > 198.51.100.7:4000 \"a\"}"),
            "icmp 198.51.100.1 > 10.0.0.6 unreachable code=1 about "
            "{udp 10.0.0.6:53 > 198.51.100.7:4000 \"a\"}");
  EXPECT_EQ(nat.Send("icmp 10.0.0.6 > 198.51.100.7 unreachable code=3 about "
                     "{udp 198.51.100.7:4000 > 10.0.0.6:53 \"q\"}"),
            "icmp 203.0.113.1 > 198.51.100.7 unreachable code=3 about "
            "{udp 198.51.100.7:4000 > 203.0.113.1:53 \"q\"}");
}

// A forward is open to everybody, and for ever.
TEST(NatStatic, IsNeitherFilteredNorOver) {
  NfTest nat(std::string(kForward) +
             ",filtering=address_and_port_dependent,udp_timeout=1s");
  const std::string in = "udp 198.51.100.7:4000 > 203.0.113.1:53";
  const std::string out = "udp 198.51.100.7:4000 > 10.0.0.6:53";
  EXPECT_EQ(nat.Send(in), out);
  EXPECT_EQ(nat.Send("udp 198.51.100.8:4000 > 203.0.113.1:53"),
            "udp 198.51.100.8:4000 > 10.0.0.6:53");
  nat.Pass(Seconds(900));
  EXPECT_EQ(nat.flows(), 0u);
  EXPECT_EQ(nat.Send(in), out);
}

TEST(NatStatic, NeverGivesAForwardsPortToAnother) {
  TestNat nat(
      "ip=203.0.113.1,ports=2000-2003,"
      "forward=udp:203.0.113.1:2000->10.0.0.5:80+udp:203.0.113.1:2002->"
      "10.0.0.5:81+udp:203.0.113.1:2003->10.0.0.5:2003");
  nat.exhausted = {0, 1, 2, 3, 4, 5};
  const TestEnd peer = {V4(198, 51, 100, 7), 53};
  std::multiset<int> udp;
  std::multiset<int> tcp;
  for (uint16_t port = 2000; port < 2006; ++port) {
    for (const uint8_t protocol : {uint8_t{6}, uint8_t{17}}) {
      TestNat::Flow flow = nat.NewFlow();
      const auto sent = nat.FromInside(
          flow, Between(protocol, {V4(10, 0, 0, 1), port}, peer));
      if (sent.drop == "ports_exhausted") continue;
      EXPECT_EQ(sent.drop, "");
      (protocol == 17 ? udp : tcp).insert(SourceOf(sent.frame).port);
    }
  }
  EXPECT_EQ(udp, (std::multiset<int>{2001}));
  EXPECT_EQ(tcp, (std::multiset<int>{2000, 2001, 2002, 2003}));
  // The forward has its own.
  TestNat::Flow flow = nat.NewFlow();
  const size_t pieces = nat.pieces();
  EXPECT_EQ(
      SourceOf(
          nat.FromInside(flow, Between(17, {V4(10, 0, 0, 5), 80}, peer)).frame)
          .port,
      2000);
  nat.End(flow);
  EXPECT_EQ(nat.pieces(), pieces);
}

TEST(NatStatic, KeepsAForwardsAddressFromTheInside) {
  NfTest nat(kForward);
  EXPECT_EQ(nat.Send("udp 10.0.0.9:5000 > 198.51.100.7:53"),
            "udp 203.0.113.9:5000 > 198.51.100.7:53");
  TestNat other("forward=ip:203.0.113.9->10.0.0.9");
  TestNat::Flow flow = other.NewFlow();
  EXPECT_EQ(other
                .FromInside(flow, Between(17, {V4(203, 0, 113, 9), 5000},
                                          {V4(198, 51, 100, 7), 53}))
                .drop,
            "source_is_external");
}

TEST(NatStatic, LeavesPacketsBetweenExemptNetworksAlone) {
  NfTest nat(kExempt);
  const std::string cases[] = {
      "tcp 192.0.2.9:4000 > 10.0.0.5:22 SYN",
      "tcp 10.0.0.5:22 > 192.0.2.9:4000 SYN ACK",
      "udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\"",
      "udp 192.0.2.9:53 > 10.0.0.1:5000 \"a\"",
      "icmp 10.0.0.1 > 192.0.2.9 echo id=7 seq=1",
      "icmp 192.0.2.9 > 10.0.0.1 echo_reply id=7 seq=1",
      "icmp 192.0.2.1 > 10.0.0.1 unreachable code=1 about "
      "{udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\"}",
      "esp 10.0.0.1 > 192.0.2.9 x'0011223344'",
      "esp 192.0.2.9 > 10.0.0.1 x'0011223344'",
      // To others, the same end is translated.
      "udp 10.0.0.1:5000 > 192.0.2.9:53 \"again\""};
  for (const std::string& packet : cases) EXPECT_EQ(nat.Send(packet), packet);
  EXPECT_EQ(nat.Send("udp 10.0.0.1:5000 > 198.51.100.7:53"),
            "udp 203.0.113.1:5000 > 198.51.100.7:53");
  EXPECT_EQ(nat.Send("udp 198.51.100.7:53 > 203.0.113.1:5000"),
            "udp 198.51.100.7:53 > 10.0.0.1:5000");
  EXPECT_EQ(nat.Send("udp 192.0.2.9:53 > 10.0.0.1:5000 \"both\""),
            "udp 192.0.2.9:53 > 10.0.0.1:5000 \"both\"");
  EXPECT_EQ(nat.Send("tcp 10.0.0.5:8080 > 192.0.2.9:4000"),
            "tcp 10.0.0.5:8080 > 192.0.2.9:4000");
  EXPECT_EQ(nat.Send("tcp 198.51.100.7:4000 > 10.0.0.5:22 SYN"),
            "drop not_translated");
  EXPECT_EQ(nat.count("passed"), 12u);
}

TEST(NatStatic, RunsEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 40; ++i) {
    const std::string port = std::to_string(4000 + i % 5);
    packets.push_back("tcp 198.51.100.7:" + port + " > 203.0.113.1:80 SYN");
    packets.push_back("tcp 10.0.0.5:8080 > 198.51.100.7:" + port + " SYN ACK");
    packets.push_back("udp 10.0.0.1:" + port + " > 192.0.2.9:53 \"q\"");
    packets.push_back("udp 192.0.2.9:53 > 10.0.0.1:" + port + " \"a\"");
    packets.push_back("udp 10.0.0.1:" + port + " > 198.51.100.7:53 \"q\"");
  }
  EXPECT_TRUE(RunEverywhere(kExempt, Packets(packets)));
}

TEST(NatStatic, RunsInAChain) {
  NfTest nat(
      "firewall(deny=tcp to any port 23) | "
      "nat(ip=203.0.113.1,forward=ip:203.0.113.9->10.0.0.9)");
  EXPECT_EQ(nat.Send("tcp 198.51.100.7:4000 > 203.0.113.9:22 SYN"),
            "tcp 198.51.100.7:4000 > 10.0.0.9:22 SYN");
  EXPECT_EQ(nat.Send("tcp 198.51.100.7:4000 > 203.0.113.9:23 SYN"),
            "drop firewall.denied");
}

}  // namespace
}  // namespace snf
