// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

const std::string kQuery = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\"";
const std::string kAnswer = "udp 192.0.2.9:53 > 10.0.0.1:5000 \"answer\"";

TEST(UdpWhitelister, LetsInAnswersToWhatWasAsked) {
  NfTest nf("udp_whitelister");
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  EXPECT_EQ(nf.count("connections"), 1u);
  EXPECT_EQ(nf.count("answers"), 2u);
}

TEST(UdpWhitelister, DropsWhatNobodyAskedFor) {
  NfTest nf("udp_whitelister");
  EXPECT_EQ(nf.Send(kAnswer), "drop unsolicited");
  nf.Send(kQuery);
  // Packets from another port, from another host, and to another port.
  for (const std::string ends :
       {"192.0.2.9:123 > 10.0.0.1:5000", "192.0.2.8:53 > 10.0.0.1:5000",
        "192.0.2.9:53 > 10.0.0.1:5001"}) {
    EXPECT_EQ(nf.Send("udp " + ends), "drop unsolicited") << ends;
  }
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
}

TEST(UdpWhitelister, IsNotOpenedFromOutside) {
  NfTest nf("udp_whitelister");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(nf.Send("udp 192.0.2.9:53 > 192.168.0.1:53"), "drop unsolicited");
  }
}

TEST(UdpWhitelister, TakesTheFirstAnswerForAWhileAndOthersForLonger) {
  NfTest nf("udp_whitelister:timeout=5s,stream_timeout=20s");
  nf.Send(kQuery);
  EXPECT_EQ(nf.Send("+5s " + kAnswer), kAnswer);
  EXPECT_EQ(nf.Send("+15s " + kAnswer), kAnswer);
  EXPECT_EQ(nf.Send("+1ns " + kAnswer), "drop late");
  // A request renews it, an answer does not.
  nf.Send(kQuery);
  EXPECT_EQ(nf.Send("+5s " + kAnswer), kAnswer);
  nf.Send("+10s " + kQuery);
  EXPECT_EQ(nf.Send("+20s " + kAnswer), kAnswer);
  EXPECT_EQ(nf.Send("+1ns " + kAnswer), "drop late");
}

TEST(UdpWhitelister, WaitsForTheFirstAnswerAnewOnceAllIsLate) {
  NfTest nf("udp_whitelister:timeout=5s,stream_timeout=20s");
  nf.Send(kQuery);
  nf.Send(kAnswer);
  EXPECT_EQ(nf.Send("+20s " + kAnswer), "drop late");
  nf.Send(kQuery);
  EXPECT_EQ(nf.Send("+5001ms " + kAnswer), "drop late");
}

TEST(UdpWhitelister, ForgetsWhatItDoesNotNeed) {
  NfTest nf("udp_whitelister:timeout=5s,stream_timeout=20s");
  nf.Send("udp 192.0.2.8:53 > 10.0.0.1:5000");
  nf.Pass(Seconds(1));
  EXPECT_EQ(nf.flows(), 0u);
  nf.Send(kQuery);
  nf.Pass(Seconds(20));
  EXPECT_EQ(nf.flows(), 1u);
  nf.Pass(Seconds(1));
  EXPECT_EQ(nf.flows(), 0u);
  // A flow that began with an answer without a request works the same.
  nf.Send(kAnswer);
  nf.Send(kQuery);
  nf.Pass(Seconds(20));
  EXPECT_EQ(nf.flows(), 1u);
}

TEST(UdpWhitelister, ForwardsWhatDoesNotComeInOrIsNotUdp) {
  NfTest nf("udp_whitelister");
  for (const std::string packet :
       {"udp 10.0.0.1:1 > 10.0.0.2:2", "udp 192.0.2.1:1 > 192.0.2.2:2",
        "tcp 192.0.2.9:80 > 10.0.0.1:80 SYN", "icmp 192.0.2.9 > 10.0.0.1 echo",
        "icmp 192.0.2.1 > 10.0.0.1 unreachable code=3 "
        "about {udp 10.0.0.1:5000 > 192.0.2.9:53}"}) {
    EXPECT_EQ(nf.Send(packet), packet);
  }
  EXPECT_EQ(nf.count("not_crossing"), 2u);
  EXPECT_EQ(nf.count("connections"), 0u);
}

TEST(UdpWhitelister, ProtectsThePrefixesThatItIsGiven) {
  NfTest nf("udp_whitelister:inside=192.0.2.0/24+2001:db8::/32");
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.count("not_crossing"), 0u);
  EXPECT_EQ(nf.Send("udp 10.0.0.1:5000 > 192.0.2.7:53"), "drop unsolicited");
  const std::string query = "udp [2001:db8::1]:5000 > [2001:7f8::9]:53";
  const std::string answer = "udp [2001:7f8::9]:53 > [2001:db8::1]:5000";
  EXPECT_EQ(nf.Send(answer), "drop unsolicited");
  EXPECT_EQ(nf.Send(query), query);
  EXPECT_EQ(nf.Send(answer), answer);
}

TEST(UdpWhitelister, LetsInFragmentsOfAnswersOnly) {
  NfTest nf("udp_whitelister");
  const std::string first =
      "udp 192.0.2.9:53 > 10.0.0.1:5000 ip_id=7 more len=40";
  const std::string later = "udp 192.0.2.9 > 10.0.0.1 ip_id=7 offset=48 len=8";
  EXPECT_EQ(nf.Send(later), "drop unsolicited");
  nf.Send(kQuery);
  EXPECT_EQ(nf.Send(first).text.substr(0, 4), "udp ");
  EXPECT_EQ(nf.Send(later), later);
}

TEST(UdpWhitelister, RunsEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 10; ++i) {
    packets.push_back(kAnswer);
    packets.push_back("+2s udp 192.0.2.9:53 > 10.0.0.2:5000");
    packets.push_back(kQuery);
    packets.push_back("+3s " + kAnswer);
    packets.push_back("+10us " + kAnswer);
    packets.push_back("+6s " + kAnswer);
  }
  EXPECT_TRUE(RunEverywhere("udp_whitelister:timeout=4s,stream_timeout=8s",
                            Packets(packets)));
}

}  // namespace
}  // namespace snf
