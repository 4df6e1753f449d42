// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_ipv6.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

// A mapping has the inside port, if that is free.
const char kNat64[] = "nat(ip=203.0.113.1,ports=5000-5999,nat64=64:ff9b::/96)";
const char kQuery[] = "udp [fd00::1]:5000 > [64:ff9b::192.0.2.9]:53 \"q\"";
const char kAnswer[] = "udp 192.0.2.9:53 > 203.0.113.1:5000 \"a\"";
const char kAnswer6[] = "udp [64:ff9b::192.0.2.9]:53 > [fd00::1]:5000 \"a\"";

// Returns the packet as it leaves, without the identification that a translated
// one has.
std::string Sent(NfTest& nat, const std::string& packet) {
  std::string text = nat.Send(packet).text;
  const size_t id = text.find(" ip_id=");
  if (id != std::string::npos) text.erase(id, text.find(' ', id + 1) - id);
  return text;
}

// Returns the text as ToText writes it.
std::string Same(const std::string& text) { return ToText(*ParsePacket(text)); }

TEST(Nat64, TranslatesBothWays) {
  NfTest nat(kNat64);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kQuery, "udp 203.0.113.1:5000 > 192.0.2.9:53 \"q\""},
      {kAnswer, kAnswer6},
      {"tcp [fd00::1]:5002 > [64:ff9b::192.0.2.9]:80 SYN seq=7",
       "tcp 203.0.113.1:5002 > 192.0.2.9:80 SYN seq=7"},
      {"tcp 192.0.2.9:80 > 203.0.113.1:5002 SYN ACK seq=1 ack=8",
       "tcp [64:ff9b::192.0.2.9]:80 > [fd00::1]:5002 SYN ACK seq=1 ack=8"},
      {"icmp6 [fd00::1] > [64:ff9b::192.0.2.9] echo id=5004 seq=1 \"p\"",
       "icmp 203.0.113.1 > 192.0.2.9 echo id=5004 seq=1 \"p\""},
      {"icmp 192.0.2.9 > 203.0.113.1 echo_reply id=5004 seq=1 \"p\"",
       "icmp6 [64:ff9b::192.0.2.9] > [fd00::1] echo_reply id=5004 seq=1 \"p\""},
      // IPv4 beside it has ports of the same pools.
      {"udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\"",
       "udp 203.0.113.1:5002 > 192.0.2.9:53 \"q\""}};
  for (const auto& [in, out] : cases) EXPECT_EQ(Sent(nat, in), Same(out));
}

// RFC 6146 §3.5.1: the external end does not depend on the peer.
TEST(Nat64, MapsAnEndpointWhoeverThePeerAndFiltersAsTold) {
  for (const bool filters : {false, true}) {
    NfTest nat(std::string("nat(ip=203.0.113.1,ports=5000-5999,nat64=64:ff9b::"
                           "/96,filtering=") +
               (filters ? "address_dependent)" : "endpoint_independent)"));
    nat.Send(kQuery);
    EXPECT_EQ(Sent(nat, "udp [fd00::1]:5000 > [64:ff9b::198.51.100.7]:53"),
              "udp 203.0.113.1:5000 > 198.51.100.7:53");
    EXPECT_EQ(Sent(nat, "udp 198.51.100.99:53 > 203.0.113.1:5000"),
              filters
                  ? "drop filtered"
                  : Same("udp [64:ff9b::198.51.100.99]:53 > [fd00::1]:5000"));
  }
}

TEST(Nat64, TranslatesErrorsBothWays) {
  NfTest nat(kNat64);
  nat.Send(kQuery);
  nat.Send(kAnswer);
  EXPECT_EQ(
      Sent(nat,
           "icmp 192.0.2.1 > 203.0.113.1 unreachable code=4 seq=1400 "
           "about {udp 203.0.113.1:5000 > 192.0.2.9:53 \"q\"}"),
      Same("icmp6 [64:ff9b::192.0.2.1] > [fd00::1] too_big seq=1420 about "
           "{udp [fd00::1]:5000 > [64:ff9b::192.0.2.9]:53 \"q\"}"));
  EXPECT_EQ(Sent(nat,
                 "icmp6 [fd00::1] > [64:ff9b::192.0.2.9] unreachable code=4 "
                 "about {udp [64:ff9b::192.0.2.9]:53 > [fd00::1]:5000 \"a\"}"),
            Same("icmp 203.0.113.1 > 192.0.2.9 unreachable code=3 about "
                 "{udp 192.0.2.9:53 > 203.0.113.1:5000 \"a\"}"));
}

TEST(Nat64, TellsTheSenderOfAPacketThatGetsTooLong) {
  NfTest nat("nat(ip=203.0.113.1,nat64=64:ff9b::/96,mtu=1400,ports=5000-5999)");
  nat.Send(kQuery);
  const std::string answer = "udp 192.0.2.9:53 > 203.0.113.1:5000 len=";
  EXPECT_EQ(Sent(nat, answer + "1352 df"),
            Same("udp [64:ff9b::192.0.2.9]:53 > [fd00::1]:5000 len=1352"));
  EXPECT_TRUE(nat.TakeEmitted().empty());
  EXPECT_EQ(nat.Send(answer + "1353 df"), "drop too_long");
  const std::vector<std::string> told = nat.TakeEmitted();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("icmp 203.0.113.1 > 192.0.2.9 unreachable code=4 "
                         "seq=1380 "),
            std::string::npos)
      << told[0];
  EXPECT_EQ(nat.count("too_big"), 1u);
  // One a second, and none about packets that may be fragmented.
  EXPECT_EQ(nat.Send(answer + "1353 df"), "drop too_long");
  nat.Pass(Seconds(2));
  EXPECT_EQ(nat.Send(answer + "1353"), "drop too_long");
  EXPECT_TRUE(nat.TakeEmitted().empty());
}

TEST(Nat64, EndsAMappingAsThatOfIpv4) {
  NfTest nat(kNat64);
  nat.Send(kQuery);
  nat.Pass(Seconds(299));
  EXPECT_EQ(Sent(nat, kAnswer), Same(kAnswer6));
  nat.Pass(Seconds(302));
  EXPECT_EQ(nat.Send(kAnswer), "drop no_mapping");
  EXPECT_EQ(nat.flows(), 0u);
  EXPECT_EQ(nat.pieces_in_use("udp 203.0.113.1 5000-5999"), 0u);
}

TEST(Nat64, LimitsThePortsOfAHost) {
  NfTest nat(
      "nat(ip=203.0.113.1,ports=5000-5999,nat64=64:ff9b::/96,host_ports=1)");
  nat.Send(kQuery);
  nat.Send("udp [fd00::1]:5002 > [64:ff9b::192.0.2.9]:53 \"two\"");
  EXPECT_EQ(nat.count("over_host_ports"), 1u);
  const std::vector<std::string> told = nat.TakeEmitted();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("icmp6 [64:ff9b::c000:209] > [fd00::1] unreachable "
                         "code=1"),
            std::string::npos)
      << told[0];
}

TEST(Nat64, DropsWhatHasNoCounterpartByName) {
  NfTest nat(kNat64);
  const std::vector<std::pair<std::string, std::string>> cases = {
      // To other networks than the prefix.
      {"udp [fd00::1]:5000 > [2001:db8::9]:53", "drop not_ipv4"},
      {"udp [fd00::1]:5000 > [64:ff9b::127.0.0.1]:53", "drop martian_address"},
      {"udp [fd00::1]:5000 > [64:ff9b::224.0.0.1]:53", "drop martian_address"},
      {"udp [ff02::1]:5000 > [64:ff9b::192.0.2.9]:53", "drop martian_address"},
      {"esp [fd00::1] > [64:ff9b::192.0.2.9] x'00112233'",
       "drop protocol_not_translated"},
      {"icmp6 [fd00::1] > [64:ff9b::192.0.2.9] type=135", "drop icmp_type"},
      {"icmp6 [fd00::1] > [64:ff9b::192.0.2.9] unreachable code=1 about "
       "{udp [64:ff9b::192.0.2.9]:53 > [fd00::1]:5000}",
       "drop no_mapping"}};
  for (const auto& [packet, why] : cases) {
    const std::string text = nat.Send(packet).text;
    // A source that no host has may be taken for the outside.
    if (packet.find("[ff02") != std::string::npos) {
      EXPECT_EQ(text.substr(0, 5), "drop ") << text;
      continue;
    }
    EXPECT_EQ(text, why) << packet;
  }
}

TEST(Nat64, DropsAnErrorThatIpv6Lacks) {
  NfTest nat(kNat64);
  nat.Send(kQuery);
  EXPECT_EQ(nat.Send("icmp 192.0.2.1 > 203.0.113.1 unreachable code=14 about "
                     "{udp 203.0.113.1:5000 > 192.0.2.9:53 \"q\"}"),
            "drop no_counterpart");
}

TEST(Nat64, PassesOtherIpv6BesideItIfAskedTo) {
  NfTest nat(
      "nat(ip=203.0.113.1,ports=5000-5999,nat64=64:ff9b::/96,other=pass)");
  const std::string other = "udp [fd00::1]:6000 > [2001:db8::9]:53 \"q\"";
  EXPECT_EQ(nat.Send(other), other);
  EXPECT_EQ(Sent(nat, kQuery), "udp 203.0.113.1:5000 > 192.0.2.9:53 \"q\"");
}

TEST(Nat64, RunsEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 60; ++i) {
    const std::string port = std::to_string(5000 + i % 7);
    const std::string host = std::to_string(1 + i % 3);
    packets.push_back("udp [fd00::" + host + "]:" + port +
                      " > [64:ff9b::192.0.2.9]:53 \"q\"");
    packets.push_back("tcp [fd00::" + host + "]:" + port +
                      " > [64:ff9b::198.51.100.7]:80 SYN");
    packets.push_back("udp 10.0.0." + host + ":" + port +
                      " > 192.0.2.9:53 \"q\"");
  }
  EXPECT_TRUE(RunEverywhere(kNat64, Packets(packets)));
}

TEST(Nat64, StandInsAreNoHostsAddresses) {
  const IpAddress host = ParsePrefixes("fd00::1")->front().address;
  EXPECT_TRUE(IsStandIn(StandInOf(host)));
  EXPECT_EQ(StandInOf(host), StandInOf(host));
  EXPECT_FALSE(IsStandIn(be32(0xdfff'ffff)));
}

}  // namespace
}  // namespace snf
