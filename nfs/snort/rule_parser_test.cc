// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/rule_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "nfs/snort/option_text.h"
#include "nfs/snort/test_rules.h"

namespace snf::snort {
namespace {

using Outcome = RuleParser::Outcome;

// The problem of the only rule in a text.
std::string ProblemOf(const std::string& text) {
  const RuleSet set = RulesOf(text);
  if (set.findings.size() != 1) return "not one rule";
  const RuleSet::Finding& finding = set.findings[0];
  if (finding.problems.empty()) return "none";
  return finding.problems[0].ToText();
}

TEST(RuleParser, ReadsHeaderOptionsAndMetadata) {
  const RuleSet set = RulesOf(
      "drop udp [10.0.0.0/8,!10.1.0.0/16] 1024: <> !192.0.2.1 [53,5353] "
      "(msg:\"a \\; \\\"b\\\"\"; content:\"|41 42|c\\:\"; nocase; offset:2; "
      "depth:9; classtype:trojan-activity; reference:url,x.example/1; "
      "reference:cve,2015-1; metadata:policy a drop, service dns; gid:3; "
      "sid:77; rev:4;)");
  ASSERT_EQ(set.rules.size(), 1u);
  const Rule& rule = set.rules[0];
  EXPECT_EQ(rule.action, Rule::Action::kDrop);
  EXPECT_EQ(rule.protocol, Rule::Protocol::kUdp);
  EXPECT_TRUE(rule.both_ways);
  EXPECT_EQ(rule.message, "a ; \"b\"");
  EXPECT_EQ(rule.gid, 3u);
  EXPECT_EQ(rule.sid, 77u);
  EXPECT_EQ(rule.revision, 4u);
  EXPECT_EQ(rule.category, "A Network Trojan was detected");
  EXPECT_EQ(rule.priority, 1u);
  EXPECT_EQ(rule.references.size(), 2u);
  EXPECT_EQ(rule.metadata.size(), 2u);
  const auto& content = std::get<Content>(rule.payload_tests.at(0).test);
  EXPECT_EQ(content.bytes, "abc:");
  EXPECT_TRUE(content.nocase);
  EXPECT_EQ(content.begin->value, 2);
  EXPECT_EQ(content.span->value, 9);
  EXPECT_TRUE(rule.source_ports->Contains(1'024));
  EXPECT_FALSE(rule.source_ports->Contains(1'023));
  EXPECT_TRUE(rule.destination_ports->Contains(5'353));
}

TEST(RuleParser, TellsFileLineColumnOptionAndValue) {
  EXPECT_EQ(ProblemOf("\n\nalert tcp any any -> any any (content:\"x\"; "
                      "depth:no; sid:1;)"),
            "test.rules:3:44: depth:no: want a number, or a variable of "
            "byte_extract");
  // A rule over several lines.
  EXPECT_EQ(ProblemOf("alert tcp any any -> any any \\\n"
                      "  (content:\"x\"; \\\n"
                      "   frobnicate:3; sid:1;)"),
            "test.rules:3:4: frobnicate:3: there is no such option");
}

// Each option with a value that is wrong.
TEST(RuleParser, RefusesWrongOptions) {
  for (const auto& [options, reason] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"content:x;", "want a content in quotes"},
           {"content:\"\";", "has no bytes"},
           {"content:\"|4|\";", "half a byte"},
           {"content:\"|4g|\";", "no hexadecimal digit"},
           {"content:\"|41\";", "bars do not match"},
           {"nocase;", "no content before it"},
           {"http_uri;", "no content before it"},
           {"fast_pattern;", "no content before it"},
           {"distance:1;", "no content before it"},
           {"content:\"ab\"; depth:1;", "depth is less"},
           {"content:\"ab\"; within:1;", "within is less"},
           {"content:\"ab\"; depth:5; distance:1;", "do not go with"},
           {"content:\"ab\"; depth:5; depth:6;", "is there twice"},
           {"content:\"ab\"; fast_pattern:1,2;", "OFFSET,LENGTH"},
           {"flow:sideways;", "no such word"},
           {"flow:to_client,to_server;", "two directions"},
           {"flowbits:paint,x;", "no such operation"},
           {"flowbits:set;", "names no bit"},
           {"flowbits:isset,a|b&c;", "both & and |"},
           {"dsize:5<>2;", "want N"},
           {"ttl:x;", "want N"},
           {"flags:Q;", "is no flag"},
           {"fragbits:X;", "is no flag"},
           {"ipopts:foo;", "no such option of IP"},
           {"urilen:3,half;", "raw or norm"},
           {"byte_test:5,>,1,0;", "1 to 4 bytes"},
           {"byte_test:4,?,1,0;", "is no operator"},
           {"byte_test:4,>,1;", "want BYTES"},
           {"byte_jump:4,0,sideways;", "wrong word"},
           {"isdataat:x;", "want a number"},
           {"pcre:\"/(/\";", "missing closing parenthesis"},
           {"pcre:\"/a/Q\";", "is no flag"},
           {"pcre:\"a\";", "want /"},
           {"threshold:type limit, track by_src, count 1;", "want type"},
           {"threshold:type wild, track by_src, count 1, seconds 1;", "wrong"},
           {"reference:url;", "want a system"},
           {"rev:x;", "want a number"}}) {
    const std::string problem = ProblemOf(RuleText(options));
    EXPECT_NE(problem.find(reason), std::string::npos)
        << options << " gave " << problem;
  }
}

TEST(RuleParser, RefusesWrongHeaders) {
  for (const auto& [text, problem] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"alert tcp any any -> any (sid:1;)", "1:22: a rule begins"},
           {"alert arp any any -> any any (sid:1;)", "1:7: \"arp\" is no"},
           {"alert tcp 10.0.0 any -> any any (sid:1;)", "1:11: \"10.0.0\" is"},
           {"alert tcp $NO any -> any any (sid:1;)", "1:11: \"$NO\" is not"},
           {"alert tcp any 70000 -> any any (sid:1;)", "1:15: \"70000\" is"},
           {"alert tcp any 9:8 -> any any (sid:1;)", "1:15: \"9:8\" is an"},
           {"alert tcp any any <- any any (sid:1;)", "1:19: \"<-\": want"},
           {"alert tcp any any -> any any x (sid:1;)", "1:30: \"x\" is too"},
           {"alert tcp any any -> any any", "1:29: has no options"},
           {"alert tcp any any -> any any (sid:1;", "1:37: the options have"},
           {"alert tcp any any -> any any (sid:1", "1:31: sid: no ;"},
           {"alert tcp any any -> any any (sid:1;) x", "1:38: there is text"},
           {"alert tcp any any -> any any (msg:\"x\";)", "sid: a rule needs"},
           {"alert tcp [10.0.0.0/8 any -> any any (sid:1;)", "1:"}}) {
    const std::string found = ProblemOf(text);
    EXPECT_NE(found.find(std::string("test.rules:") +
                         (problem[0] == '1' ? "" : "1:30: ") + problem),
              std::string::npos)
        << text << " gave " << found;
  }
}

// Never more than is true: what is known but not honoured is told.
TEST(RuleParser, TellsWhatItDoesNotSupport) {
  const auto outcome = [](const std::string& options) {
    return RulesOf(RuleText(options)).findings.at(0).outcome;
  };
  for (const char* options :
       {"asn1:double_overflow;", "dce_iface:1;", "ssl_state:client_hello;",
        "byte_test:4,>,1,0,dce;", "byte_test:4,>,1,0,bitmask 0xff;",
        "flowbits:set,a,group;", "metadata:engine shared;",
        "stream_size:client,>,1;", "base64_data;", "replace:\"x\";"}) {
    EXPECT_EQ(outcome(options), Outcome::kUnsupported) << options;
  }
  EXPECT_EQ(outcome("tag:session,3,packets;"), Outcome::kPartly);
  EXPECT_EQ(outcome("file_data:mime; content:\"a\";"), Outcome::kPartly);
  EXPECT_EQ(outcome("content:\"a\";"), Outcome::kSupported);
  EXPECT_EQ(RulesOf("alert tcp any any -> any 25 (file_data; content:\"a\"; "
                    "sid:1;)")
                .findings[0]
                .outcome,
            Outcome::kPartly);
  EXPECT_EQ(
      RulesOf("alert tcp !any any -> any any (sid:1;)").findings[0].outcome,
      Outcome::kUnsupported);
}

TEST(RuleParser, TakesAnyBytesWithoutHarm) {
  // Each prefix of a rule, and each with one byte replaced.
  const std::string rule = RuleText(
      "content:\"|41|b\\;\"; nocase; pcre:\"/a(b)?/Ri\"; "
      "byte_extract:2,0,n,relative; within:n; threshold:type both, "
      "track by_dst, count 2, seconds 3; flowbits:set,a&b;");
  for (size_t i = 0; i < rule.size(); ++i) {
    RulesOf("alert " + rule.substr(0, i));
    for (const char c : {'"', '\\', ';', '(', ')', '|', '\0', ','}) {
      std::string other = rule;
      other[i] = c;
      RuleSetReader reader;
      (void)reader.ReadText(other, "any");
    }
  }
}

TEST(IntegerIn, ReadsSignsAndHexadecimal) {
  EXPECT_EQ(IntegerIn("-12"), -12);
  EXPECT_EQ(IntegerIn("+0x1F"), 31);
  EXPECT_EQ(IntegerIn("12x"), std::nullopt);
  EXPECT_EQ(IntegerIn(""), std::nullopt);
  EXPECT_EQ(IntegerIn("99999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace snf::snort
