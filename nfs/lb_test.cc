// SPDX-License-Identifier: Apache-2.0
// nfs/lb.md names these tests rule by rule. NfTest begins at 1,000 s.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr char kThree[] =
    "lb:virtual=192.0.2.10:80,"
    "servers=10.0.0.1:8080+10.0.0.2:8080+10.0.0.3:8080";
constexpr char kTwo[] =
    "lb:virtual=192.0.2.10:80,servers=10.0.0.1:8080+10.0.0.2:8080";
constexpr char kVirtual[] = "192.0.2.10:80";
constexpr char kVirtual6[] = "[2001:db8::10]:80";

std::string Client(int number) {
  return "203.0.113." + std::to_string(1 + number % 200) + ":" +
         std::to_string(2'000 + number);
}
std::string Between(const std::string& protocol, const std::string& from,
                    const std::string& to, const std::string& rest = "") {
  return protocol + " " + from + " > " + to + (rest.empty() ? "" : " " + rest);
}
std::string ToVirtual(const std::string& protocol, int client,
                      const std::string& rest = "") {
  return Between(protocol, Client(client), kVirtual, rest);
}

// The end to which a packet went; the whole text if it went nowhere.
std::string To(const NfResult& result) {
  const size_t at = result.text.find(" > ");
  if (at == std::string::npos) return result.text;
  const size_t end = result.text.find(' ', at + 3);
  return result.text.substr(at + 3, end - at - 3);
}

// The servers of connections 0 … count - 1, begun now.
std::vector<std::string> Servers(NfTest& nf, int count,
                                 const std::string& protocol = "udp",
                                 const std::string& rest = "") {
  std::vector<std::string> servers;
  for (int i = 0; i < count; ++i) {
    servers.push_back(To(nf.Send("+1ns " + ToVirtual(protocol, i, rest))));
  }
  return servers;
}

std::map<std::string, int> Counted(const std::vector<std::string>& servers) {
  std::map<std::string, int> counted;
  for (const std::string& server : servers) ++counted[server];
  return counted;
}

TEST(Lb, RewritesBothWays) {
  for (const std::string protocol : {"udp", "tcp"}) {
    NfTest nf(
        "lb:virtual=192.0.2.10:80+[2001:db8::10]:80,"
        "servers=10.0.0.1:8080+[fd00::1]:8080");
    EXPECT_EQ(nf.Send(ToVirtual(protocol, 1, "\"there\"")),
              Between(protocol, Client(1), "10.0.0.1:8080", "\"there\""));
    EXPECT_EQ(nf.Send(Between(protocol, "10.0.0.1:8080", Client(1), "\"b\"")),
              Between(protocol, kVirtual, Client(1), "\"b\""));
    const std::string client = "[2001:db8:1::9]:5000";
    EXPECT_EQ(nf.Send(Between(protocol, client, kVirtual6, "\"odd\"")),
              Between(protocol, client, "[fd00::1]:8080", "\"odd\""));
    EXPECT_EQ(nf.Send(Between(protocol, "[fd00::1]:8080", client)),
              Between(protocol, kVirtual6, client));
    // A connection is one flow, both ways.
    EXPECT_EQ(nf.flows(), 2u);
    EXPECT_EQ(nf.count("connections"), 2u);
  }
}

TEST(Lb, KeepsTheServerOfAConnection) {
  NfTest nf(kThree);
  const std::vector<std::string> first = Servers(nf, 50);
  EXPECT_EQ(Counted(first).size(), 3u);
  EXPECT_EQ(Servers(nf, 50), first);
  EXPECT_EQ(nf.count("connections"), 50u);
}

// A packet without state, as at another controller, goes to the same server.
TEST(Lb, FindsTheSameServerWithoutState) {
  NfTest nf(kThree);
  const std::vector<std::string> first = Servers(nf, 50);
  nf.EndFlows();
  EXPECT_EQ(Servers(nf, 50), first);
}

TEST(Lb, ServesTheProtocolsThatItIsTold) {
  for (const auto& [option, tcp, udp] :
       {std::tuple("tcp", "10.0.0.1:8080", "drop no_service"),
        std::tuple("udp", "drop no_service", "10.0.0.1:8080"),
        std::tuple("both", "10.0.0.1:8080", "10.0.0.1:8080")}) {
    NfTest nf(std::string("lb:virtual=192.0.2.10:80,servers=10.0.0.1:8080,"
                          "protocol=") +
              option);
    EXPECT_EQ(To(nf.Send(ToVirtual("tcp", 1, "SYN"))), tcp);
    EXPECT_EQ(To(nf.Send(ToVirtual("udp", 1))), udp);
  }
}

std::string FileOf(const std::string& text) {
  const std::string file =
      testing::TempDir() + "lb_services_" + std::to_string(::getpid()) + ".txt";
  std::ofstream(file) << text;
  return file;
}

TEST(Lb, HasServicesWithServersOfTheirOwn) {
  const std::string file = FileOf(
      "# the web\n"
      "tcp 192.0.2.20:80  10.0.1.1:80\n\n"
      "both 192.0.2.21:443 10.0.1.2:443*5 10.0.1.3:443*0\r\n");
  for (const std::string more :
       {"", ",virtual=192.0.2.10:80,servers=10.0.0.1:80"}) {
    NfTest nf("lb:services=" + file + more);
    const std::string client = "203.0.113.1:5000";
    EXPECT_EQ(To(nf.Send("tcp " + client + " > 192.0.2.20:80 SYN")),
              "10.0.1.1:80");
    EXPECT_EQ(nf.Send("udp " + client + " > 192.0.2.20:80"), "drop no_service");
    EXPECT_EQ(To(nf.Send("udp " + client + " > 192.0.2.21:443")),
              "10.0.1.2:443");
    EXPECT_EQ(nf.Send("udp 10.0.1.2:443 > " + client),
              "udp 192.0.2.21:443 > " + client);
    EXPECT_EQ(nf.Send("udp " + client + " > 192.0.2.10:80"),
              more.empty() ? "udp " + client + " > 192.0.2.10:80"
                           : "udp " + client + " > 10.0.0.1:80");
  }
}

TEST(Lb, RefusesServicesByFileAndLine) {
  for (const auto& [text, wrong] :
       {std::pair("icmp 192.0.2.20:80 10.0.1.1:80", ":1: \"icmp\""),
        std::pair("\ntcp 192.0.2.20:80", ":2: want a virtual"),
        std::pair("tcp 192.0.2.20 10.0.1.1:80", ":1: \"192.0.2.20\""),
        std::pair("tcp 192.0.2.20:80 x", ":1: \"x\""),
        std::pair("tcp 192.0.2.20:80 [::1]:80", "at least one of IPv4"),
        std::pair(
            "tcp 192.0.2.20:80 10.0.1.1:80\ntcp 192.0.2.21:80 10.0.1.1:80",
            "10.0.1.1:80 has 192.0.2.20:80 and 192.0.2.21:80")}) {
    const auto options = NfOptions::Parse("services=" + FileOf(text));
    const std::string message(FindNf("lb")->check(*options).message());
    EXPECT_NE(message.find(wrong), std::string::npos) << message;
  }
}

TEST(Lb, SharesConnectionsByWeight) {
  NfTest nf("lb:virtual=192.0.2.10:80,servers=10.0.0.1:80+10.0.0.2:80*3");
  std::map<std::string, int> counted = Counted(Servers(nf, 4'000));
  EXPECT_NEAR(counted["10.0.0.1:80"], 1'000, 100);
  EXPECT_NEAR(counted["10.0.0.2:80"], 3'000, 100);
  EXPECT_EQ(nf.count("udp 10.0.0.2:80"),
            static_cast<uint64_t>(counted["10.0.0.2:80"]));
}

TEST(Lb, LeavesOtherPacketsAlone) {
  NfTest nf(kTwo);
  for (const std::string other : {"udp 203.0.113.1:5000 > 203.0.113.2:80",
                                  "tcp 203.0.113.1:5000 > 10.0.0.1:22 SYN",
                                  "tcp 10.0.0.1:22 > 203.0.113.1:5000 SYN ACK",
                                  "icmp 10.0.0.1 > 203.0.113.1 echo id=7",
                                  "89 10.0.0.5 > 224.0.0.5 \"x\""}) {
    EXPECT_EQ(nf.Send(other), other);
  }
  EXPECT_EQ(nf.count("passed_by"), 5u);
}

TEST(Lb, DropsWhatIsForNoService) {
  NfTest nf(kTwo);
  for (const std::string wrong : {"udp 203.0.113.1:5000 > 192.0.2.10:81",
                                  "icmp 203.0.113.1 > 192.0.2.10 echo id=7",
                                  "89 203.0.113.1 > 192.0.2.10 \"x\""}) {
    EXPECT_EQ(nf.Send(wrong), "drop no_service") << wrong;
  }
}

// --- Servers that change -----------------------------------------------------

std::string Changing(const std::string& change, const char* lb = kThree) {
  return std::string(lb) + "," + change;
}

TEST(Lb, ADrainingServerKeepsItsConnectionsAndGetsNoOthers) {
  for (const char* const drain :
       {"drain@1010s=10.0.0.2", "drain@1010s=10.0.0.2:8080",
        "servers@1010s=10.0.0.1:8080+10.0.0.2:8080*0+10.0.0.3:8080"}) {
    NfTest nf(Changing(drain));
    const std::vector<std::string> before = Servers(nf, 100);
    nf.Pass(Seconds(20));
    EXPECT_EQ(Servers(nf, 100), before);
    nf.EndFlows();
    const std::vector<std::string> after = Servers(nf, 100);
    EXPECT_EQ(Counted(after).count("10.0.0.2:8080"), 0u);
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] != "10.0.0.2:8080") {
        EXPECT_EQ(after[i], before[i]) << i;
      }
    }
  }
}

TEST(Lb, DrainingServersAreUsedIfAllAre) {
  NfTest nf(Changing("drain=10.0.0.1+10.0.0.2+10.0.0.3"));
  EXPECT_EQ(Counted(Servers(nf, 100)).size(), 3u);
  EXPECT_EQ(nf.count("draining_used"), 100u);
}

TEST(Lb, UsesNoServerThatIsDown) {
  NfTest nf(Changing("down=10.0.0.1,drain=10.0.0.2"));
  EXPECT_EQ(Counted(Servers(nf, 100)),
            (std::map<std::string, int>{{"10.0.0.3:8080", 100}}));
  NfTest other(Changing("down=10.0.0.1+10.0.0.3,drain=10.0.0.2"));
  EXPECT_EQ(Counted(Servers(other, 100)),
            (std::map<std::string, int>{{"10.0.0.2:8080", 100}}));
  NfTest none(Changing("down=10.0.0.1+10.0.0.2+10.0.0.3"));
  EXPECT_EQ(none.Send(ToVirtual("udp", 1)), "drop no_server");
  EXPECT_EQ(none.Send(ToVirtual("tcp", 1, "SYN")), "drop no_server");
}

constexpr const char* kRemovals[] = {
    "servers@1010s=10.0.0.1:8080+10.0.0.3:8080", "down@1010s=10.0.0.2"};

TEST(Lb, ChoosesAnewForUdpIfTheServerIsRemoved) {
  for (const char* const removal : kRemovals) {
    NfTest nf(Changing(removal));
    const std::vector<std::string> before = Servers(nf, 100);
    nf.Pass(Seconds(20));
    const std::vector<std::string> after = Servers(nf, 100);
    uint64_t moved = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] != "10.0.0.2:8080") {
        EXPECT_EQ(after[i], before[i]) << i;
      } else {
        EXPECT_NE(after[i], "10.0.0.2:8080") << i;
        ++moved;
      }
    }
    EXPECT_GT(moved, 10u);
    EXPECT_EQ(nf.count("moved"), moved);
    // The server's answers still leave as before.
    EXPECT_EQ(nf.Send(Between("udp", "10.0.0.2:8080", Client(1))),
              Between("udp", kVirtual, Client(1)));
  }
}

// Returns a client whose connections 10.0.0.2 has.
int ClientOfTheSecond(const char* lb = kThree) {
  NfTest nf(lb);
  const std::vector<std::string> servers = Servers(nf, 100, "tcp", "SYN");
  for (int i = 0; i < 100; ++i) {
    if (servers[static_cast<size_t>(i)] == "10.0.0.2:8080") return i;
  }
  ADD_FAILURE() << "none";
  return 0;
}

TEST(Lb, ResetsTcpConnectionsWhoseServerIsRemoved) {
  const int client = ClientOfTheSecond();
  for (const char* const removal : kRemovals) {
    NfTest nf(Changing(removal));
    EXPECT_EQ(To(nf.Send(ToVirtual("tcp", client, "SYN seq=100"))),
              "10.0.0.2:8080");
    EXPECT_EQ(To(nf.Send(ToVirtual("tcp", client, "seq=101 ack=501"))),
              "10.0.0.2:8080");
    nf.Pass(Seconds(20));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(
          nf.Send(ToVirtual("tcp", client, "PSH ACK seq=101 ack=501 \"late\"")),
          "drop server_removed");
      const std::vector<std::string> emitted = nf.TakeEmitted();
      ASSERT_EQ(emitted.size(), 1u);
      EXPECT_EQ((NfResult{.text = emitted[0], .packet = {}}),
                Between("tcp", kVirtual, Client(client),
                        "RST seq=501 win=0 src=02:00:00:00:00:02 "
                        "dst=02:00:00:00:00:01 df"));
    }
    EXPECT_EQ(nf.count("resets"), 2u);
    // A reset is not answered.
    EXPECT_EQ(nf.Send(ToVirtual("tcp", client, "RST seq=101")),
              "drop server_removed");
    EXPECT_TRUE(nf.TakeEmitted().empty());
    // A new connection with the same ends gets another server.
    EXPECT_NE(To(nf.Send(ToVirtual("tcp", client, "SYN seq=900"))),
              "10.0.0.2:8080");
  }
}

TEST(Lb, KeepsTcpConnectionsWhoseServerIsRemovedWhereToldSo) {
  const int client = ClientOfTheSecond();
  for (const char* const removal : kRemovals) {
    NfTest nf(Changing(std::string("removed=keep,") + removal));
    nf.Send(ToVirtual("tcp", client, "SYN seq=100"));
    nf.Pass(Seconds(20));
    EXPECT_EQ(To(nf.Send(ToVirtual("tcp", client, "seq=101 ack=501"))),
              "10.0.0.2:8080");
    EXPECT_EQ(nf.Send(Between("tcp", "10.0.0.2:8080", Client(client))),
              Between("tcp", kVirtual, Client(client)));
    EXPECT_EQ(nf.count("resets"), 0u);
  }
}

TEST(Lb, AReusedClientPortIsANewConnectionAtItsSyn) {
  const int client = ClientOfTheSecond();
  NfTest nf(Changing("drain@1010s=10.0.0.2"));
  nf.Send(ToVirtual("tcp", client, "SYN seq=100"));
  nf.Send(ToVirtual("tcp", client, "seq=101 ack=501"));
  nf.Pass(Seconds(20));
  // The same SYN once more changes nothing.
  EXPECT_EQ(To(nf.Send(ToVirtual("tcp", client, "SYN seq=100"))),
            "10.0.0.2:8080");
  EXPECT_EQ(nf.count("reused"), 0u);
  EXPECT_NE(To(nf.Send(ToVirtual("tcp", client, "SYN seq=7000"))),
            "10.0.0.2:8080");
  EXPECT_EQ(nf.count("reused"), 1u);
  EXPECT_EQ(nf.count("connections"), 2u);
}

// --- Affinity ----------------------------------------------------------------

TEST(Lb, GivesAllConnectionsOfAnAddressOneServerIfAskedTo) {
  for (const bool drains : {false, true}) {
    NfTest nf(Changing(std::string("affinity=source") +
                       (drains ? ",drain=10.0.0.2" : "")));
    std::map<std::string, std::set<std::string>> by_host;
    for (int i = 0; i < 400; ++i) {
      for (const char* const protocol : {"udp", "tcp"}) {
        by_host[Client(i).substr(0, Client(i).find(':'))].insert(To(
            nf.Send(ToVirtual(protocol, i, protocol[0] == 't' ? "SYN" : ""))));
      }
    }
    EXPECT_EQ(by_host.size(), 200u);
    std::set<std::string> all;
    for (const auto& [host, servers] : by_host) {
      EXPECT_EQ(servers.size(), 1u) << host;
      all.insert(servers.begin(), servers.end());
    }
    EXPECT_EQ(all.size(), drains ? 2u : 3u);
  }
}

// --- Time --------------------------------------------------------------------

TEST(Lb, ForgetsConnectionsAfterTheTimeoutOfTheirState) {
  const std::string lb =
      std::string(kTwo) +
      ",tcp_opening_timeout=3s,tcp_timeout=50s,tcp_closing_timeout=7s,"
      "udp_timeout=20s";
  const std::string answer = Between("tcp", "10.0.0.1:8080", Client(1));
  const auto lives = [&lb](const std::vector<std::string>& packets) {
    NfTest nf(lb + ",down=10.0.0.2");
    for (const std::string& packet : packets) nf.Send(packet);
    EXPECT_EQ(nf.flows(), 1u);
    int64_t seconds = 0;
    for (; nf.flows() > 0 && seconds < 100; ++seconds) nf.Pass(Seconds(1));
    return seconds;
  };
  const std::string syn = ToVirtual("tcp", 1, "SYN");
  const std::string ack = ToVirtual("tcp", 1);
  const std::string fin = ToVirtual("tcp", 1, "FIN ACK");
  EXPECT_EQ(lives({syn}), 3);
  EXPECT_EQ(lives({syn, answer + " SYN ACK"}), 3);
  EXPECT_EQ(lives({syn, answer + " SYN ACK", ack}), 50);
  EXPECT_EQ(lives({ack}), 3);
  EXPECT_EQ(lives({ack, answer}), 50);
  EXPECT_EQ(lives({ack, answer, fin}), 50);
  EXPECT_EQ(lives({ack, answer, fin, answer + " FIN ACK"}), 7);
  EXPECT_EQ(lives({ack, answer, answer + " RST"}), 7);
  EXPECT_EQ(lives({ToVirtual("udp", 1)}), 20);
}

// --- ICMP and fragments ------------------------------------------------------

TEST(Lb, BringsErrorsToTheServerThatSentWhatTheyQuote) {
  for (const bool has_state : {true, false}) {
    for (const std::string protocol : {"udp", "tcp"}) {
      NfTest nf(kThree);
      for (int i = 0; i < 20; ++i) {
        const std::string server = To(nf.Send(ToVirtual(protocol, i)));
        if (!has_state) nf.EndFlows();
        const std::string host = server.substr(0, server.find(':'));
        EXPECT_EQ(nf.Send("icmp 198.51.100.7 > 192.0.2.10 unreachable code=4 "
                          "about {" +
                          Between(protocol, kVirtual, Client(i)) + "}"),
                  "icmp 198.51.100.7 > " + host +
                      " unreachable code=4 about {" +
                      Between(protocol, server, Client(i)) + "}");
      }
      EXPECT_EQ(nf.count("icmp_errors"), 20u);
    }
  }
}

TEST(Lb, BringsErrorsOfIpv6Too) {
  NfTest nf("lb:virtual=[2001:db8::10]:80,servers=[fd00::1]:8080");
  EXPECT_EQ(nf.Send("icmp6 [2001:db8::7] > [2001:db8::10] too_big seq=1280 "
                    "about {udp [2001:db8::10]:80 > [2001:db8::9]:5000}"),
            "icmp6 [2001:db8::7] > [fd00::1] too_big seq=1280 "
            "about {udp [fd00::1]:8080 > [2001:db8::9]:5000}");
}

TEST(Lb, GivesErrorsFromServersTheVirtualAddress) {
  NfTest nf(kTwo);
  const std::string server = To(nf.Send(ToVirtual("udp", 1)));
  for (const std::string& sender :
       {server.substr(0, server.find(':')), std::string("10.9.9.9")}) {
    EXPECT_EQ(nf.Send("icmp " + sender +
                      " > 203.0.113.2 unreachable code=3 "
                      "about {" +
                      Between("udp", Client(1), server) + "}"),
              "icmp 192.0.2.10 > 203.0.113.2 unreachable code=3 about {" +
                  ToVirtual("udp", 1) + "}");
  }
}

TEST(Lb, DropsErrorsAboutWhatNoServerSent) {
  NfTest nf(kTwo);
  EXPECT_EQ(nf.Send("icmp 198.51.100.7 > 192.0.2.10 unreachable about {udp "
                    "192.0.2.10:81 > 203.0.113.2:5000}"),
            "drop no_service");
}

TEST(Lb, FragmentsFollowTheirFirst) {
  NfTest nf(kThree);
  for (int i = 0; i < 20; ++i) {
    const std::string host = Client(i).substr(0, Client(i).find(':'));
    const std::string id = "ip_id=" + std::to_string(100 + i);
    const std::string server =
        To(nf.Send(ToVirtual("udp", i, id + " more len=24")));
    const std::string rest = id + " offset=32 x'0102'";
    EXPECT_EQ(
        nf.Send("17 " + host + " > 192.0.2.10 " + rest),
        "17 " + host + " > " + server.substr(0, server.find(':')) + " " + rest);
    // The same holds on the way back.
    nf.Send(Between("udp", server, Client(i), id + " more len=24"));
    EXPECT_EQ(nf.Send("17 " + server.substr(0, server.find(':')) + " > " +
                      host + " " + rest),
              "17 192.0.2.10 > " + host + " " + rest);
  }
  EXPECT_EQ(nf.Send("17 203.0.113.9 > 192.0.2.10 ip_id=9 offset=32 x'01'"),
            "drop fragment_early");
  // The service for which a server sends this is unknown.
  const std::string other = "17 10.0.0.1 > 203.0.113.9 ip_id=9 offset=32 x'01'";
  EXPECT_EQ(nf.Send(other), other);
  // An answer without state.
  nf.EndFlows();
  nf.Send("udp 10.0.0.1:8080 > 203.0.113.9:5000 ip_id=7 more len=24");
  EXPECT_EQ(nf.Send("17 10.0.0.1 > 203.0.113.9 ip_id=7 offset=32 x'01'"),
            "17 192.0.2.10 > 203.0.113.9 ip_id=7 offset=32 x'01'");
}

// --- QUIC --------------------------------------------------------------------

constexpr char kQuic[] =
    "lb:virtual=192.0.2.10:80,protocol=udp,quic=2,"
    "servers=10.0.0.1:443#7+10.0.0.2:443#258+10.0.0.3:443#9";

TEST(Lb, FollowsAQuicConnectionIdAfterTheClientsPortChanged) {
  NfTest nf(kQuic);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(To(nf.Send(ToVirtual("udp", i, "x'40 01 0102 aabbcc'"))),
              "10.0.0.2:443");
  }
  EXPECT_EQ(nf.count("by_connection_id"), 50u);
  // A Handshake packet of version 1 has the server's id too.
  EXPECT_EQ(To(nf.Send(ToVirtual("udp", 60, "x'e0 00000001 05 02 0007 aabb'"))),
            "10.0.0.1:443");
  // A migration to another server's id, and a draining server.
  EXPECT_EQ(To(nf.Send(ToVirtual("udp", 60, "x'40 01 0009 aabbcc'"))),
            "10.0.0.3:443");
  NfTest draining(std::string(kQuic) + ",drain=10.0.0.2");
  EXPECT_EQ(To(draining.Send(ToVirtual("udp", 1, "x'40 01 0102 aabbcc'"))),
            "10.0.0.2:443");
}

TEST(Lb, ChoosesByTheEndsWhereAConnectionIdNamesNoServer) {
  for (const std::string payload :
       {"x'c0 00000001 05 02 0102 aabb'",  // Initial: the client chose it
        "x'd0 00000001 05 02 0102 aabb'",  // 0-RTT
        "x'e0 00000002 05 02 0102 aabb'",  // another version
        "x'e0 00000001 02 02 0102 aabb'",  // too short an id
        "x'40 e1 0102 aabbcc'",            // says that it cannot be routed
        "x'40 01 0003 aabbcc'",            // of no server
        "x'40 01 01'", "x'40'", "len=0"}) {
    NfTest nf(kQuic);
    EXPECT_EQ(Counted(Servers(nf, 100, "udp", payload)).size(), 3u) << payload;
    EXPECT_EQ(nf.count("by_connection_id"), 0u) << payload;
  }
}

// --- Bad input ---------------------------------------------------------------

TEST(Lb, DropsWhatIsCutByItsSender) {
  NfTest nf(kTwo);
  // Four bytes of TCP, two of UDP, and TCP with a header of four words.
  const std::string link = "frame x'020000000002 020000000001 0800 ";
  const std::string ends = "0000 cb007101 c000020a ";
  EXPECT_EQ(nf.Send(link + "4500 0018 0000 0000 4006 " + ends + "1388 0050'"),
            "drop malformed");
  EXPECT_EQ(nf.Send(link + "4500 0016 0000 0000 4011 " + ends + "1388'"),
            "drop malformed");
  EXPECT_EQ(nf.Send(link + "4500 0028 0000 0000 4006 " + ends +
                    "1388 0050 00000001 00000000 4002 ffff 0000 0000'"),
            "drop malformed");
}

TEST(Lb, RefusesOptionsByName) {
  const std::string ok = "virtual=192.0.2.10:80,servers=10.0.0.1:80";
  const auto what_is_wrong = [](const std::string& options) {
    const auto parsed = NfOptions::Parse(options);
    EXPECT_TRUE(parsed.ok());
    return std::string(FindNf("lb")->check(*parsed).message());
  };
  EXPECT_EQ(what_is_wrong(ok), "");
  for (const auto& [options, wrong] :
       std::vector<std::pair<std::string, std::string>>{
           {"servers=10.0.0.1:80", "virtual=: must be at least one"},
           {"virtual=192.0.2.10:80", "servers=: must be at least one of IPv4"},
           {"virtual=192.0.2.10:80,servers=", "servers=: must be at least one"},
           {"virtual=192.0.2.10:80,servers=[fd00::1]:80",
            "must be at least one of IPv4 for 192.0.2.10:80"},
           {"virtual=192.0.2.10:80+192.0.2.10:80,servers=10.0.0.1:80",
            "192.0.2.10:80 is there twice"},
           {"virtual=192.0.2.10:80+192.0.2.11:80,servers=10.0.0.1:80",
            "10.0.0.1:80 has 192.0.2.10:80 and 192.0.2.11:80"},
           {"virtual=192.0.2.10,servers=10.0.0.1:80", "not \"192.0.2.10\""},
           {"virtual=192.0.2.10:80,servers=10.0.0.1", "not \"10.0.0.1\""},
           {"virtual=192.0.2.10:80,servers=10.0.0.1:80*1001",
            "not \"10.0.0.1:80*1001\""},
           {"virtual=192.0.2.10:80,servers=10.0.0.1:80*x",
            "not \"10.0.0.1:80*x\""},
           {"virtual=192.0.2.10:80,servers=10.0.0.1:80#-1",
            "not \"10.0.0.1:80#-1\""},
           {"virtual=192.0.2.10:80,servers=10.0.0.1:80+10.0.0.1:80*2",
            "10.0.0.1:80 is there twice"},
           {"virtual=192.0.2.10:80,servers=10.0.0.1:80#1+10.0.0.2:80#1",
            "ID 1 is there twice"},
           {"virtual=192.0.2.10:80,servers=192.0.2.10:8080",
            "hosts other than the virtual addresses"},
           {ok + ",drain=10.0.0.2", "\"10.0.0.2\" is none of them"},
           {ok + ",drain=10.0.0.1:81", "\"10.0.0.1:81\" is none of them"},
           {ok + ",down=x", "\"x\" is none of them"},
           {ok + ",drain@5s=10.0.0.9", "drain@5s=10.0.0.9: must be servers"},
           {ok + ",servers@5s=", "servers@5s=: must be at least one"},
           {"virtual=192.0.2.10:80,servers=10.0.0.1:80#1,servers@5s=10.0.0.1:"
            "80",
            "10.0.0.1:80 has two"},
           {ok + ",table=65536", "table=65536: must be a prime"},
           {ok + ",table=7", "table=7: must be"},
           {ok + ",table@3s=251", "cannot change while packets go through"},
           {ok + ",affinity=yes", "affinity=yes"},
           {ok + ",quic=5", "quic=5"}}) {
    const std::string message = what_is_wrong(options);
    EXPECT_NE(message.find(wrong), std::string::npos)
        << options << ": " << message;
  }
}

// --- On many units -----------------------------------------------------------

std::vector<TestPacket> Everything() {
  std::vector<std::string> packets;
  for (int i = 0; i < 40; ++i) {
    for (const std::string server :
         {"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"}) {
      packets.push_back(ToVirtual("tcp", i, "SYN seq=5"));
      packets.push_back(Between("tcp", server, Client(i), "SYN ACK"));
      packets.push_back(ToVirtual("udp", i, "\"x\""));
      packets.push_back(ToVirtual("tcp", i, "seq=6 \"request\""));
      packets.push_back(Between("udp", server, Client(i), "\"answer\""));
      packets.push_back("icmp 198.51.100.7 > 192.0.2.10 unreachable about {" +
                        Between("udp", kVirtual, Client(i)) + "}");
    }
    packets.push_back(ToVirtual("tcp", i, "FIN ACK seq=13"));
    packets.push_back(ToVirtual("tcp", i, "SYN seq=70"));
  }
  return Packets(packets);
}

TEST(Lb, RunsEverywhere) {
  EXPECT_TRUE(RunEverywhere(
      std::string(kThree) + ",drain@1000200ms=10.0.0.1,down@1000500ms=10.0.0.2,"
                            "servers@1000700ms=10.0.0.1:8080+10.0.0.3:8080",
      Everything()));
}

TEST(Lb, RunsInAChainWhereAnswersGoTheOtherWay) {
  const std::string chain =
      "firewall(allow=tcp to 192.0.2.10 port 80,default=deny) | "
      "lb(virtual=192.0.2.10:80,servers=10.0.0.1:8080)";
  NfTest nf(chain);
  const std::string syn = ToVirtual("tcp", 1, "SYN");
  EXPECT_EQ(nf.Send(syn), Between("tcp", Client(1), "10.0.0.1:8080", "SYN"));
  const std::string answer = Client(1) + " SYN ACK";
  EXPECT_EQ(nf.Send("tcp 10.0.0.1:8080 > " + answer),
            "tcp 192.0.2.10:80 > " + answer);
  EXPECT_EQ(nf.Send(ToVirtual("udp", 1)), "drop firewall.denied");
  EXPECT_EQ(nf.flows(), 2u);
  EXPECT_TRUE(RunEverywhere(chain, Everything()));
}

}  // namespace
}  // namespace snf
