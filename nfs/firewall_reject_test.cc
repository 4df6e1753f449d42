// SPDX-License-Identifier: Apache-2.0
// Rules that tell the sender. nfs/firewall.md names these tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kRejectAll = "firewall:default=reject";
const std::string kRejectedSyn = "tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN seq=7";
constexpr char kMacsBack[] = " src=02:00:00:00:00:02 dst=02:00:00:00:00:01";

// Returns the packet as the kit writes it.
std::string AsText(const std::string& packet) {
  return ToText(Packets({packet})[0]);
}

TEST(FirewallReject, ResetsTcp) {
  NfTest nf("firewall:reject=tcp to any port 80");
  EXPECT_EQ(nf.Send(kRejectedSyn), "drop rejected");
  EXPECT_THAT(
      nf.TakeEmitted(),
      ElementsAre(AsText("tcp 192.0.2.9:80 > 10.0.0.1:5000 RST ACK ack=8 df "
                         "win=0" +
                         std::string(kMacsBack))));
  const std::string other = "tcp 10.0.0.1:5000 > 192.0.2.9:81 SYN";
  EXPECT_EQ(nf.Send(other), other);
  EXPECT_EQ(nf.count("rejected"), 1u);
  EXPECT_EQ(nf.count("resets"), 1u);
  EXPECT_EQ(nf.count("icmp_errors"), 0u);
  // A segment in the midst of a connection is told by the number that its
  // sender expects.
  EXPECT_EQ(nf.Send("tcp 10.0.0.1:6000 > 192.0.2.9:80 ACK ack=99 len=10"),
            "drop rejected");
  EXPECT_THAT(nf.TakeEmitted(),
              ElementsAre(StartsWith("tcp 192.0.2.9:80 > 10.0.0.1:6000 RST "
                                     "seq=99")));
}

TEST(FirewallReject, TellsOtherProtocolsByIcmp) {
  NfTest nf(kRejectAll);
  EXPECT_EQ(nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\""), "drop rejected");
  EXPECT_THAT(
      nf.TakeEmitted(),
      ElementsAre(StartsWith("icmp 192.0.2.9 > 10.0.0.1 unreachable code=13")));
  EXPECT_EQ(nf.Send("47 10.0.0.1 > 192.0.2.9 \"tunnel\""), "drop rejected");
  EXPECT_THAT(nf.TakeEmitted(), testing::SizeIs(1));
  EXPECT_EQ(nf.Send("icmp 10.0.0.1 > 192.0.2.9 echo id=7"), "drop rejected");
  EXPECT_THAT(nf.TakeEmitted(), testing::SizeIs(1));
  EXPECT_EQ(nf.count("icmp_errors"), 3u);
  EXPECT_EQ(nf.count("by_default"), 3u);
}

TEST(FirewallReject, TellsIpv6) {
  NfTest nf("firewall:reject=ip6");
  EXPECT_EQ(nf.Send("udp [2001:db8::1]:5000 > [2001:db9::9]:53"),
            "drop rejected");
  EXPECT_THAT(nf.TakeEmitted(),
              ElementsAre(StartsWith("icmp6 [2001:db9::9] > [2001:db8::1] "
                                     "unreachable code=1")));
  EXPECT_EQ(nf.Send("tcp [2001:db8::1]:5000 > [2001:db9::9]:80 SYN seq=7"),
            "drop rejected");
  EXPECT_THAT(nf.TakeEmitted(),
              ElementsAre(StartsWith(
                  "tcp [2001:db9::9]:80 > [2001:db8::1]:5000 RST ACK ack=8")));
  // Neighbour discovery is dropped, but not answered.
  EXPECT_EQ(nf.Send("icmp6 [fe80::1] > [fe80::2] type=135 ttl=255"),
            "drop rejected");
  EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
}

TEST(FirewallReject, IsSilentWhereAnAnswerWouldHarm) {
  NfTest nf(kRejectAll);
  for (const char* none :
       {"tcp 10.0.0.1:5000 > 192.0.2.9:80 RST",
        "icmp 192.0.2.1 > 10.0.0.1 unreachable code=1 about {tcp "
        "10.0.0.1:5000 > 192.0.2.9:80 SYN}",
        "udp 10.0.0.1 > 192.0.2.9 len=40 ip_id=7 offset=64",
        "tcp 10.0.0.1 > 192.0.2.9 len=40 ip_id=8 offset=64",
        "udp 10.0.0.1:5000 > 224.0.0.251:5353",
        "udp 10.0.0.1:5001 > 255.255.255.255:67",
        "udp 10.0.0.1:5002 > 10.0.0.255:67 dst=ff:ff:ff:ff:ff:ff",
        "udp 0.0.0.0:68 > 192.0.2.9:67",
        "udp [2001:db8::1]:5000 > [ff02::fb]:5353"}) {
    EXPECT_THAT(nf.Send(none).text, StartsWith("drop ")) << none;
    EXPECT_THAT(nf.TakeEmitted(), IsEmpty()) << none;
  }
  EXPECT_EQ(nf.count("resets") + nf.count("icmp_errors"), 0u);
}

// RFC 1812 §4.3.2.8.
TEST(FirewallReject, TellsAFlowOnceASecond) {
  NfTest nf(kRejectAll);
  const auto answers = [&nf](const std::string& packet) {
    EXPECT_EQ(nf.Send(packet), "drop rejected");
    return nf.TakeEmitted().size();
  };
  EXPECT_EQ(answers(kRejectedSyn), 1u);
  EXPECT_EQ(answers("+999ms " + kRejectedSyn), 0u);
  EXPECT_EQ(answers("+1ms " + kRejectedSyn), 1u);
  EXPECT_EQ(answers("+1ms tcp 10.0.0.1:5001 > 192.0.2.9:80 SYN"), 1u);
  // The rules were asked about each flow once.
  EXPECT_EQ(nf.count("by_default"), 2u);
  // Silence does not count as an answer.
  EXPECT_EQ(answers("tcp 10.0.0.2:5000 > 192.0.2.9:80 RST"), 0u);
  EXPECT_EQ(answers("tcp 10.0.0.2:5000 > 192.0.2.9:80 ACK"), 1u);
}

TEST(FirewallReject, AnswersInEachDirectionAndLeavesDenialsSilent) {
  NfTest nf(
      "firewall:deny=udp from 10.0.0.0/8,reject=udp from 192.0.2.0/24,"
      "allow=tcp");
  EXPECT_EQ(nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53"), "drop denied");
  EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(nf.Send("+2s udp 192.0.2.9:53 > 10.0.0.1:5000"), "drop rejected");
    EXPECT_THAT(nf.TakeEmitted(),
                ElementsAre(StartsWith("icmp 10.0.0.1 > 192.0.2.9 ")));
    EXPECT_EQ(nf.Send("+2s udp 10.0.0.1:5000 > 192.0.2.9:53"), "drop denied");
    EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
  }
  EXPECT_EQ(nf.count("denied"), 1u);
  EXPECT_EQ(nf.count("rejected"), 1u);
}

TEST(FirewallReject, KeepsConnectionsThatWereAllowed) {
  NfTest nf("firewall:allow=any from 10.0.0.0/8,default=reject");
  const std::string answer = "tcp 192.0.2.9:80 > 10.0.0.1:5000 SYN ACK";
  EXPECT_EQ(nf.Send(kRejectedSyn), kRejectedSyn);
  EXPECT_EQ(nf.Send(answer), answer);
  EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
  NfTest strict(
      "firewall:allow=any from 10.0.0.0/8,default=reject,strict=true");
  EXPECT_EQ(strict.Send(answer), "drop no_connection");
  EXPECT_THAT(strict.TakeEmitted(), IsEmpty());
}

// Packets from the outside would be answered from inside addresses.
TEST(FirewallReject, AnswersTheInsideOfANatAlone) {
  NfTest nf(
      "firewall(allow=udp from 10.0.0.0/8,default=reject) | "
      "nat(ip=198.51.100.1)");
  EXPECT_EQ(nf.Send(kRejectedSyn), "drop firewall.rejected");
  EXPECT_THAT(nf.TakeEmitted(),
              ElementsAre(StartsWith("tcp 192.0.2.9:80 > 10.0.0.1:5000 RST")));
  const std::string out = nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53").text;
  ASSERT_THAT(out, StartsWith("udp 198.51.100.1:5000 > 192.0.2.9:53"));
  EXPECT_EQ(nf.Send("udp 192.0.2.7:53 > 198.51.100.1:5000"),
            "drop firewall.rejected");
  EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
}

TEST(FirewallReject, AnswersTheSameEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 40; ++i) {
    const std::string port = std::to_string(5'000 + i % 8);
    packets.push_back("+300ms tcp 10.0.0.1:" + port + " > 192.0.2.9:80 SYN");
    packets.push_back("udp 10.0.0.1:" + port + " > 192.0.2.9:53");
  }
  EXPECT_TRUE(RunEverywhere(kRejectAll, Packets(packets)));
}

}  // namespace
}  // namespace snf
