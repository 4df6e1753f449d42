// SPDX-License-Identifier: Apache-2.0
// nfs/syn_guard.md names these tests rule by rule.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

std::string There(int client, const std::string& rest,
                  const std::string& server = "10.0.0.1:80") {
  return "tcp 203.0.113.9:" + std::to_string(5'000 + client) + " > " + server +
         " " + rest;
}
std::string Back(int client, const std::string& rest,
                 const std::string& server = "10.0.0.1:80") {
  return "tcp " + server + " > 203.0.113.9:" + std::to_string(5'000 + client) +
         " " + rest;
}
void Open(NfTest& nf, int client) {
  nf.Send(There(client, "SYN seq=100"));
  nf.Send(Back(client, "SYN ACK seq=900 ack=101"));
  nf.Send(There(client, "ACK seq=101 ack=901"));
}
// Returns true if a SYN of that client passes.
bool Passes(NfTest& nf, int client, const std::string& server = "10.0.0.1:80") {
  const std::string syn = There(client, "SYN seq=100", server);
  const NfResult result = nf.Send(syn);
  EXPECT_TRUE(result == syn || result == "drop half_open_limit") << result;
  return result == syn;
}

TEST(SynGuard, BoundsTheHalfOpenConnectionsOfEachDestination) {
  NfTest nf("syn_guard:limit=2");
  EXPECT_TRUE(Passes(nf, 1));
  EXPECT_TRUE(Passes(nf, 2));
  EXPECT_FALSE(Passes(nf, 3));
  EXPECT_TRUE(Passes(nf, 1));  // once more
  EXPECT_TRUE(Passes(nf, 3, "10.0.0.1:443"));
  EXPECT_TRUE(Passes(nf, 3, "10.0.0.2:80"));
  EXPECT_EQ(nf.count("begun"), 4u);
  // The flow of the SYN that was dropped is forgotten.
  EXPECT_EQ(nf.flows(), 4u);
}

TEST(SynGuard, CountsAConnectionUntilItsClientAcknowledges) {
  NfTest nf("syn_guard:limit=1");
  Open(nf, 1);
  EXPECT_EQ(nf.count("opened"), 1u);
  EXPECT_TRUE(Passes(nf, 2));
  // Before the answer, with another number, and from the server.
  nf.Send(There(2, "ACK seq=101 ack=901"));
  nf.Send(Back(2, "SYN ACK seq=900 ack=101"));
  for (const std::string& packet :
       {There(2, "ACK seq=101 ack=900"), There(2, "SYN ACK seq=101 ack=901"),
        There(2, "no_flags seq=101 ack=901"), Back(2, "ACK seq=901 ack=901")}) {
    EXPECT_EQ(nf.Send(packet), packet);
    EXPECT_FALSE(Passes(nf, 3)) << packet;
  }
  // The same SYN once more changes nothing.
  nf.Send(There(2, "SYN seq=100"));
  nf.Send(There(2, "ACK seq=101 ack=901"));
  EXPECT_TRUE(Passes(nf, 3));
  EXPECT_EQ(nf.count("opened"), 2u);
}

TEST(SynGuard, AnswersOfTheServerMustBeToTheSyn) {
  NfTest nf("syn_guard:limit=1");
  EXPECT_TRUE(Passes(nf, 1));
  nf.Send(Back(1, "SYN ACK seq=900 ack=500"));
  nf.Send(There(1, "ACK seq=101 ack=901"));
  EXPECT_FALSE(Passes(nf, 2));
}

TEST(SynGuard, AResetThatFitsEndsAHalfOpenConnection) {
  NfTest nf("syn_guard:limit=1");
  EXPECT_TRUE(Passes(nf, 1));
  for (const std::string& packet :
       {Back(1, "RST ACK ack=999"), Back(1, "RST seq=1"),
        There(1, "RST seq=999")}) {
    nf.Send(packet);
    EXPECT_FALSE(Passes(nf, 2)) << packet;
  }
  nf.Send(Back(1, "RST ACK ack=101"));
  EXPECT_TRUE(Passes(nf, 2));
  nf.Send(There(2, "RST seq=101"));
  EXPECT_TRUE(Passes(nf, 3));
  EXPECT_EQ(nf.count("reset"), 2u);
}

TEST(SynGuard, ForgetsHalfOpenConnectionsAfterTheirTimeout) {
  NfTest nf("syn_guard:limit=1,timeout=5s,open_timeout=60s");
  EXPECT_TRUE(Passes(nf, 1));
  nf.Pass(Milliseconds(4'900));
  EXPECT_FALSE(Passes(nf, 2));
  nf.Pass(Milliseconds(200));
  EXPECT_EQ(nf.count("timed_out"), 1u);
  EXPECT_TRUE(Passes(nf, 2));
  // An open one is kept for longer, and is not counted when it ends.
  Open(nf, 2);
  nf.Pass(Seconds(59));
  EXPECT_EQ(nf.flows(), 1u);
  nf.Pass(Seconds(1));
  EXPECT_EQ(nf.flows(), 0u);
  EXPECT_EQ(nf.count("timed_out"), 1u);
  EXPECT_TRUE(Passes(nf, 3));
  EXPECT_FALSE(Passes(nf, 4));
}

TEST(SynGuard, CountsANewConnectionWithTheEndsOfAnOlderOne) {
  NfTest nf("syn_guard:limit=1");
  Open(nf, 1);
  EXPECT_EQ(nf.Send(There(1, "SYN seq=100")), There(1, "SYN seq=100"));  // late
  EXPECT_EQ(nf.count("begun"), 1u);
  EXPECT_EQ(nf.Send(There(1, "SYN seq=5000")), There(1, "SYN seq=5000"));
  EXPECT_EQ(nf.count("begun"), 2u);
  EXPECT_FALSE(Passes(nf, 2));
  EXPECT_EQ(nf.Send(There(1, "SYN seq=7000")), There(1, "SYN seq=7000"));
  EXPECT_EQ(nf.count("begun"), 2u);  // it has its place
  nf.Send(Back(1, "SYN ACK seq=900 ack=7001"));
  nf.Send(There(1, "ACK seq=7001 ack=901"));
  EXPECT_TRUE(Passes(nf, 2));
}

TEST(SynGuard, SeesASynInAFirstFragment) {
  NfTest nf("syn_guard:limit=1");
  EXPECT_TRUE(Passes(nf, 1));
  EXPECT_EQ(nf.Send(There(2, "SYN seq=100 more len=8")),
            "drop half_open_limit");
}

TEST(SynGuard, LetsOtherPacketsPass) {
  NfTest nf("syn_guard:limit=1");
  EXPECT_TRUE(Passes(nf, 1));
  for (const std::string& packet :
       {There(2, "ACK seq=7"), There(2, "RST seq=7"), There(2, "SYN ACK seq=7"),
        There(2, "ACK offset=80 len=8"),
        std::string("udp 203.0.113.9:1 > 10.0.0.1:80"),
        std::string("icmp 203.0.113.9 > 10.0.0.1 echo")}) {
    EXPECT_EQ(nf.Send(packet), packet);
  }
}

TEST(SynGuard, GuardsAsManyDestinationsAsItIsTold) {
  NfTest nf("syn_guard:limit=1,destinations=2");
  for (int i = 1; i <= 3; ++i) {
    const std::string server = "10.0.0." + std::to_string(i) + ":80";
    EXPECT_TRUE(Passes(nf, 1, server));
    EXPECT_EQ(Passes(nf, 2, server), i == 3);
  }
}

TEST(SynGuard, RunsEverywhereWhileTheLimitIsNotReached) {
  std::vector<std::string> packets;
  for (int i = 0; i < 30; ++i) {
    packets.push_back(There(i, "SYN seq=100"));
    packets.push_back(Back(i, "SYN ACK seq=900 ack=101"));
    if (i % 3 == 0) packets.push_back(Back(i, "RST ACK ack=101"));
    packets.push_back(There(i, "ACK seq=101 ack=901"));
    packets.push_back(There(i, "SYN seq=8000"));
  }
  EXPECT_TRUE(RunEverywhere("syn_guard:limit=1000", Packets(packets)));
}

// Some SYNs too many pass at first. A client whose SYN was dropped sends no
// more.
TEST(SynGuard, ExceedsTheLimitOnManyUnitsByItsBoundAlone) {
  constexpr int kClients = 200;
  std::vector<std::string> packets;
  for (const std::string gap : {"+20us ", "+1us "}) {
    for (int i = 0; i < kClients; ++i) {
      packets.push_back(gap + There(i, "SYN seq=100"));
    }
    packets.push_back("+1s " + There(0, "SYN seq=100"));
  }
  // Each unit may let in as many as the limit before it hears of the others.
  EXPECT_TRUE(RunEverywhere(
      "syn_guard:limit=20", Packets(packets),
      {.counters_that_vary = {"begun", "timed_out"},
       .drops_that_vary = {{.reason = "half_open_limit", .fewer = 20}},
       .closed_loop = true}));
}

}  // namespace
}  // namespace snf
