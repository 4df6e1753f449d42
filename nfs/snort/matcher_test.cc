// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "nfs/snort/test_inspection.h"
#include "nfs/snort/test_rules.h"

namespace snf::snort {
namespace {

using Sids = std::vector<uint32_t>;

// Returns true if the only rule, with these options, alerts on the packet.
bool Alerts(const std::string& header, const std::string& options,
            const std::string& packet, TestInspection::How how = {}) {
  TestInspection test("alert " + header + " (" + options + " sid:1;)");
  return test.Send(packet, how) == Sids{1};
}
bool AlertsTcp(const std::string& options, const std::string& packet,
               TestInspection::How how = {}) {
  return Alerts("tcp any any -> any any", options, packet, how);
}

const std::string kTcp = "tcp 10.0.0.1:5000 > 192.0.2.9:80 ";
const std::string kUdp = "udp 10.0.0.1:5000 > 192.0.2.9:53 ";

TEST(Matcher, AsksForProtocolAddressesAndPorts) {
  const std::string content = "content:\"evil\";";
  const std::string packet = kTcp + "\"evil\"";
  for (const char* header :
       {"tcp any any -> any any", "ip any any -> any any",
        "tcp 10.0.0.0/8 any -> 192.0.2.9 80", "tcp any 5000: -> any [79,80]",
        "tcp any 80 <> any any", "tcp !192.0.2.9 any -> any !81"}) {
    EXPECT_TRUE(Alerts(header, content, packet)) << header;
    EXPECT_TRUE(Alerts(header, "flags:A;", packet)) << header;
  }
  for (const char* header :
       {"udp any any -> any any", "tcp 10.0.0.2 any -> any any",
        "tcp any any -> any 81", "tcp any 80 -> any any",
        "tcp any any -> 10.0.0.0/8 any"}) {
    EXPECT_FALSE(Alerts(header, content, packet)) << header;
    EXPECT_FALSE(Alerts(header, "flags:A;", packet)) << header;
  }
  EXPECT_TRUE(Alerts("icmp any any -> any any", "itype:8;",
                     "icmp 10.0.0.1 > 192.0.2.9 echo id=7 seq=1"));
  EXPECT_TRUE(Alerts("udp 2001:db8::/32 any -> any 53", content,
                     "udp [2001:db8::1]:5 > [2001:db8::9]:53 \"evil\""));
}

TEST(Matcher, AsksForFlow) {
  const std::string packet = kTcp + "\"x\"";
  const TestInspection::How there = {true, true}, back = {false, true},
                            first = {true, false};
  EXPECT_TRUE(AlertsTcp("flow:to_server,established;", packet, there));
  EXPECT_FALSE(AlertsTcp("flow:to_server,established;", packet, back));
  EXPECT_FALSE(AlertsTcp("flow:to_server,established;", packet, first));
  EXPECT_TRUE(AlertsTcp("flow:from_server;", packet, back));
  EXPECT_TRUE(AlertsTcp("flow:not_established;", packet, first));
  EXPECT_FALSE(AlertsTcp("flow:not_established;", packet, there));
  EXPECT_TRUE(AlertsTcp("flow:stateless;", packet, first));
}

TEST(Matcher, AsksForHeaderFields) {
  const std::string tcp = "tcp 10.0.0.1:5000 > 192.0.2.9:80 ";
  struct Case {
    const char* options;
    std::string yes;
    std::string no;
  };
  for (const Case& one : std::vector<Case>{
           {"ttl:5;", tcp + "ttl=5", tcp + "ttl=6"},
           {"ttl:<5;", tcp + "ttl=4", tcp + "ttl=5"},
           {"ttl:>5;", tcp + "ttl=6", tcp + "ttl=5"},
           {"ttl:3-5;", tcp + "ttl=5", tcp + "ttl=6"},
           {"tos:4;", tcp + "tos=4", tcp + "tos=5"},
           {"tos:!4;", tcp + "tos=5", tcp + "tos=4"},
           {"id:7;", tcp + "ip_id=7", tcp + "ip_id=8"},
           {"seq:7;", tcp + "seq=7", tcp + "seq=8"},
           {"ack:7;", tcp + "ack=7", tcp + "ack=8"},
           {"window:7;", tcp + "win=7", tcp + "win=8"},
           {"window:!7;", tcp + "win=8", tcp + "win=7"},
           {"flags:S;", tcp + "SYN", tcp + "SYN ACK"},
           {"flags:S+;", tcp + "SYN ACK", tcp + "ACK"},
           {"flags:SF*;", tcp + "FIN", tcp + "ACK"},
           {"flags:!S;", tcp + "ACK", tcp + "SYN ACK"},
           {"flags:S,12;", tcp + "SYN ECE CWR", tcp + "SYN ACK ECE"},
           {"flags:0;", tcp + "no_flags", tcp + "ACK"},
           {"fragbits:D;", tcp + "df", tcp},
           {"fragbits:!M;", tcp + "df", tcp + "more"},
           {"dsize:3;", tcp + "\"abc\"", tcp + "\"abcd\""},
           {"dsize:>3;", tcp + "\"abcd\"", tcp + "\"abc\""},
           {"dsize:3<>4;", tcp + "\"abcd\"", tcp + "\"abcde\""},
           {"sameip;", "tcp 10.0.0.1:5 > 10.0.0.1:80", tcp}}) {
    EXPECT_TRUE(AlertsTcp(one.options, one.yes)) << one.options;
    EXPECT_FALSE(AlertsTcp(one.options, one.no)) << one.options;
  }
  const std::string echo = "icmp 10.0.0.1 > 192.0.2.9 ";
  const std::string icmp = "icmp any any -> any any";
  EXPECT_TRUE(Alerts(icmp, "itype:8; icode:0;", echo + "echo id=7 seq=9"));
  EXPECT_FALSE(Alerts(icmp, "itype:0;", echo + "echo id=7 seq=9"));
  EXPECT_TRUE(Alerts(icmp, "itype:>5;", echo + "echo id=7 seq=9"));
  EXPECT_TRUE(Alerts(icmp, "icode:>2;", echo + "type=3 code=3"));
  EXPECT_TRUE(Alerts(icmp, "icmp_id:7; icmp_seq:9;", echo + "echo id=7 seq=9"));
  EXPECT_FALSE(Alerts(icmp, "icmp_id:8;", echo + "echo id=7 seq=9"));
  const std::string ip = "ip any any -> any any";
  EXPECT_TRUE(Alerts(ip, "ip_proto:89;", "89 10.0.0.1 > 224.0.0.5 \"x\""));
  EXPECT_TRUE(Alerts(ip, "ip_proto:!tcp;", "89 10.0.0.1 > 224.0.0.5 \"x\""));
  EXPECT_FALSE(Alerts(ip, "ip_proto:!tcp;", tcp));
  EXPECT_TRUE(Alerts(ip, "fragbits:M; fragoffset:0;", kUdp + "more \"abc\""));
  EXPECT_TRUE(Alerts(ip, "fragoffset:>0;",
                     "udp 10.0.0.1 > 192.0.2.9 offset=8 \"abc\""));
}

TEST(Matcher, TestsOnlyRulesWhosePatternIsThere) {
  std::string rules;
  for (int i = 1; i <= 500; ++i) {
    rules += "alert udp any any -> any any (content:\"pattern" +
             std::to_string(i) + "x\"; sid:" + std::to_string(i) + ";)\n";
  }
  TestInspection test(rules);
  EXPECT_EQ(test.Send(kUdp + "\"nothing to see\""), Sids{});
  EXPECT_FALSE(test.inspector().was_evaluated());
  EXPECT_EQ(test.inspector().rules_evaluated(), 0u);
  EXPECT_EQ(test.Send(kUdp + "\"pattern7x pattern300x\""), (Sids{7, 300}));
  EXPECT_EQ(test.inspector().rules_evaluated(), 2u);
  EXPECT_TRUE(test.inspector().was_evaluated());
}

TEST(Matcher, ChoosesTheFastPattern) {
  const auto pattern = [](const std::string& options) {
    const RuleSet set = RulesOf(RuleText(options));
    const auto [buffer, bytes] = RuleMatcher::FastPatternOf(set.rules.at(0));
    return std::string(Name(buffer)) + ":" + bytes;
  };
  EXPECT_EQ(pattern("content:\"a\"; content:\"LONG\"; content:!\"longer\";"),
            "payload:long");
  EXPECT_EQ(pattern("content:\"a\"; fast_pattern:only; content:\"long\";"),
            "payload:a");
  EXPECT_EQ(pattern("content:\"abcdef\"; fast_pattern:2,3; content:\"long\";"),
            "payload:cde");
  EXPECT_EQ(pattern("content:\"/x\"; http_uri; content:\"POST\"; http_method;"),
            "http_uri:/x");
  EXPECT_EQ(pattern("content:\"|00 00|a\"; content:\"|00 00 00|\";"),
            "payload:a");
  EXPECT_EQ(pattern("content:\"|00 00|\"; flags:A;"), "payload:");
}

TEST(Matcher, TellsRulesThatMatchOrCostTooMuch) {
  std::string text =
      "alert tcp any any -> any any (sid:1;)\n"
      "alert udp any any -> any any (pcre:\"/a.*b/\"; sid:2;)\n"
      "alert tcp any any -> any any (pcre:\"/a/\"; content:\"b\"; sid:3;)\n"
      "alert tcp any any -> any 80 (sid:4;)\n"
      "alert tcp 10.0.0.1 any -> any any (sid:5;)\n"
      "alert tcp any any -> any any (flags:S; sid:6;)\n"
      "alert tcp any any -> any any (flowbits:isset,a; sid:7;)\n";
  const auto warnings = [](const std::string& rules) {
    return RuleMatcher::Create(RulesOf(rules), DatabaseCache(""))->warnings();
  };
  EXPECT_EQ(warnings(text),
            (std::vector<std::string>{
                "test.rules:1: rule 1:1 matches every packet of its protocol",
                "test.rules:2: rule 1:2 has no content and is evaluated on "
                "every packet of its protocol"}));
  for (int sid = 10; sid < 20; ++sid) {
    text += "alert ip any any -> any any (sid:" + std::to_string(sid) + ";)\n";
  }
  const std::vector<std::string> many = warnings(text);
  ASSERT_EQ(many.size(), RuleMatcher::kMaxWarnings + 1);
  EXPECT_EQ(many.back().substr(0, 7), "7 more ");
}

TEST(Matcher, SetsBitsBeforeItAsksForThem) {
  TestInspection test(
      "alert udp any any -> any any (content:\"b\"; flowbits:isset,x; sid:1;)\n"
      "alert udp any any -> any any (content:\"a\"; flowbits:set,x; "
      "flowbits:noalert; sid:2;)\n");
  EXPECT_EQ(test.Send(kUdp + "\"b\""), Sids{});
  EXPECT_EQ(test.Send(kUdp + "\"a\""), Sids{});
  EXPECT_EQ(test.Send(kUdp + "\"b\""), Sids{1});
  TestInspection other(
      "alert udp any any -> any any (content:\"b\"; flowbits:isset,x; sid:1;)\n"
      "alert udp any any -> any any (content:\"a\"; flowbits:set,x; sid:2;)\n");
  EXPECT_EQ(other.Send(kUdp + "\"ab\""), (Sids{2, 1}));
}

TEST(Matcher, PassesWhatAPassRuleMatches) {
  TestInspection test(
      "alert udp any any -> any any (content:\"evil\"; sid:1;)\n"
      "pass udp any any -> any any (content:\"but known\"; sid:2;)\n");
  EXPECT_EQ(test.Send(kUdp + "\"evil\""), Sids{1});
  EXPECT_EQ(test.Send(kUdp + "\"evil but known\""), Sids{});
}

// Rules without a content are found by address, so that lists of thousands
// cost little.
TEST(Matcher, FindsAddressesOfLists) {
  std::string rules;
  for (int i = 1; i <= 200; ++i) {
    rules += "alert ip [203.0.113." + std::to_string(i) +
             ",198.51.100.0/24] any -> any any (sid:" + std::to_string(i) +
             ";)\n";
  }
  TestInspection test(rules);
  EXPECT_EQ(test.Send("udp 203.0.113.7:5 > 192.0.2.9:53"), Sids{7});
  EXPECT_EQ(test.Send("udp 203.0.113.201:5 > 192.0.2.9:53"), Sids{});
  EXPECT_EQ(test.Send("udp 198.51.100.1:5 > 192.0.2.9:53").size(), 200u);
  EXPECT_EQ(test.inspector().rules_evaluated(), 201u);
}

// Streams of few letters, in which some windows have more patterns than a state
// has room for, and some have fewer.
TEST(Matcher, FindsInAStreamWhatASearchOfItsWholeWindowFinds) {
  constexpr size_t kWindow = 96;
  Rng rng(2023);
  const auto letters = [&rng](size_t count) {
    std::string text;
    while (text.size() < count) {
      text += static_cast<char>('a' + rng.Below(rng.Below(8) + 1));
    }
    return text;
  };
  std::string rules;
  for (int sid = 1; sid <= 60; ++sid) {
    rules += RuleText("content:\"" + letters(3 + rng.Below(3)) +
                          "\"; content:\"" + letters(2) + "\";",
                      sid);
  }
  const RuleMatcher matcher =
      *RuleMatcher::Create(RulesOf(rules), DatabaseCache(""));
  const auto inspector = *Inspector::Create(matcher, {});
  std::vector<std::byte> bytes(matcher.set().flowbits / 8 + 1);
  uint64_t alerts = 0;
  std::array<uint64_t, 2> steps = {};  // by has_all
  for (int round = 0; round < 300; ++round) {
    const std::string stream = letters(600);
    PatternHits hits;
    // Offsets wrap around.
    const uint64_t begin = (uint64_t{1} << 32) - 300;
    for (size_t at = 0; at < stream.size();) {
      const size_t size = std::min(1 + rng.Below(60), stream.size() - at);
      const size_t kept = std::min(at, kWindow);
      Inspected packet;
      packet.facts.protocol = Rule::Protocol::kTcp;
      packet.payload = std::string_view(stream).substr(at, size);
      packet.stream = std::string_view(stream).substr(at - kept, kept + size);
      packet.kept = kept;
      Flowbits bits(bytes);
      const auto whole = inspector->Inspect(packet, bits);
      const std::vector<uint32_t> expected(whole.begin(), whole.end());
      packet.hits = &hits;
      at += size;
      packet.stream_end = begin + at;
      ++steps[hits.has_all() ? 1 : 0];
      const auto found = inspector->Inspect(packet, bits);
      ASSERT_EQ(std::vector<uint32_t>(found.begin(), found.end()), expected)
          << "round " << round << ", byte " << at;
      alerts += expected.size();
    }
  }
  EXPECT_GT(alerts, 1'000u);
  EXPECT_GT(steps[0], 1'000u);
  EXPECT_GT(steps[1], 1'000u);
}

}  // namespace
}  // namespace snf::snort
