// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using testing::HasSubstr;

const std::string kSyn = "tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN";
const std::string kSynAck = "tcp 192.0.2.9:80 > 10.0.0.1:5000 SYN ACK";
const std::string kData = "tcp 10.0.0.1:5000 > 192.0.2.9:80 ACK";
const std::string kAnswer = "tcp 192.0.2.9:80 > 10.0.0.1:5000 ACK";
const std::string kFin = "tcp 10.0.0.1:5000 > 192.0.2.9:80 FIN ACK";
const std::string kAnswerFin = "tcp 192.0.2.9:80 > 10.0.0.1:5000 FIN ACK";
const std::string kQuery = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\"";
const std::string kReply = "udp 192.0.2.9:53 > 10.0.0.1:5000 \"reply\"";
const std::string kError =
    "icmp 192.0.2.1 > 10.0.0.1 unreachable code=1 "
    "about {tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN}";
const std::string kOnlyOut =
    "firewall:allow=any from 10.0.0.0/8,default=deny,strict=true";

// A file of rules, which the destructor removes.
class RuleFile {
 public:
  explicit RuleFile(const std::string& text) { std::ofstream(path_) << text; }
  ~RuleFile() { std::remove(path_.c_str()); }
  std::string option() const { return "rules=" + path_; }

 private:
  std::string path_ = testing::TempDir() + "/firewall_test.rules";
};

// Returns "" if the firewall takes the options, else the error.
std::string Check(const std::string& options) {
  const auto parsed = NfOptions::Parse(options);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::string(FindNf("firewall")->check(*parsed).message());
}

TEST(Firewall, AllowsAnswersToWhatItAllowed) {
  NfTest nf(kOnlyOut);
  EXPECT_EQ(nf.Send(kSyn), kSyn);
  EXPECT_EQ(nf.Send(kSynAck), kSynAck);
  EXPECT_EQ(nf.Send(kData), kData);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kReply), kReply);
  EXPECT_EQ(nf.count("connections"), 2u);
  EXPECT_EQ(nf.count("allowed"), 2u);
}

TEST(Firewall, DeniesWhatBeginsOutsideButLetsTheOtherEndBegin) {
  NfTest nf(kOnlyOut);
  EXPECT_EQ(nf.Send(kReply), "drop denied");
  EXPECT_EQ(nf.Send(kReply), "drop denied");
  EXPECT_EQ(nf.count("by_default"), 1u);
  EXPECT_EQ(nf.count("connections"), 0u);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kReply), kReply);
}

TEST(Firewall, AsksTheRulesOnceAConnection) {
  NfTest nf("firewall:deny=udp,default=allow");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(nf.Send(kSyn), kSyn);
    EXPECT_EQ(nf.Send(kQuery), "drop denied");
  }
  EXPECT_EQ(nf.count("by_default"), 1u);
  EXPECT_EQ(nf.count("denied"), 1u);
}

TEST(Firewall, TakesTheFirstRuleThatMatches) {
  const RuleFile file(
      "mark  tcp to any port 80\n"
      "deny  tcp\n"
      "allow any\n");
  NfTest nf("firewall:" + file.option() + ",deny=udp to any port 53+54");
  EXPECT_EQ(nf.Send(kSyn), "suspicious: " + kSyn);
  EXPECT_EQ(nf.Send(kSynAck), "suspicious: " + kSynAck);
  EXPECT_EQ(nf.Send("tcp 10.0.0.1:5000 > 192.0.2.9:81 SYN"), "drop denied");
  EXPECT_EQ(nf.Send(kQuery), "drop denied");
  const std::string other = "udp 10.0.0.1:5000 > 192.0.2.9:55 \"query\"";
  EXPECT_EQ(nf.Send(other), other);
  EXPECT_EQ(nf.count("marked"), 1u);
  EXPECT_EQ(nf.count("denied"), 2u);
  EXPECT_EQ(nf.count("allowed"), 1u);
  EXPECT_EQ(nf.count("by_default"), 0u);
}

TEST(Firewall, DeniesByTheOptionFirstThenAllows) {
  NfTest nf(
      "firewall:allow=udp;tcp to any port 80,deny=tcp from 10.0.0.1,"
      "default=deny");
  EXPECT_EQ(nf.Send(kSyn), "drop denied");
  const std::string other = "tcp 10.0.0.2:5000 > 192.0.2.9:80 SYN";
  EXPECT_EQ(nf.Send(other), other);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
}

TEST(Firewall, WithoutStrictTakesUpAConnectionInItsMidst) {
  NfTest nf("firewall:allow=any from 10.0.0.0/8,default=deny");
  EXPECT_EQ(nf.Send(kAnswer), "drop denied");
  EXPECT_EQ(nf.Send(kData), kData);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
}

TEST(Firewall, IfStrictWantsConnectionsFromTheirBeginning) {
  NfTest nf("firewall:strict=true");
  EXPECT_EQ(nf.Send(kData), "drop no_connection");
  EXPECT_EQ(nf.Send(kSynAck), "drop no_connection");
  EXPECT_EQ(nf.Send("tcp 10.0.0.1:5000 > 192.0.2.9:80 RST"),
            "drop no_connection");
  EXPECT_EQ(nf.Send("tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN FIN"),
            "drop no_connection");
  EXPECT_EQ(nf.Send("udp 10.0.0.1 > 192.0.2.9 offset=64"),
            "drop no_connection");
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kSyn), kSyn);
  EXPECT_EQ(nf.Send(kData), kData);
}

// A packet without flags is denied; the rules are asked again about the SYN
// that follows.
TEST(Firewall, AsksAgainAboutASynAfterItDeniedOtherFlags) {
  NfTest nf("firewall:deny=tcp flags /SA,default=allow");
  const std::string none = "tcp 10.0.0.1:5000 > 192.0.2.9:80 no_flags";
  EXPECT_EQ(nf.Send(none), "drop denied");
  EXPECT_EQ(nf.Send(none), "drop denied");
  EXPECT_EQ(nf.Send(kSyn), kSyn);
  EXPECT_EQ(nf.Send(none), none);
  EXPECT_EQ(nf.count("denied"), 1u);
}

TEST(Firewall, EndsAConnectionAtBothFins) {
  NfTest nf(kOnlyOut);
  for (const std::string& packet :
       {kSyn, kSynAck, kFin, kAnswer, kFin, kAnswerFin, kData, kAnswerFin}) {
    EXPECT_EQ(nf.Send(packet), packet);
  }
  nf.Pass(Seconds(31));
  EXPECT_EQ(nf.Send(kAnswer), "drop no_connection");
  EXPECT_EQ(nf.Send(kSyn), kSyn);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  EXPECT_EQ(nf.count("connections"), 2u);
}

TEST(Firewall, KeepsAnEstablishedConnectionForTwoHoursFourMinutes) {
  for (const char* strict : {"false", "true"}) {
    NfTest nf(std::string("firewall:allow=any from 10.0.0.0/8,default=deny,") +
              "strict=" + strict);
    for (const std::string& packet : {kSyn, kSynAck, kData}) {
      EXPECT_EQ(nf.Send(packet), packet);
    }
    nf.Pass(Seconds(7'439));
    EXPECT_EQ(nf.Send(kAnswer), kAnswer);
    nf.Pass(Seconds(7'439));
    EXPECT_EQ(nf.Send(kAnswer), kAnswer);
    EXPECT_EQ(nf.flows(), 1u);
    nf.Pass(Seconds(7'441));
    EXPECT_EQ(nf.flows(), 0u);
    EXPECT_EQ(nf.Send(kAnswer).text.substr(0, 5), "drop ");
  }
}

TEST(Firewall, KeepsAConnectionThatIsNotEstablishedForFourMinutes) {
  NfTest nf(kOnlyOut);
  for (const std::string& last : {kSyn, kSynAck}) {
    EXPECT_EQ(nf.Send(kSyn), kSyn);
    EXPECT_EQ(nf.Send(last), last);
    nf.Pass(Seconds(239));
    EXPECT_EQ(nf.Send(kSynAck), kSynAck);
    nf.Pass(Seconds(241));
    EXPECT_EQ(nf.flows(), 0u);
    EXPECT_EQ(nf.Send(kSynAck), "drop no_connection");
    nf.EndFlows();
  }
  // A connection that was established ends.
  for (const std::string& packet : {kSyn, kSynAck, kData, kFin, kAnswerFin}) {
    EXPECT_EQ(nf.Send(packet), packet);
  }
  nf.Pass(Seconds(239));
  EXPECT_EQ(nf.flows(), 1u);
  nf.Pass(Seconds(2));
  EXPECT_EQ(nf.flows(), 0u);
}

TEST(Firewall, TakesTheTimeoutsFromItsOptions) {
  NfTest nf("firewall:strict=true,tcp_timeout=20s,tcp_transitory_timeout=10s");
  for (const std::string& packet : {kSyn, kSynAck}) {
    EXPECT_EQ(nf.Send(packet), packet);
  }
  nf.Pass(Seconds(9));
  EXPECT_EQ(nf.Send(kData), kData);
  nf.Pass(Seconds(19));
  EXPECT_EQ(nf.Send(kData), kData);
  nf.Pass(Seconds(21));
  EXPECT_EQ(nf.Send(kData), "drop no_connection");
}

TEST(Firewall, LeavesOtherProtocolsTheTimeoutOfFlows) {
  NfTest nf(kOnlyOut);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kReply), kReply);
  nf.Pass(Seconds(299));
  EXPECT_EQ(nf.Send(kReply), kReply);
  nf.Pass(Seconds(300));
  EXPECT_EQ(nf.Send(kReply), "drop denied");
}

TEST(Firewall, KeepsAConnectionOfWhichOneDirectionIsAtItsEnd) {
  NfTest nf(kOnlyOut);
  for (int round = 0; round < 2; ++round) {
    for (const std::string& packet : {kSyn, kSynAck, kFin, kFin}) {
      EXPECT_EQ(nf.Send(packet), packet);
    }
    nf.Pass(Seconds(31));
    for (const std::string& packet : {kAnswer, kAnswerFin}) {
      EXPECT_EQ(nf.Send(packet), packet);
    }
  }
  EXPECT_EQ(nf.count("connections"), 2u);
}

TEST(Firewall, AsksAboutASynThatComesAfterTheEnd) {
  NfTest nf(kOnlyOut);
  const std::string syn_back = "tcp 192.0.2.9:80 > 10.0.0.1:5000 SYN";
  EXPECT_EQ(nf.Send(kSyn), kSyn);
  EXPECT_EQ(nf.Send(syn_back), syn_back);  // simultaneous open
  const std::string reset = "tcp 192.0.2.9:80 > 10.0.0.1:5000 RST";
  EXPECT_EQ(nf.Send(reset), reset);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  EXPECT_EQ(nf.Send(syn_back), "drop denied");
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  nf.Pass(Seconds(31));
  EXPECT_EQ(nf.Send(kAnswer), "drop no_connection");
  EXPECT_EQ(nf.Send(syn_back), "drop denied");
  EXPECT_EQ(nf.Send(kSyn), kSyn);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
}

TEST(Firewall, LetsErrorsPassThatAreAboutAConnection) {
  NfTest nf(kOnlyOut);
  EXPECT_EQ(nf.Send(kError), "drop no_connection");
  EXPECT_EQ(nf.Send(kSyn), kSyn);
  EXPECT_EQ(nf.Send(kError), kError);
}

TEST(Firewall, WithoutStrictAsksTheRulesAboutOtherErrors) {
  NfTest nf("firewall:allow=icmp,default=deny");
  EXPECT_EQ(nf.Send(kError), kError);
  EXPECT_EQ(nf.Send(kSyn), "drop denied");  // the error began nothing
  EXPECT_EQ(nf.Send(kAnswer), "drop denied");
  NfTest other("firewall:deny=icmp");
  EXPECT_EQ(other.Send(kError), "drop denied");
  EXPECT_EQ(other.Send(kSyn), kSyn);
  EXPECT_EQ(other.Send(kError), kError);
}

TEST(Firewall, AllowsAnswersToPings) {
  NfTest nf(kOnlyOut);
  const std::string ping = "icmp 10.0.0.1 > 192.0.2.9 echo id=7 seq=1";
  const std::string pong = "icmp 192.0.2.9 > 10.0.0.1 echo_reply id=7 seq=1";
  EXPECT_EQ(nf.Send(pong), "drop denied");
  EXPECT_EQ(nf.Send(ping), ping);
  EXPECT_EQ(nf.Send(pong), pong);
}

TEST(Firewall, FiltersIpv6) {
  NfTest nf("firewall:allow=tcp from 2001:db8::/32,default=deny");
  const std::string syn = "tcp [2001:db8::1]:5000 > [2001:db9::9]:80 SYN";
  const std::string syn_ack =
      "tcp [2001:db9::9]:80 > [2001:db8::1]:5000 SYN ACK";
  EXPECT_EQ(nf.Send(syn), syn);
  EXPECT_EQ(nf.Send(syn_ack), syn_ack);
  EXPECT_EQ(nf.Send("tcp [2001:db9::9]:80 > [2001:db8::1]:5001 SYN"),
            "drop denied");
}

std::string OnLink(int type, const std::string& more) {
  return "icmp6 [fe80::1] > [ff02::1] type=" + std::to_string(type) + " " +
         more;
}

// The list of nfs/firewall.md.
TEST(Firewall, LetsNeighbourDiscoveryAndMulticastListenersPass) {
  for (const char* options : {"default=deny", "default=deny,strict=true"}) {
    NfTest nf(std::string("firewall:allow=tcp,") + options);
    int passed = 0;
    for (int type = 128; type < 256; ++type) {
      const bool is_neighbour = (type >= 133 && type <= 136) || type == 141 ||
                                type == 142 || type == 148 || type == 149;
      const bool is_listener = (type >= 130 && type <= 132) || type == 143 ||
                               (type >= 151 && type <= 153);
      for (const int hops : {1, 64, 254, 255}) {
        const std::string packet = OnLink(type, "ttl=" + std::to_string(hops));
        const bool passes =
            (is_neighbour && hops == 255) || (is_listener && hops == 1);
        if (passes) ++passed;
        EXPECT_EQ(nf.Send(packet).text.substr(0, 4) == "drop", !passes)
            << packet;
      }
    }
    EXPECT_EQ(passed, 15);
    EXPECT_EQ(nf.count("ipv6_link"), 15u);
    EXPECT_EQ(nf.count("connections"), 0u);
    EXPECT_NE(nf.Send(OnLink(135, "code=1 ttl=255")).text.find("drop"),
              std::string::npos);
    // A host without an address may report too. A source that is not of the
    // link may not.
    EXPECT_EQ(
        nf.Send("icmp6 [::] > [ff02::16] type=143 ttl=1").text.find("drop"),
        std::string::npos);
    EXPECT_EQ(nf.Send("icmp6 [2001:db8::1] > [ff02::16] type=143 ttl=1").text,
              "drop denied");
  }
}

TEST(Firewall, FollowsARuleAboutNeighbourDiscovery) {
  NfTest nf("firewall:deny=icmp6 from fe80::1");
  EXPECT_EQ(nf.Send(OnLink(135, "ttl=255")), "drop denied");
  EXPECT_EQ(nf.Send(OnLink(135, "ttl=255")), "drop denied");
  EXPECT_EQ(nf.count("denied"), 2u);
  const std::string other = "icmp6 [fe80::2] > [ff02::1] type=135 ttl=255";
  EXPECT_NE(nf.Send(other), "drop denied");
  EXPECT_EQ(nf.count("ipv6_link"), 1u);
}

TEST(Firewall, TellsTheVersionsOfIpApart) {
  NfTest nf("firewall:allow=ip from 10.0.0.0/8,deny=ip6");
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send("udp [2001:db8::1]:5000 > [2001:db9::9]:53"),
            "drop denied");
  NfTest other("firewall:deny=ip");
  EXPECT_EQ(other.Send(kQuery), "drop denied");
  EXPECT_NE(other.Send("udp [2001:db8::1]:5000 > [2001:db9::9]:53"),
            "drop denied");
}

TEST(Firewall, AllowsFragmentsOfAConnection) {
  NfTest nf(kOnlyOut);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  const std::string first =
      "udp 192.0.2.9:53 > 10.0.0.1:5000 len=16 ip_id=7 more";
  EXPECT_EQ(nf.Send(first), first);
  const std::string later = "udp 192.0.2.9 > 10.0.0.1 len=8 ip_id=7 offset=24";
  EXPECT_EQ(nf.Send(later), later);
}

// A packet without ports that is allowed does not open its connection.
TEST(Firewall, MakesNoConnectionOfFragmentsAndErrors) {
  NfTest nf("firewall:deny=tcp to any port 80;udp to any port 53");
  const std::string other_later =
      "udp 10.0.0.1 > 192.0.2.9 len=8 ip_id=8 offset=24";
  EXPECT_EQ(nf.Send(other_later), other_later);
  EXPECT_EQ(nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53 len=16 ip_id=7 more"),
            "drop denied");
  EXPECT_EQ(nf.Send("udp 10.0.0.1 > 192.0.2.9 len=8 ip_id=7 offset=24"),
            "drop denied");
  EXPECT_EQ(nf.Send(kQuery), "drop denied");
  EXPECT_EQ(nf.Send(kError), kError);
  EXPECT_EQ(nf.Send(kSyn), "drop denied");
  EXPECT_EQ(nf.Send(kError), "drop denied");
  EXPECT_EQ(nf.count("connections"), 0u);
}

TEST(Firewall, AsksAboutASynOfAConnectionTakenUpInItsMidst) {
  NfTest nf("firewall:deny=tcp to any port 80 flags S/SA");
  EXPECT_EQ(nf.Send(kData), kData);
  EXPECT_EQ(nf.Send(kSyn), "drop denied");
  EXPECT_EQ(nf.Send(kData), kData);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
}

TEST(Firewall, SaysWhatIsWrongWithItsOptions) {
  EXPECT_EQ(Check(""), "");
  EXPECT_EQ(Check("default=mark"),
            "default=mark: must be one of allow, deny, reject");
  EXPECT_THAT(Check("allow=tcp;tpc to any"),
              HasSubstr("allow=tcp;tpc to any: must be rules with semicolons "
                        "between them; \"tpc\": a rule begins with"));
  EXPECT_THAT(Check("deny=tcp to 10.0.0.1/8"), HasSubstr("10.0.0.0/8"));
  EXPECT_THAT(Check("rules=/nowhere/fw.rules"), HasSubstr("/nowhere/fw.rules"));
  const RuleFile file("allow any\nallow tcp form any\n");
  EXPECT_THAT(Check(file.option()),
              HasSubstr("firewall_test.rules:2: \"form\": want from, to"));
}

TEST(Firewall, DecidesTheSameEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 20; ++i) {
    packets.insert(packets.end(), {kReply, kQuery, kReply, kSyn, kSynAck, kData,
                                   kFin, kAnswerFin, kSyn, kError, kAnswer});
  }
  EXPECT_TRUE(RunEverywhere(kOnlyOut, Packets(packets)));
}

}  // namespace
}  // namespace snf
