// SPDX-License-Identifier: Apache-2.0
// Checks of appliances, and what happens to flows if these fail or are
// deregistered. nfs/gwlb.md names these tests. NfTest begins at 1,000 s.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/ip_address_text.h"
#include "base/packet/l4_headers.h"
#include "nfs/test_gwlb.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

std::string There(int number, const std::string& rest = "SYN") {
  return "+1us tcp 10.1.0.9:" + std::to_string(2'000 + number) +
         " > 192.0.2.7:80 " + rest;
}
std::string Back(int number, const std::string& rest) {
  return "+1us tcp 192.0.2.7:80 > 10.1.0.9:" + std::to_string(2'000 + number) +
         " " + rest;
}
constexpr int kFlows = 60;

// A balancer, and appliances of which some answer its checks.
class GwlbHealth : public testing::Test {
 protected:
  void Begin(const std::string& more, int appliances = 3) {
    nf_.emplace(Balancer(appliances, "check=tcp,check_port=8080,fall=2,rise=2" +
                                         (more.empty() ? "" : "," + more)));
  }
  NfTest& nf() { return *nf_; }

  // Answers the checks that have left, and returns their appliances. Other
  // packets that have left are kept.
  std::set<std::string> AnswerChecks() {
    std::set<std::string> checked;
    for (const TestPacket& check : nf().TakeEmittedPackets()) {
      const ParsedPacket headers = Parse(check.link, check.bytes);
      const auto tcp = Tcp::At(check.bytes, headers.l4_offset);
      const FlowKey ends = FiveTuple(check.bytes, headers, false);
      const bool is_check = tcp &&
                            ends.source == *ParseIpv4(kBalancerAddress) &&
                            ends.destination_port.host() == 8'080;
      if (!is_check) {
        others_.push_back(ToText(check));
        continue;
      }
      if (tcp.flags() != Tcp::kSyn) continue;
      const std::string appliance = Ipv4Text(ends.destination);
      checked.insert(appliance);
      if (dead_.contains(appliance)) continue;
      EXPECT_EQ(
          nf().Send("+1us tcp " + appliance + ":8080 > 10.0.2.1:" +
                    std::to_string(ends.source_port.host()) +
                    " SYN ACK seq=9 ack=" + std::to_string(tcp.sequence() + 1)),
          "consume");
    }
    return checked;
  }
  // Rounds in which somebody sends.
  void Rounds(int rounds) {
    while (rounds-- > 0) {
      nf().Send("+1us udp 10.1.0.1:9 > 192.0.2.8:9");
      AnswerChecks();
      nf().Pass(Seconds(2));
    }
  }
  // Returns the appliances of the flows, which send this.
  std::vector<std::string> Appliances(const std::string& rest = "SYN",
                                      int first = 0) {
    std::vector<std::string> appliances;
    for (int i = first; i < first + kFlows; ++i) {
      const ToAppliance sent = ReadToAppliance(nf().Send(
          i % 2 == 0 || rest == "SYN" ? There(i, rest) : Back(i, rest)));
      appliances.push_back(sent.appliance.empty() ? sent.outer
                                                  : sent.appliance);
      AnswerChecks();
    }
    return appliances;
  }
  static std::set<std::string> SetOf(const std::vector<std::string>& all) {
    return {all.begin(), all.end()};
  }

  std::optional<NfTest> nf_;
  std::set<std::string> dead_;
  std::vector<std::string> others_;
};

const std::set<std::string> kAll = {"10.0.2.11", "10.0.2.12", "10.0.2.13"};

// Checks leave beside packets: without packets an appliance's end goes unseen.
TEST_F(GwlbHealth, TellsHowLongAnApplianceIsUnchecked) {
  Begin("");
  EXPECT_EQ(nf().states()[0], "10.0.2.11 up: not checked yet");
  Rounds(3);
  EXPECT_EQ(nf().states()[0], "10.0.2.11 up");
  nf().Pass(Seconds(28));
  EXPECT_EQ(nf().states()[0], "10.0.2.11 up: last checked 30.0 s ago");
  Rounds(1);
  EXPECT_EQ(nf().states()[0], "10.0.2.11 up");
}

TEST_F(GwlbHealth, ChecksEachApplianceOnceARound) {
  Begin("");
  for (int round = 0; round < 3; ++round) {
    nf().Send(There(0, "ACK"));
    EXPECT_EQ(AnswerChecks(), kAll);
    nf().Send(There(1, "ACK"));
    EXPECT_EQ(AnswerChecks(), std::set<std::string>());
    nf().Pass(Seconds(2));
  }
  EXPECT_EQ(nf().count("checks"), 9u);
  EXPECT_EQ(nf().count("checks_passed"), 9u);
}

// A check has the link header of a packet from the inside, or the reversed one
// of a packet from the outside.
TEST_F(GwlbHealth, SendsChecksToTheOutside) {
  for (const Side side : {Side::kInside, Side::kOutside}) {
    Begin("", 1);
    nf().Send(From(side, "udp 10.1.0.1:9 > 192.0.2.8:9"));
    const std::string check = nf().TakeEmitted().at(0);
    EXPECT_NE(check.find("tcp 10.0.2.1:"), std::string::npos);
    EXPECT_EQ(check.find("dst=02:00:00:00:00:01") != std::string::npos,
              side == Side::kOutside)
        << check;
  }
}

TEST_F(GwlbHealth, NewFlowsGoToHealthyAppliancesAndOldOnesStay) {
  Begin("");
  const std::vector<std::string> before = Appliances();
  EXPECT_EQ(SetOf(before), kAll);
  dead_ = {"10.0.2.12"};
  Rounds(5);
  EXPECT_EQ(nf().states(),
            (std::vector<std::string>{"10.0.2.11 up", nf().states()[1],
                                      "10.0.2.13 up"}));
  EXPECT_TRUE(nf().states()[1].starts_with("10.0.2.12 down for "));
  EXPECT_EQ(nf().TakeLog("gwlb.health"),
            std::vector<std::string>{"10.0.2.12:8080 is down"});
  // As AWS does by default: to the dead one.
  EXPECT_EQ(Appliances("ACK"), before);
  EXPECT_EQ(SetOf(Appliances("SYN", 1'000)),
            (std::set<std::string>{"10.0.2.11", "10.0.2.13"}));
  EXPECT_GT(nf().count("down_avoided"), 0u);
  // A SYN begins a new flow; flows of other appliances stay.
  const std::vector<std::string> again = Appliances();
  for (int i = 0; i < kFlows; ++i) {
    EXPECT_EQ(again[i] == before[i], before[i] != "10.0.2.12") << i;
  }
  dead_ = {};
  Rounds(3);
  EXPECT_EQ(SetOf(Appliances("SYN", 2'000)), kAll);
  EXPECT_EQ(nf().count("rebalanced"), 0u);
  EXPECT_EQ(nf().TakeLog("gwlb.health"),
            std::vector<std::string>{"10.0.2.12:8080 is up"});
}

TEST_F(GwlbHealth, RebalancesFlowsOfUnhealthyAppliances) {
  Begin("on_unhealthy=rebalance");
  const std::vector<std::string> before = Appliances();
  dead_ = {"10.0.2.12"};
  Rounds(5);
  const std::vector<std::string> after = Appliances("ACK");
  uint64_t moved = 0;
  for (int i = 0; i < kFlows; ++i) {
    EXPECT_NE(after[i], "10.0.2.12");
    if (before[i] == "10.0.2.12") {
      ++moved;
    } else {
      EXPECT_EQ(after[i], before[i]);
    }
  }
  EXPECT_GT(moved, 0u);
  EXPECT_EQ(nf().count("rebalanced"), moved);
  // The flow stays at its new appliance, also when the old one is back.
  dead_ = {};
  Rounds(3);
  EXPECT_EQ(Appliances("ACK"), after);
  EXPECT_EQ(nf().count("rebalanced"), moved);
}

TEST_F(GwlbHealth, TakesWhatTheAppliancesBeforeStillSendBack) {
  Begin("on_unhealthy=rebalance");
  std::vector<ToAppliance> under_way;
  for (int i = 0; i < kFlows; ++i) {
    under_way.push_back(ReadToAppliance(nf().Send(There(i))));
  }
  dead_ = {"10.0.2.12"};
  Rounds(5);
  Appliances("ACK");
  for (const ToAppliance& one : under_way) {
    EXPECT_EQ(nf().Send(SentBack(one.packet)), one.inner);
  }
  EXPECT_EQ(nf().count("from_others"), nf().count("rebalanced"));
}

TEST_F(GwlbHealth, ResetsTcpOfUnhealthyAppliancesIfAskedTo) {
  Begin("on_unhealthy=rebalance,reset_on_unhealthy=true");
  const std::vector<std::string> before = Appliances();
  dead_ = {"10.0.2.12"};
  Rounds(5);
  for (int turn = 0; turn < 2; ++turn) {
    others_.clear();
    const std::vector<std::string> after = Appliances("ACK seq=3 ack=4");
    size_t resets = 0;
    for (int i = 0; i < kFlows; ++i) {
      const bool is_dead = before[i] == "10.0.2.12";
      EXPECT_EQ(after[i], is_dead ? "drop reset" : before[i]);
      resets += is_dead ? 1 : 0;
    }
    // Each end gets a reset at its own packet.
    EXPECT_EQ(others_.size(), resets);
    for (const std::string& text : others_) {
      EXPECT_NE(text.find("RST seq=4"), std::string::npos) << text;
    }
  }
  const std::vector<std::string> begun = Appliances("SYN seq=7");
  EXPECT_EQ(SetOf(begun), (std::set<std::string>{"10.0.2.11", "10.0.2.13"}));
  EXPECT_EQ(Appliances("ACK"), begun);
}

TEST_F(GwlbHealth, IfAllAreUnhealthyDoesAsItIsTold) {
  for (const std::string what : {"send", "drop", "pass"}) {
    SCOPED_TRACE(what);
    dead_ = {};
    Begin("on_unhealthy=rebalance,all_unhealthy=" + what);
    const std::vector<std::string> before = Appliances();
    dead_ = kAll;
    Rounds(5);
    // No flow has a better appliance.
    EXPECT_EQ(Appliances("ACK"), before);
    EXPECT_EQ(nf().count("rebalanced"), 0u);
    const NfResult begun = nf().Send(There(900));
    AnswerChecks();
    const NfResult fragment =
        nf().Send("17 10.1.0.3 > 192.0.2.7 offset=72 ip_id=9 \"end\"");
    if (what == "send") {
      EXPECT_EQ(ReadToAppliance(begun).outer.find("10.0.2.1 > 10.0.2.1"), 0u);
      EXPECT_GT(nf().count("down_used"), 0u);
      EXPECT_EQ(fragment, "drop fragment_early");
    } else if (what == "drop") {
      EXPECT_EQ(begun, "drop no_appliance");
      EXPECT_EQ(fragment, "drop fragment_early");
    } else {
      EXPECT_EQ(begun, "tcp 10.1.0.9:2900 > 192.0.2.7:80 SYN");
      EXPECT_EQ(fragment, "17 10.1.0.3 > 192.0.2.7 offset=72 ip_id=9 \"end\"");
      EXPECT_GT(nf().count("passed_by"), 1u);
    }
    dead_ = {};
    Rounds(4);
    // A healthy appliance sees packets that passed before.
    const ToAppliance seen = ReadToAppliance(nf().Send(There(900, "ACK")));
    EXPECT_TRUE(kAll.contains(seen.appliance)) << seen.outer;
  }
}

// 10.0.2.12 is deregistered at 1,100 s, and registered again at 2,000 s.
class GwlbDeregistration : public GwlbHealth {
 protected:
  void Begin(const std::string& more) {
    nf_.emplace(Balancer(3,
                         "appliances@1100s=10.0.2.11+10.0.2.13,"
                         "appliances@2000s=10.0.2.11+10.0.2.12+10.0.2.13,"
                         "deregistration_delay=100s" +
                             more));
    before_ = Appliances();
    EXPECT_EQ(SetOf(before_), kAll);
    PassUntil(1'110);
  }
  void PassUntil(int64_t seconds) {
    nf().Pass(Seconds(seconds - now_));
    now_ = seconds;
  }
  void ExpectStays(const std::vector<std::string>& now) {
    EXPECT_EQ(now, before_);
  }
  std::vector<std::string> before_;
  int64_t now_ = 1'000;
};

TEST_F(GwlbDeregistration, DrainsAnApplianceForTheDelay) {
  Begin("");
  EXPECT_TRUE(nf().states()[1].starts_with("10.0.2.12 draining for 10"))
      << nf().states()[1];
  EXPECT_EQ(Appliances("ACK"), before_);
  EXPECT_EQ(SetOf(Appliances("SYN", 1'000)),
            (std::set<std::string>{"10.0.2.11", "10.0.2.13"}));
  PassUntil(1'210);
  EXPECT_TRUE(nf().states()[1].starts_with("10.0.2.12 unused for 10"))
      << nf().states()[1];
  // As AWS does by default: flows stay.
  EXPECT_EQ(Appliances("ACK"), before_);
  PassUntil(1'540);
  EXPECT_EQ(Appliances("ACK"), before_);
  PassUntil(1'880);
  Appliances("ACK");
  PassUntil(2'010);
  EXPECT_EQ(SetOf(Appliances("SYN", 2'000)), kAll);
  EXPECT_EQ(nf().states()[1].substr(0, 12), "10.0.2.12 up");
  EXPECT_EQ(nf().count("rebalanced"), 0u);
}

TEST_F(GwlbDeregistration, RebalancesBehindTheDelay) {
  Begin(",on_deregistration=rebalance");
  EXPECT_EQ(Appliances("ACK"), before_);
  PassUntil(1'210);
  const std::vector<std::string> after = Appliances("ACK");
  uint64_t moved = 0;
  for (int i = 0; i < kFlows; ++i) {
    EXPECT_NE(after[i], "10.0.2.12");
    if (after[i] != before_[i]) ++moved;
    EXPECT_EQ(after[i] != before_[i], before_[i] == "10.0.2.12") << i;
  }
  EXPECT_EQ(nf().count("rebalanced"), moved);
}

TEST_F(GwlbDeregistration, ResetsTcpBehindTheDelayIfAskedTo) {
  Begin(",reset_on_deregistration=true");
  EXPECT_EQ(Appliances("ACK"), before_);
  PassUntil(1'210);
  const std::vector<std::string> after = Appliances("ACK seq=3 ack=4");
  for (int i = 0; i < kFlows; ++i) {
    EXPECT_EQ(after[i], before_[i] == "10.0.2.12" ? "drop reset" : before_[i]);
  }
  EXPECT_EQ(nf().count("resets"), others_.size());
  EXPECT_GT(others_.size(), 0u);
}

// The packets of 20 flows, and what their appliances send back.
std::vector<TestPacket> ThroughAppliances(const std::string& balancer) {
  NfTest nf(balancer);
  std::vector<TestPacket> packets;
  for (int turn = 0; turn < 6; ++turn) {
    for (int i = 0; i < 20; ++i) {
      const std::string text =
          turn % 2 == 0 ? There(i, turn == 0 ? "SYN" : "ACK \"there\"")
                        : Back(i, "ACK \"back\"");
      packets.push_back(Packets({text})[0]);
      const NfResult sent = nf.Send(packets.back());
      if (sent.text.starts_with("drop")) continue;
      packets.push_back(SentBack(sent.packet));
      nf.Send(packets.back());
    }
  }
  return packets;
}

TEST(GwlbEverywhere, RunsOnAnyNumberOfUnits) {
  for (const std::string more : {"", "stickiness=3_tuple", "stickiness=2_tuple",
                                 "reset_on_idle_timeout=true"}) {
    const std::string balancer = Balancer(3, more);
    EXPECT_TRUE(RunEverywhere(balancer, ThroughAppliances(balancer))) << more;
  }
}

}  // namespace
}  // namespace snf
