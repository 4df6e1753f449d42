// SPDX-License-Identifier: Apache-2.0
// nfs/ids.md names these tests option by option. NfTest begins at 1,000 s.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "nfs/ids_eve.h"
#include "nfs/ids_stream.h"
#include "nfs/test_ids.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

// Payloads to the server, cut at these places.
std::vector<std::string> Cut(const std::string& stream,
                             const std::vector<size_t>& cuts) {
  Connection connection;
  std::vector<std::string> segments;
  size_t begin = 0;
  for (const size_t end : cuts) {
    segments.push_back(connection.There(stream.substr(begin, end - begin)));
    begin = end;
  }
  segments.push_back(connection.There(stream.substr(begin)));
  return WithHandshake(segments);
}

TEST(Ids, AlertsAndForwardsByDefault) {
  NfTest nf(Ids("alert udp any any -> any 53 (content:\"evil\"; sid:1;)"));
  const std::string good = "udp 10.0.0.1:5 > 192.0.2.9:53 \"good\"";
  const std::string evil = "udp 10.0.0.1:5 > 192.0.2.9:53 \"evil\"";
  EXPECT_EQ(nf.Send(good).text, good);
  EXPECT_EQ(nf.Send(evil).text, "alerted: " + evil);
  EXPECT_EQ(nf.count("alerts"), 1u);
  EXPECT_EQ(nf.count("scanned"), 2u);
  EXPECT_EQ(nf.count("evaluated"), 1u);
  EXPECT_EQ(nf.count("rules_evaluated"), 1u);
}

TEST(Ids, DropsByActionRuleOrAll) {
  const std::string rules =
      "drop udp any any -> any any (content:\"one\"; sid:1;)\n"
      "alert udp any any -> any any (content:\"two\"; sid:2;)\n"
      "reject udp any any -> any any (content:\"three\"; sid:3;)\n";
  const auto sent = [](NfTest& nf, const std::string& text) {
    return nf.Send("udp 10.0.0.1:5 > 192.0.2.9:53 \"" + text + "\"")
        .text.substr(0, 9);
  };
  NfTest alert(Ids(rules));
  EXPECT_EQ(sent(alert, "one"), "alerted: ");
  NfTest rule(Ids(rules, "action=rule"));
  EXPECT_EQ(sent(rule, "one"), "drop rule");
  EXPECT_EQ(sent(rule, "two"), "alerted: ");
  EXPECT_EQ(sent(rule, "three"), "drop rule");
  NfTest drop(Ids(rules, "action=drop"));
  EXPECT_EQ(sent(drop, "two"), "drop rule");
}

// The byte that completes a pattern decides, wherever the stream is cut.
TEST(Ids, FindsPatternsOverTheBordersOfPackets) {
  const std::string nf =
      Ids("alert tcp any any -> any any (content:\"EVIL\"; content:\"code\"; "
          "distance:1; within:6; flow:established,to_server; sid:1;)\n"
          "alert tcp any any -> any any (content:\"head\"; depth:4; sid:2;)\n"
          "alert tcp any any -> any any (pcre:\"/EV.L-+c/\"; content:\"EV\"; "
          "sid:3;)\n"
          "alert tcp any any -> any any (content:\"head\"; "
          "isdataat:20,relative; sid:4;)\n"
          "alert tcp any any -> any any (content:\"some\"; "
          "byte_test:1,=,0x45,1,relative; sid:5;)\n");
  const std::string stream = "head some EVIL--code here, and more";
  EXPECT_EQ(AlertsOf(nf, Cut(stream, {})), 5u);
  std::vector<size_t> every;
  for (size_t i = 1; i < stream.size(); ++i) {
    EXPECT_EQ(AlertsOf(nf, Cut(stream, {i})), 5u) << "cut at " << i;
    every.push_back(i);
  }
  EXPECT_EQ(AlertsOf(nf, Cut(stream, every)), 5u);
}

TEST(Ids, FindsPartsOfHttpOverTheBordersOfPackets) {
  const std::string nf =
      Ids("alert tcp any any -> any $HTTP_PORTS (content:\"/e vil\"; http_uri; "
          "content:\"POST\"; http_method; content:\"X|3a| y\"; http_header; "
          "content:\"k=v\"; http_cookie; content:\"bo\"; http_client_body; "
          "urilen:6<>9; sid:1;)\n"
          "alert tcp any any -> any any (uricontent:\"/e\"; pcre:\"/v.l$/U\"; "
          "sid:2;)\n");
  const std::string stream =
      "POST /e%20vil HTTP/1.1\r\nX: y\r\nCookie: k=v\r\nContent-Length: 4\r\n"
      "\r\nbody";
  EXPECT_EQ(AlertsOf(nf, Cut(stream, {})), 2u);
  std::vector<size_t> every;
  for (size_t i = 1; i < stream.size(); ++i) {
    EXPECT_EQ(AlertsOf(nf, Cut(stream, {i})), 2u) << "cut at " << i;
    every.push_back(i);
  }
  EXPECT_EQ(AlertsOf(nf, Cut(stream, every)), 2u);
}

TEST(Ids, FindsFilesInAnswers) {
  const std::string nf = Ids(
      "alert tcp any any -> any any (flow:to_client,established; "
      "content:\"200\"; http_stat_code; file_data; content:\"evil\"; depth:4; "
      "sid:1;)");
  for (const char* answer :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nev\r\n3\r\nil!\r\n0\r\n\r\n"}) {
    Connection connection;
    EXPECT_EQ(
        AlertsOf(nf, WithHandshake({connection.There("GET / HTTP/1.1\r\n\r\n"),
                                    connection.Back(answer)})),
        1u)
        << answer;
  }
}

TEST(Ids, LooksAtAPacketAloneWhereTheRuleSaysSo) {
  const std::string nf = Ids(
      "alert tcp any any -> any any (content:\"ab\"; flow:no_stream; sid:1;)\n"
      "alert tcp any any -> any any (content:\"ab\"; dsize:2; sid:2;)\n");
  EXPECT_EQ(AlertsOf(nf, Cut("ab", {})), 2u);
  EXPECT_EQ(AlertsOf(nf, Cut("ab", {1})), 0u);
}

TEST(Ids, KnowsWhoBeganAndWhatIsEstablished) {
  const std::string nf = Ids(
      "alert tcp any any -> any any (content:\"x\"; "
      "flow:to_server,established; sid:1;)\n"
      "alert tcp any any -> any any (flags:S; flow:not_established; sid:2;)\n"
      "alert udp any any -> any any (content:\"x\"; "
      "flow:to_client,established; sid:3;)\n");
  Connection connection;
  EXPECT_EQ(AlertsOf(nf, WithHandshake({connection.There("x")})), 2u);
  EXPECT_EQ(AlertsOf(nf, WithHandshake({connection.Back("x")})), 1u);
  EXPECT_EQ(AlertsOf(nf, {"udp 10.0.0.1:5 > 192.0.2.9:53 \"x\"",
                          "udp 192.0.2.9:53 > 10.0.0.1:5 \"x\""}),
            1u);
  // A SYN that is answered by a reset establishes nothing.
  EXPECT_EQ(AlertsOf(nf, {kThere + "SYN seq=1", kBack + "RST ACK \"x\""}), 1u);
}

TEST(Ids, InspectsOrPassesConnectionsFromTheMidst) {
  const std::string rules =
      "alert tcp any any -> any 80 (content:\"x\"; flow:to_server,established; "
      "sid:1;)";
  const std::string packet = kThere + "ACK seq=7 \"x\"";
  EXPECT_EQ(AlertsOf(Ids(rules), {packet}), 1u);
  NfTest nf(Ids(rules, "midstream=pass"));
  nf.Send(packet);
  EXPECT_EQ(nf.count("alerts"), 0u);
  EXPECT_EQ(nf.count("midstream"), 1u);
  // The server's port tells who it is.
  EXPECT_EQ(AlertsOf(Ids(rules), {kBack + "ACK seq=7 \"y\"", packet}), 1u);
}

TEST(Ids, DoesNotLookTwiceAtWhatIsSentAgain) {
  NfTest nf(Ids("alert tcp any any -> any any (content:\"evil\"; sid:1;)"));
  Connection connection;
  const std::string segment = connection.There("evil");
  for (const std::string& text : WithHandshake({segment, segment})) {
    nf.Send(text);
  }
  EXPECT_EQ(nf.count("alerts"), 1u);
  EXPECT_EQ(nf.count("repeated"), 1u);
  // A part that was there before.
  nf.Send(kThere + "ACK seq=102 \"il evil\"");
  EXPECT_EQ(nf.count("alerts"), 2u);
}

// A segment that was dropped was not received: it is dropped again.
TEST(Ids, DropsAgainWhatWasDropped) {
  NfTest nf(Ids("drop tcp any any -> any any (content:\"evil\"; sid:1;)",
                "action=rule"));
  Connection connection;
  const std::string segment = connection.There("evil");
  for (const std::string& text : Connection::Handshake()) nf.Send(text);
  EXPECT_EQ(nf.Send(segment).text, "drop rule");
  EXPECT_EQ(nf.Send(segment).text, "drop rule");
}

TEST(Ids, PutsSegmentsInOrder) {
  const std::string rules =
      "alert tcp any any -> any any (content:\"EVIL\"; sid:1;)\n"
      "alert tcp any any -> any any (content:\"/e\"; http_uri; sid:2;)\n"
      "alert tcp any any -> any any (content:\"IL\"; dsize:4; sid:3;)\n";
  Connection connection;
  std::vector<std::string> segments;
  for (const char* part :
       {"GET /e HT", "TP/1.1\r\nA: ", "EV", "IL\r\n", "\r\n"}) {
    segments.push_back(connection.There(part));
  }
  const std::string nf = Ids(rules);
  EXPECT_EQ(AlertsOf(nf, WithHandshake(segments)), 3u);
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  do {
    std::vector<std::string> mixed;
    for (const size_t i : order) mixed.push_back(segments[i]);
    EXPECT_EQ(AlertsOf(nf, WithHandshake(mixed)), 3u);
  } while (std::ranges::next_permutation(order).found);
  // Without room for them, the border is missed.
  std::swap(segments[2], segments[3]);
  EXPECT_EQ(AlertsOf(Ids(rules, "reorder=8"), WithHandshake(segments)), 1u);
}

TEST(Ids, CountsHolesAndOverlaps) {
  NfTest nf(
      Ids("alert tcp any any -> any any (content:\"evil\"; sid:1;)\n"
          "alert tcp any any -> any any (content:\"evil\"; ttl:64; "
          "sid:2;)\n"));
  for (const std::string& text : Connection::Handshake()) nf.Send(text);
  nf.Send(kThere + "ACK seq=100 \"good\"");
  nf.Send(kThere + "ACK seq=100 \"evil\"");  // other bytes in their place
  EXPECT_EQ(nf.count("overlaps"), 1u);
  EXPECT_EQ(nf.count("alerts"), 2u);
  nf.Send(kThere + "ACK seq=120 \"ev\"");
  nf.Send(kThere + "ACK seq=122 \"il\"");
  EXPECT_EQ(nf.count("alerts"), 2u);
  // The receiver has the bytes that were not seen. Its packet is another one,
  // so the rule about a header does not match.
  nf.Send(kBack + "ACK ack=124");
  EXPECT_EQ(nf.count("holes"), 1u);
  EXPECT_EQ(nf.count("alerts"), 3u);
  // A late segment is looked at by itself.
  nf.Send(kThere + "ACK seq=104 \"evil\"");
  EXPECT_EQ(nf.count("alerts"), 5u);
}

TEST(Ids, TellsWhatNeverCameIntoOrder) {
  NfTest nf(Ids("alert tcp any any -> any any (content:\"evil\"; sid:1;)"));
  for (const std::string& text : Connection::Handshake()) nf.Send(text);
  nf.Send(kThere + "ACK seq=120 \"evil\"");
  nf.EndFlows();
  EXPECT_EQ(nf.count("never_in_order"), 1u);
}

TEST(Ids, BeginsAnewWithANewSyn) {
  NfTest nf(
      Ids("alert tcp any any -> any any (content:\"ab\"; depth:2; sid:1;)"));
  for (const std::string& text : Connection::Handshake()) nf.Send(text);
  nf.Send(kThere + "ACK seq=100 \"x\"");
  nf.Send(kThere + "RST seq=101");
  nf.Send(kThere + "SYN seq=5000");
  nf.Send(kThere + "ACK seq=5001 \"a\"");
  nf.Send(kThere + "ACK seq=5002 \"b\"");
  EXPECT_EQ(nf.count("alerts"), 1u);
}

TEST(Ids, KeepsFlowbitsOfAConnection) {
  const std::string nf =
      Ids("alert tcp any any -> any any (content:\"login\"; flowbits:set,in; "
          "flowbits:noalert; sid:1;)\n"
          "alert tcp any any -> any any (content:\"root\"; flowbits:isset,in; "
          "sid:2;)\n");
  Connection one, other;
  EXPECT_EQ(AlertsOf(nf, WithHandshake({one.There("login"), one.Back("root")})),
            1u);
  EXPECT_EQ(AlertsOf(nf, WithHandshake({other.Back("root")})), 0u);
  // Other connections have bits of their own.
  EXPECT_EQ(AlertsOf(nf, {"tcp 10.0.0.1:1 > 192.0.2.9:80 seq=5 \"login\"",
                          "tcp 10.0.0.1:2 > 192.0.2.9:80 seq=5 \"root\""}),
            0u);
}

TEST(Ids, TakesHomeNetFromItsOption) {
  const std::string rules =
      "alert udp $EXTERNAL_NET any -> $HOME_NET any (content:\"x\"; sid:1;)";
  const std::string in = "udp 192.0.2.9:5 > 10.0.0.1:53 \"x\"";
  const std::string out = "udp 10.0.0.1:53 > 192.0.2.9:5 \"x\"";
  EXPECT_EQ(AlertsOf(Ids(rules), {in, out}), 2u);
  EXPECT_EQ(AlertsOf(Ids(rules,
                         "home_net=10.0.0.0/8+172.16.0.0/12,"
                         "external_net=!$HOME_NET"),
                     {in, out}),
            1u);
  const std::string vars = RuleFile("ipvar HOME_NET 192.0.2.0/24\n");
  EXPECT_EQ(AlertsOf(Ids(rules, "vars=" + vars), {in, out}), 1u);
}

std::string OptionError(const std::string& text) {
  const auto options = NfOptions::Parse(text);
  return std::string(FindNf("ids")->check(*options).message());
}

TEST(Ids, TellsWhatIsWrongWithItsOptions) {
  EXPECT_NE(OptionError("").find("rules"), std::string::npos);
  EXPECT_NE(OptionError("rules=/no/such.rules").find("/no/such.rules"),
            std::string::npos);
  const std::string bad = RuleFile(
      "alert tcp any any -> any any (depth:1; "
      "sid:1;)\n");
  EXPECT_NE(OptionError("rules=" + bad).find(bad + ":1:31: depth:1: there is"),
            std::string::npos)
      << OptionError("rules=" + bad);
  const std::string good =
      RuleFile("alert tcp any any -> any any (content:\"x\"; sid:2;)\n");
  EXPECT_EQ(OptionError("cache=off,bad_rules=skip,rules=" + bad + "+" + good),
            "");
  EXPECT_NE(
      OptionError("home_net=10.0.0,cache=off,rules=" + good).find("10.0.0"),
      std::string::npos);
}

// The same lines as in the file of the option eve, as they leave.
TEST(Ids, LogsAlerts) {
  NfTest nf(
      Ids("alert udp any any -> any any (content:\"one\"; sid:1;)\n"
          "alert udp any any -> any any (content:\"o\"; threshold:type limit, "
          "track by_src, count 2, seconds 60; sid:2;)\n",
          "eve=never.json"));
  for (int i = 0; i < 4; ++i) {
    nf.Send("+1s udp 10.0.0.1:5 > 192.0.2.9:53 \"one\"");
  }
  nf.Send("udp 10.0.0.1:5 > 192.0.2.9:53 \"two\"");
  std::string lines;
  for (const std::string& line : nf.TakeLog("ids.alerts")) {
    lines += line + "\n";
  }
  EXPECT_EQ(std::ranges::count(lines, '\n'), 6);
  EXPECT_EQ(lines, nf.nf().report().files.at(0).bytes);
}

// A record that comes late counts in the period that has begun.
TEST(Ids, KeepsThresholdsOverRecordsOutOfOrder) {
  snort::RuleSet set;
  set.rules.resize(1);
  set.rules[0].threshold = {.kind = snort::Threshold::Kind::kLimit,
                            .by_destination = false,
                            .count = 2,
                            .seconds = 60};
  IdsAlertFilter filter;
  const auto passes = [&](uint64_t ns) {
    return filter.Passes(set, {.ends = {}, .time_ns = ns});
  };
  constexpr uint64_t kMinute = 60'000'000'000;
  EXPECT_TRUE(passes(kMinute));
  EXPECT_TRUE(passes(kMinute - 5));
  EXPECT_FALSE(passes(kMinute + 5));
  EXPECT_TRUE(passes(2 * kMinute));
}

TEST(Ids, RunsEverywhere) {
  const std::string nf =
      Ids("alert tcp any any -> any any (content:\"EVIL\"; "
          "flow:established,to_server; flowbits:set,evil; sid:1;)\n"
          "alert tcp any any -> any any (content:\"ok\"; flowbits:isset,evil; "
          "flow:to_client; sid:2;)\n"
          "alert tcp any any -> any any (content:\"/e\"; http_uri; sid:3;)\n"
          "alert tcp any any -> any any (flags:S; threshold:type both, track "
          "by_src, count 3, seconds 60; sid:4;)\n"
          "drop tcp any any -> any any (content:\"kill\"; sid:5;)\n",
          "action=rule");
  std::vector<std::string> packets;
  for (int client = 1; client <= 6; ++client) {
    const std::string there =
        "tcp 10.0.0." + std::to_string(client) + ":5000 > 192.0.2.9:80 ";
    const std::string back =
        "tcp 192.0.2.9:80 > 10.0.0." + std::to_string(client) + ":5000 ";
    packets.push_back(there + "SYN seq=99");
    packets.push_back(back + "SYN ACK seq=499 ack=100");
    packets.push_back(there + "ACK seq=100 ack=500");
    const std::string stream = "GET /e HTTP/1.1\r\n\r\nEVIL then kill it";
    uint32_t sequence = 100;
    const auto step = static_cast<size_t>(client);
    for (size_t i = 0; i < stream.size(); i += step) {
      const std::string piece = stream.substr(i, step);
      packets.push_back(there + "ACK seq=" + std::to_string(sequence) + " " +
                        HexText(piece));
      sequence += static_cast<uint32_t>(piece.size());
      packets.push_back(back + "ACK seq=" + std::to_string(500 + i) + " " +
                        HexText(std::string("okokok").substr(0, step)));
    }
  }
  // Some segments come out of order, and some twice.
  for (size_t i = 5; i + 4 < packets.size(); i += 7) {
    std::swap(packets[i], packets[i + 2]);
    packets.push_back(packets[i]);
  }
  EXPECT_TRUE(RunEverywhere(nf, Packets(packets)));
}

// --- Streams and alerts ------------------------------------------------------

TEST(IdsStream, ComparesWhatCameBefore) {
  const auto compare = [](uint32_t sequence, const char* payload,
                          const char* window) {
    const OldPart old = CompareOld(sequence, payload, 2, window);
    return std::tuple(old.bytes, old.is_known, old.differs);
  };
  EXPECT_EQ(compare(2, "ab", "xy"), std::tuple(0u, false, false));
  EXPECT_EQ(compare(5, "ab", "xy"), std::tuple(0u, false, false));
  EXPECT_EQ(compare(1, "yz", "xy"), std::tuple(1u, true, false));
  EXPECT_EQ(compare(1, "az", "xy"), std::tuple(1u, false, true));
  // Over the end of sequence numbers; the window has only a part.
  EXPECT_EQ(compare(0xffff'ffff, "abc", "bc"), std::tuple(3u, false, false));
  EXPECT_EQ(compare(0xffff'ffff, "abc", "abc"), std::tuple(3u, true, false));
  EXPECT_EQ(compare(0xffff'ffff, "abx", "bc"), std::tuple(3u, false, true));
}

snort::RuleSet OneRule(const std::string& options) {
  snort::RuleSetReader reader;
  EXPECT_TRUE(reader
                  .ReadText("alert udp any any -> any any (msg:\"a \\\"b\\\" "
                            "\xe9\"; classtype:misc-attack; " +
                                options + " sid:9; rev:2;)",
                            "x")
                  .ok());
  return reader.Take();
}

IdsAlertKey KeyAt(int seconds, const char* source = "10.0.0.1") {
  IdsAlertKey key;
  key.ends =
      *ParseFlowKey(std::string("udp ") + source + ":5000 > 192.0.2.9:53");
  key.time_ns = static_cast<uint64_t>(seconds) * 1'000'000'000;
  return key;
}

// The seconds of the alerts that a threshold lets through, of these.
std::vector<int> Passed(const std::string& options,
                        const std::vector<int>& seconds) {
  IdsAlerts alerts;
  for (const int second : seconds) {
    alerts.emplace_back(KeyAt(second), IdsAlert{.times = 1});
  }
  std::ranges::reverse(alerts);  // units report in any order
  FilterAlerts(OneRule(options), alerts);
  std::vector<int> passed;
  for (const auto& [key, alert] : alerts) {
    passed.push_back(static_cast<int>(key.time_ns / 1'000'000'000));
  }
  return passed;
}

TEST(IdsAlerts, AreHeldBackByThresholds) {
  const std::vector<int> seconds = {1, 2, 3, 4, 5, 6, 20, 21, 22};
  const std::string rest = ", track by_src, count 2, seconds 10;";
  EXPECT_EQ(Passed("threshold:type limit" + rest, seconds),
            (std::vector<int>{1, 2, 20, 21}));
  EXPECT_EQ(Passed("threshold:type threshold" + rest, seconds),
            (std::vector<int>{2, 4, 6, 21}));
  EXPECT_EQ(Passed("threshold:type both" + rest, seconds),
            (std::vector<int>{2, 21}));
  EXPECT_EQ(
      Passed("detection_filter:track by_src, count 2, seconds 10;", seconds),
      (std::vector<int>{3, 4, 5, 6, 22}));
  EXPECT_EQ(Passed("", seconds), seconds);
}

TEST(IdsAlerts, AreCountedByAddressOverAllFlows) {
  const snort::RuleSet set =
      OneRule("threshold:type limit, track by_src, count 1, seconds 10;");
  IdsAlerts alerts = {{KeyAt(1, "10.0.0.1"), {}},
                      {KeyAt(2, "10.0.0.2"), {}},
                      {KeyAt(3, "10.0.0.1"), {}}};
  FilterAlerts(set, alerts);
  EXPECT_EQ(alerts.size(), 2u);
}

TEST(IdsAlerts, AreSuppressed) {
  snort::RuleSetReader reader;
  ASSERT_TRUE(reader
                  .ReadText("alert udp any any -> any any (sid:9;)\n"
                            "suppress gen_id 1, sig_id 9, track by_src, ip "
                            "10.0.0.0/31\n",
                            "x")
                  .ok());
  const snort::RuleSet set = reader.Take();
  IdsAlerts alerts = {{KeyAt(1, "10.0.0.1"), {}}, {KeyAt(2, "10.0.0.2"), {}}};
  FilterAlerts(set, alerts);
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].first.time_ns, 2'000'000'000u);
}

TEST(IdsAlerts, AreLinesOfEve) {
  const snort::RuleSet set = OneRule(
      "reference:cve,2015-1; metadata:policy a drop, policy b, service dns;");
  EXPECT_EQ(
      EveLine(set, KeyAt(951'782'400 + 3'661),
              {.times = 1, .begin_ns = 0, .what = IdsAlert::kToServer}),
      "{\"timestamp\":\"2000-02-29T01:01:01.000000+0000\",\"flow_id\":" +
          std::to_string(Hash([] {
                           FlowKey key = KeyAt(0).ends;
                           Canonicalize(key);
                           return key;
                         }()) >>
                         13) +
          ",\"event_type\":\"alert\",\"src_ip\":\"10.0.0.1\",\"src_port\":5000,"
          "\"dest_ip\":\"192.0.2.9\",\"dest_port\":53,\"proto\":\"UDP\","
          "\"alert\":{\"action\":\"allowed\",\"gid\":1,\"signature_id\":9,"
          "\"rev\":2,\"signature\":\"a \\\"b\\\" \\u00e9\","
          "\"category\":\"Misc Attack\",\"severity\":2,"
          "\"metadata\":{\"policy\":[\"a drop\",\"b\"],\"service\":[\"dns\"]},"
          "\"references\":[\"cve:2015-1\"]},\"direction\":\"to_server\","
          "\"flow\":{\"start\":\"1970-01-01T00:00:00.000000+0000\"},"
          "\"verdict\":{\"action\":\"alert\"}}\n");
}

}  // namespace
}  // namespace snf
