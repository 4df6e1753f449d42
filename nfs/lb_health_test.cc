// SPDX-License-Identifier: Apache-2.0
// nfs/lb.md names these tests rule by rule. NfTest begins at 1,000 s.
#include "nfs/lb_health.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr char kServers[] =
    "virtual=192.0.2.10:80,servers=10.0.0.1:8080+10.0.0.2:8080+10.0.0.3:8080";
constexpr char kChecker[] = "10.9.9.9";

std::string Lb(const std::string& more, const std::string& servers = kServers) {
  return "lb:" + servers + ",checker=" + kChecker + "," + more;
}
std::string FromClient(int number, const std::string& rest = "",
                       const std::string& protocol = "tcp") {
  return protocol + " 203.0.113." + std::to_string(1 + number % 200) + ":" +
         std::to_string(2'000 + number) + " > 192.0.2.10:80" +
         (rest.empty() ? "" : " " + rest);
}
// The end to which a packet went; the whole text if it went nowhere.
std::string ServerOf(const NfResult& result) {
  const size_t at = result.text.find(" > ");
  if (at == std::string::npos) return result.text;
  return result.text.substr(at + 3, result.text.find(' ', at + 3) - at - 3);
}

// A segment of a check.
struct Check {
  std::string server;  // "10.0.0.1:8080"
  std::string port;
  std::string flags;
  uint32_t sequence = 0;
  uint32_t acknowledgement = 0;
  std::string text;
};
Check CheckOf(const std::string& text, const std::string& checker = kChecker) {
  Check check;
  check.text = text;
  std::istringstream words(text);
  std::string protocol, from, arrow, word;
  words >> protocol >> from >> arrow >> check.server;
  EXPECT_TRUE(from.starts_with(checker + ":")) << text;
  check.port = from.substr(from.rfind(':') + 1);
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      if (word != "df") check.flags += (check.flags.empty() ? "" : " ") + word;
      continue;
    }
    const std::string key = word.substr(0, equals);
    if (key != "seq" && key != "ack") continue;
    const auto number =
        static_cast<uint32_t>(std::stoul(word.substr(equals + 1)));
    (key == "seq" ? check.sequence : check.acknowledgement) = number;
    if (key == "ack") break;
  }
  return check;
}

// A load balancer, and servers of which some answer its checks.
class LbHealth : public testing::Test {
 protected:
  void Begin(const std::string& nf) { nf_.emplace(nf); }
  NfTest& nf() { return *nf_; }

  std::vector<Check> TakeChecks() {
    std::vector<Check> checks;
    for (const std::string& text : nf().TakeEmitted()) {
      checks.push_back(CheckOf(text));
    }
    return checks;
  }
  NfResult Answer(const Check& check, const std::string& rest) {
    return nf().Send("+1us tcp " + check.server + " > " + kChecker + ":" +
                     check.port + " " + rest);
  }
  static std::string Ack(uint32_t number) {
    return "ack=" + std::to_string(number);
  }
  NfResult Accept(const Check& syn) {
    return Answer(syn, "SYN ACK seq=700 " + Ack(syn.sequence + 1));
  }
  void AnswerChecks() {
    for (const Check& check : TakeChecks()) {
      if (check.flags != "SYN" || dead_.contains(check.server)) continue;
      EXPECT_EQ(Accept(check), "consume");
    }
    nf().TakeEmitted();
  }
  // A round in which a client sends, and living servers accept connections.
  void Round() {
    nf().Send("+1us " + FromClient(0, "ACK seq=7"));
    AnswerChecks();
    nf().Pass(Seconds(2));
  }
  void Rounds(int rounds) {
    while (rounds-- > 0) Round();
  }
  // The servers of new connections, the numbers of which begin at `first`.
  std::vector<std::string> Begun(int first, int count = 300) {
    std::vector<std::string> servers;
    for (int i = first; i < first + count; ++i) {
      servers.push_back(
          ServerOf(nf().Send("+1ns " + FromClient(i, "SYN seq=1"))));
    }
    AnswerChecks();
    return servers;
  }
  static int CountOf(const std::vector<std::string>& servers,
                     const std::string& server) {
    return static_cast<int>(std::ranges::count(servers, server));
  }

  std::optional<NfTest> nf_;
  std::set<std::string> dead_;
};

TEST_F(LbHealth, ChecksEachServerOnceARoundWhileClientsSend) {
  Begin(Lb("check=tcp,check_interval=1s"));
  nf().Send(FromClient(1));
  std::vector<Check> checks = TakeChecks();
  ASSERT_EQ(checks.size(), 3u);
  std::set<std::string> servers;
  for (const Check& check : checks) {
    EXPECT_EQ(check.flags, "SYN") << check.text;
    servers.insert(check.server);
  }
  EXPECT_EQ(servers, (std::set<std::string>{"10.0.0.1:8080", "10.0.0.2:8080",
                                            "10.0.0.3:8080"}));
  nf().Send(FromClient(1));
  nf().Send(FromClient(2));
  EXPECT_TRUE(TakeChecks().empty());
  nf().Pass(Seconds(10));
  EXPECT_TRUE(TakeChecks().empty());
  nf().Send(FromClient(2));
  const std::string before = checks[0].port;
  checks = TakeChecks();
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_NE(checks[0].port, before);
  EXPECT_EQ(nf().count("checks"), 6u);
}

TEST_F(LbHealth, ATcpCheckPassesAtTheAnswerToItsSyn) {
  Begin(Lb("check=tcp"));
  nf().Send(FromClient(1));
  const std::vector<Check> checks = TakeChecks();
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_EQ(Accept(checks[0]), "consume");
  const std::vector<Check> resets = TakeChecks();
  ASSERT_EQ(resets.size(), 1u);
  EXPECT_EQ(resets[0].flags, "RST");
  EXPECT_EQ(resets[0].server, checks[0].server);
  EXPECT_EQ(resets[0].sequence, checks[0].sequence + 1);
  EXPECT_EQ(nf().count("checks_passed"), 1u);
  EXPECT_EQ(Answer(checks[1], "RST ACK " + Ack(checks[1].sequence + 1)),
            "consume");
  EXPECT_EQ(nf().count("checks_refused"), 1u);
  EXPECT_TRUE(TakeChecks().empty());
  EXPECT_EQ(nf().flows(), 1u);  // the client's
}

TEST_F(LbHealth, AnHttpCheckPassesAt2xxAnd3xx) {
  Begin(Lb("check=http,check_path=/health"));
  const std::map<std::string, bool> responses = {
      {"HTTP/1.1 200 OK", true},      {"HTTP/1.0 302 Found", true},
      {"HTTP/1.1 404 No", false},     {"HTTP/1.1 500 Error", false},
      {"SSH-2.0-OpenSSH_9.2", false}, {"HTTP/1.1", false}};
  uint64_t passed = 0;
  for (const auto& [response, passes] : responses) {
    nf().Send(FromClient(1));
    const Check syn = TakeChecks().at(0);
    EXPECT_EQ(Accept(syn), "consume");
    const std::vector<Check> requests = TakeChecks();
    ASSERT_EQ(requests.size(), 1u);
    const Check& request = requests[0];
    EXPECT_EQ(request.flags, "PSH ACK") << request.text;
    EXPECT_EQ(request.sequence, syn.sequence + 1);
    EXPECT_EQ(request.acknowledgement, 701u);
    EXPECT_NE(request.text.find("GET /health HTTP/1.0"), std::string::npos);
    constexpr uint32_t kRequestBytes = 24;
    const uint32_t end = request.sequence + kRequestBytes;
    EXPECT_EQ(nf().count("checks_passed"), passed);
    Answer(syn, "ACK seq=701 " + Ack(end));  // without data
    EXPECT_TRUE(TakeChecks().empty());
    Answer(syn, "ACK PSH seq=701 " + Ack(end) + " \"" + response + "\"");
    passed += passes ? 1 : 0;
    EXPECT_EQ(nf().count("checks_passed"), passed) << response;
    const std::vector<Check> resets = TakeChecks();
    ASSERT_EQ(resets.size(), 1u);
    EXPECT_EQ(resets[0].flags, "RST");
    EXPECT_EQ(resets[0].sequence, end);
    nf().Pass(Seconds(2));
  }
}

TEST_F(LbHealth, TakesADeadServerOutAndALivingOneIn) {
  Begin(Lb("check=tcp,fall=3,rise=2"));
  Rounds(4);
  const std::vector<std::string> before = Begun(1'000);
  EXPECT_GT(CountOf(before, "10.0.0.2:8080"), 60);
  dead_ = {"10.0.0.2:8080"};
  // The third failed check is known to have failed two rounds later.
  Rounds(4);
  EXPECT_GT(CountOf(Begun(2'000), "10.0.0.2:8080"), 60);
  Rounds(2);
  EXPECT_EQ(nf().TakeLog("lb.health"),
            (std::vector<std::string>{"10.0.0.2:8080 is down"}));
  const std::vector<std::string> during = Begun(3'000);
  EXPECT_EQ(CountOf(during, "10.0.0.2:8080"), 0);
  EXPECT_GT(CountOf(during, "10.0.0.1:8080"), 100);
  EXPECT_GT(CountOf(during, "10.0.0.3:8080"), 100);
  EXPECT_GT(nf().count("down_avoided"), 60u);
  dead_.clear();
  Rounds(2);  // the first one has had its checks
  EXPECT_EQ(nf().TakeLog("lb.health"), std::vector<std::string>{});
  Rounds(1);
  EXPECT_EQ(nf().TakeLog("lb.health"),
            (std::vector<std::string>{"10.0.0.2:8080 is up"}));
  EXPECT_GT(CountOf(Begun(5'000), "10.0.0.2:8080"), 60);
}

TEST_F(LbHealth, ConnectionsOfOtherServersStayWhereTheyAre) {
  NfTest all("lb:" + std::string(kServers));
  Begin(Lb("check=tcp"));
  dead_ = {"10.0.0.2:8080"};
  Rounds(6);
  const std::vector<std::string> servers = Begun(1'000);
  for (int i = 0; i < 300; ++i) {
    const std::string server =
        ServerOf(all.Send("+1ns " + FromClient(1'000 + i, "SYN seq=1")));
    if (server == "10.0.0.2:8080") continue;
    EXPECT_EQ(servers[static_cast<size_t>(i)], server);
  }
}

TEST_F(LbHealth, OpenTcpConnectionsGoOnAndUdpIsChosenAnew) {
  Begin(Lb("check=tcp"));
  int tcp = 1;
  while (ServerOf(nf().Send(FromClient(tcp, "SYN seq=1"))) != "10.0.0.2:8080") {
    ++tcp;
  }
  int udp = 1;
  while (ServerOf(nf().Send(FromClient(udp, "", "udp"))) != "10.0.0.2:8080") {
    ++udp;
  }
  nf().TakeEmitted();
  nf().Pass(Seconds(4));
  dead_ = {"10.0.0.2:8080"};
  Rounds(6);
  EXPECT_EQ(ServerOf(nf().Send(FromClient(tcp, "ACK seq=2"))), "10.0.0.2:8080");
  const std::string chosen = ServerOf(nf().Send(FromClient(udp, "", "udp")));
  EXPECT_NE(chosen, "10.0.0.2:8080");
  EXPECT_EQ(nf().count("moved"), 1u);
  dead_.clear();
  Rounds(6);
  EXPECT_EQ(ServerOf(nf().Send(FromClient(udp, "", "udp"))), chosen);
  EXPECT_EQ(nf().count("moved"), 1u);
}

TEST_F(LbHealth, FlappingChecksChangeNothing) {
  Begin(Lb("check=tcp,fall=3,rise=2"));
  Rounds(2);
  // Up: two failed checks in a row are not enough.
  for (int i = 0; i < 8; ++i) {
    dead_ = {"10.0.0.2:8080"};
    Rounds(2);
    dead_.clear();
    Rounds(1);
  }
  EXPECT_EQ(nf().TakeLog("lb.health"), std::vector<std::string>{});
  dead_ = {"10.0.0.2:8080"};
  Rounds(6);
  EXPECT_EQ(nf().TakeLog("lb.health").size(), 1u);
  // Down: one passed check is not enough.
  for (int i = 0; i < 8; ++i) {
    dead_.clear();
    Rounds(1);
    dead_ = {"10.0.0.2:8080"};
    Rounds(1);
  }
  EXPECT_EQ(nf().TakeLog("lb.health"), std::vector<std::string>{});
  EXPECT_EQ(CountOf(Begun(1'000), "10.0.0.2:8080"), 0);
}

TEST_F(LbHealth, IfAllAreDownAllAreUsed) {
  Begin(Lb("check=tcp"));
  dead_ = {"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"};
  Rounds(6);
  const std::vector<std::string> servers = Begun(1'000);
  for (const std::string& server : dead_)
    EXPECT_GT(CountOf(servers, server), 60);
  EXPECT_GT(nf().count("down_used"), 250u);
}

TEST_F(LbHealth, AnswersOfNoCheckCountForNothing) {
  Begin(Lb("check=tcp"));
  nf().Send(FromClient(1));
  const Check syn = TakeChecks().at(0);
  Check other = syn;
  other.port = "1000";
  EXPECT_EQ(Accept(other), "consume");
  other = syn;
  other.server =
      syn.server == "10.0.0.1:8080" ? "10.0.0.2:8080" : "10.0.0.1:8080";
  EXPECT_EQ(Accept(other), "consume");
  EXPECT_EQ(Answer(syn, "SYN ACK seq=1 ack=1"), "consume");
  EXPECT_EQ(Answer(syn, "RST seq=1"), "consume");
  EXPECT_EQ(Answer(syn, "ACK " + Ack(syn.sequence + 1)), "consume");
  EXPECT_TRUE(TakeChecks().empty());
  nf().Pass(Seconds(4));
  EXPECT_EQ(Accept(syn), "consume");  // late
  EXPECT_EQ(nf().count("checks_passed"), 0u);
  EXPECT_EQ(nf().count("checks_refused"), 0u);
  // Others reach a host of this address as ever.
  const std::string ping = "tcp 10.0.7.7:5 > 10.9.9.9:6 SYN seq=1";
  EXPECT_EQ(nf().Send(ping), ping);
  EXPECT_EQ(nf().TakeEmitted().size(), 0u);
}

TEST_F(LbHealth, ChecksIpv6ServersAndOtherPorts) {
  Begin(
      "lb:virtual=[2001:db8::10]:53,protocol=udp,servers=[fd00::1]:53+[fd00::2]"
      ":53,check=tcp,checker=fd00::99,check_port=8053");
  nf().Send("udp [2001:db8:1::9]:5000 > [2001:db8::10]:53");
  const std::vector<std::string> emitted = nf().TakeEmitted();
  ASSERT_EQ(emitted.size(), 2u);
  const Check syn = CheckOf(emitted[0], "[fd00::99]");
  EXPECT_EQ(syn.server, "[fd00::1]:8053");
  EXPECT_EQ(syn.flags, "SYN");
  EXPECT_EQ(nf().Send("tcp [fd00::1]:8053 > [fd00::99]:" + syn.port +
                      " SYN ACK seq=1 " + Ack(syn.sequence + 1)),
            "consume");
  EXPECT_EQ(nf().count("checks_passed"), 1u);
}

TEST_F(LbHealth, ChecksManyServersByGroups) {
  std::string servers = "virtual=192.0.2.10:80,protocol=tcp,servers=";
  for (int i = 1; i <= 60; ++i) {
    servers += (i > 1 ? "+10.0.1." : "10.0.1.") + std::to_string(i) + ":80";
  }
  Begin(Lb("check=tcp", servers));
  std::set<std::string> checked;
  for (int i = 0; i < 200; ++i) {
    nf().Send("+1us " + FromClient(i, "SYN seq=1"));
    const std::vector<Check> checks = TakeChecks();
    EXPECT_LE(checks.size(), 8u);
    for (const Check& check : checks) {
      EXPECT_TRUE(checked.insert(check.server).second);
    }
  }
  EXPECT_EQ(checked.size(), 60u);
}

TEST_F(LbHealth, AServerThatIsRemovedOrDownIsNotChecked) {
  Begin(Lb("check=tcp,down=10.0.0.1,drain=10.0.0.2"));
  nf().Send(FromClient(1));
  std::set<std::string> servers;
  for (const Check& check : TakeChecks()) servers.insert(check.server);
  EXPECT_EQ(servers, (std::set<std::string>{"10.0.0.2:8080", "10.0.0.3:8080"}));
}

TEST_F(LbHealth, TellsTheStatesOfServersTheirAgesAndWhy) {
  Begin(Lb("check=http,protocol=tcp,drain@1003s=10.0.0.1"));
  using Lines = std::vector<std::string>;
  EXPECT_EQ(nf().states(), (Lines{"tcp 10.0.0.1:8080 up: not checked yet",
                                  "tcp 10.0.0.2:8080 up: not checked yet",
                                  "tcp 10.0.0.3:8080 up: not checked yet"}));
  // The server 2 answers by resets, and 3 not at all.
  const auto round = [&](const std::string& status) {
    nf().Send("+1us " + FromClient(0, "ACK seq=7"));
    for (const Check& syn : TakeChecks()) {
      if (syn.flags != "SYN" || dead_.contains(syn.server)) continue;
      if (syn.server == "10.0.0.2:8080") {
        Answer(syn, "RST ACK seq=0 " + Ack(syn.sequence + 1));
        continue;
      }
      Accept(syn);
      for (const Check& request : TakeChecks()) {
        constexpr uint32_t kRequestBytes = 18;
        Answer(request, "ACK PSH seq=701 " +
                            Ack(request.sequence + kRequestBytes) + " \"" +
                            status + "\"");
      }
    }
    nf().TakeEmitted();
    nf().Pass(Seconds(2));
  };
  dead_ = {"10.0.0.3:8080"};
  for (int i = 0; i < 6; ++i) round("HTTP/1.1 200 OK");
  const Lines lines = nf().states();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].substr(0, 30), "tcp 10.0.0.1:8080 draining for");
  EXPECT_TRUE(lines[1].starts_with("tcp 10.0.0.2:8080 down for ")) << lines[1];
  EXPECT_TRUE(lines[1].ends_with(": checks fail: reset")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("tcp 10.0.0.3:8080 down for ")) << lines[2];
  EXPECT_TRUE(lines[2].ends_with(": checks fail: no answer")) << lines[2];
  for (int i = 0; i < 6; ++i) round("HTTP/1.1 500 Error");
  const std::string first = nf().states()[0];
  EXPECT_TRUE(first.starts_with("tcp 10.0.0.1:8080 down for ")) << first;
  EXPECT_TRUE(first.ends_with(": checks fail: wrong status")) << first;
}

TEST_F(LbHealth, TellsOfAServerThatIsDownByOption) {
  Begin("lb:" + std::string(kServers) + ",protocol=tcp,down@1005s=10.0.0.2");
  nf().Pass(Seconds(8));
  const std::vector<std::string> lines = nf().states();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "tcp 10.0.0.2:8080 down for 3.00 s: removed, or down by option");
  EXPECT_EQ(lines[1], "tcp 10.0.0.1:8080 up");
}

TEST(LbChecks, TellSinceWhenAndWhy) {
  const LbHealthOptions options;  // rise 2, fall 3
  EXPECT_EQ(HealthOf({}, 7, options).since, 0u);
  const LbChecks failed = {
      .round = 10, .sent = 0b111, .passed = 0, .reset = 0b010, .wrong = 0b001};
  // The third fails when round 12 begins; no unit has noted that.
  EXPECT_TRUE(HealthOf(failed, 11, options).is_up);
  for (const uint64_t now : {12, 13, 1'000}) {
    const LbServerHealth health = HealthOf(failed, now, options);
    EXPECT_FALSE(health.is_up);
    EXPECT_EQ(health.since, 12u);
    EXPECT_EQ(health.why, "checks fail: wrong status");
  }
  // The fourth check is under way: the third decides.
  LbChecks more = failed;
  MergeChecks(more, {.round = 13, .sent = 1, .down_at = 13});
  EXPECT_EQ(HealthOf(more, 14, options).since, 13u);
  EXPECT_EQ(HealthOf(more, 14, options).why, "checks fail: wrong status");
  EXPECT_EQ(HealthOf(more, 15, options).why, "checks fail: no answer");
  // Much later, it is still down since then.
  for (uint64_t round = 14; round < 200; ++round) {
    MergeChecks(more, {.round = round, .sent = 1});
  }
  EXPECT_EQ(HealthOf(more, 202, options).since, 13u);
  MergeChecks(more, {.round = 200, .sent = 1, .passed = 1});
  MergeChecks(more, {.round = 201, .sent = 1, .passed = 1, .up_at = 201});
  EXPECT_TRUE(HealthOf(more, 202, options).is_up);
  EXPECT_EQ(HealthOf(more, 202, options).since, 201u);
  EXPECT_EQ(HealthOf(more, 202, options).why, "");
}

TEST(LbChecks, MergeInAnyOrderAndAnyNumber) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::vector<LbChecks> parts;
    for (int i = 0; i < 20; ++i) {
      const uint64_t sent = rng.Below(~uint64_t{0});
      parts.push_back({.round = 1'000 + rng.Below(100),
                       .sent = sent,
                       .passed = sent & rng.Below(~uint64_t{0}),
                       .reset = sent & rng.Below(~uint64_t{0}),
                       .wrong = sent & rng.Below(~uint64_t{0}),
                       .down_at = rng.Below(1'000),
                       .up_at = rng.Below(1'000)});
    }
    LbChecks all;
    for (const LbChecks& part : parts) MergeChecks(all, part);
    LbChecks other;
    LbChecks some;
    for (size_t i = parts.size(); i-- > 0;) {
      MergeChecks(i % 3 == 0 ? some : other, parts[i]);
      MergeChecks(other, parts[rng.Below(parts.size())]);
    }
    MergeChecks(other, some);
    EXPECT_EQ(other, all);
    MergeChecks(other, {});
    EXPECT_EQ(other, all);
  }
}

TEST(LbChecks, AreUpUntilAsManyHaveFailedInARow) {
  const LbHealthOptions options;  // rise 2, fall 3
  EXPECT_TRUE(IsUp({}, 7, options));
  const LbChecks failed = {.round = 10, .sent = 0b111, .passed = 0};
  EXPECT_TRUE(IsUp(failed, 11, options));  // the last may pass
  EXPECT_FALSE(IsUp(failed, 12, options));
  EXPECT_TRUE(IsUp({.round = 10, .sent = 0b1111, .passed = 0b10}, 12, options));
  // Rounds without checks are between them.
  EXPECT_FALSE(
      IsUp({.round = 10, .sent = 0b1010001, .passed = 0}, 12, options));
  const LbChecks once = {.round = 10, .sent = 0b11110, .passed = 0b10};
  EXPECT_FALSE(IsUp(once, 12, options));
  LbChecks twice = once;
  MergeChecks(twice, {.round = 11, .sent = 1, .passed = 1});
  EXPECT_TRUE(IsUp(twice, 12, options));
  // A check without an answer yet is between the two.
  EXPECT_FALSE(
      IsUp({.round = 12, .sent = 0b1111111, .passed = 0b101}, 12, options));
}

}  // namespace
}  // namespace snf
