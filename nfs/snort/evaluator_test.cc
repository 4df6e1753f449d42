// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/evaluator.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nfs/snort/test_rules.h"

namespace snf::snort {
namespace {

using Case = std::pair<const char*, const char*>;

bool MatchesIn(const std::string& options, const Buffers& buffers) {
  const RuleSet set = RulesOf(RuleText(options));
  EXPECT_EQ(set.rules.size(), 1u)
      << options << ": " << set.findings[0].problems[0].ToText();
  if (set.rules.empty()) return false;
  Evaluator evaluator;
  const bool matches = evaluator.MatchesPayload(set.rules[0], buffers);
  EXPECT_TRUE(!matches || AreInPlace(FixedContentsOf(set.rules[0]), buffers))
      << options;
  return matches;
}
bool MatchesText(const std::string& options, const std::string& payload) {
  Buffers buffers;
  At(buffers, Buffer::kPayload) = {payload, 0, true};
  At(buffers, Buffer::kFileData) = {payload, 0, true};
  return MatchesIn(options, buffers);
}
void ExpectMatches(const std::vector<Case>& yes, const std::vector<Case>& no) {
  for (const auto& [options, payload] : yes) {
    EXPECT_TRUE(MatchesText(options, payload)) << options << " in " << payload;
  }
  for (const auto& [options, payload] : no) {
    EXPECT_FALSE(MatchesText(options, payload)) << options << " in " << payload;
  }
}

TEST(Evaluator, FindsContents) {
  ExpectMatches({{"content:\"bc\";", "abcd"},
                 {"content:\"bC\"; nocase;", "aBcd"},
                 {"content:\"|62 63|\";", "abcd"},
                 {"content:\"a\"; content:\"d\";", "dcba"},
                 {"content:\"a\"; content:!\"x\";", "abcd"}},
                {{"content:\"bC\";", "abcd"},
                 {"content:\"a\"; content:\"x\";", "abcd"},
                 {"content:\"a\"; content:!\"d\";", "abcd"},
                 {"content:\"abcde\";", "abcd"}});
}

TEST(Evaluator, HoldsContentsToTheirPlace) {
  ExpectMatches(
      {{"content:\"c\"; offset:2;", "abcd"},
       {"content:\"c\"; depth:3;", "abcd"},
       {"content:\"bc\"; offset:1; depth:2;", "abcd"},
       {"content:\"a\"; content:\"c\"; distance:1;", "abcd"},
       {"content:\"a\"; content:\"c\"; distance:1; within:1;", "abcd"},
       {"content:\"a\"; content:\"b\"; within:1;", "abcd"},
       {"content:\"d\"; content:\"a\"; distance:-4;", "abcd"},
       {"content:\"a\"; content:!\"d\"; within:2;", "abcd"}},
      {{"content:\"c\"; offset:3;", "abcd"},
       {"content:\"c\"; depth:2;", "abcd"},
       {"content:\"bc\"; offset:2;", "abcd"},
       {"content:\"a\"; content:\"c\"; distance:2;", "abcd"},
       {"content:\"a\"; content:\"c\"; within:1;", "abcd"},
       {"content:\"d\"; content:\"a\"; distance:-3;", "abcd"},
       {"content:\"a\"; content:!\"d\"; within:3;", "abcd"}});
}

// The first match of a content is not always followed by the others.
TEST(Evaluator, GoesBackToLaterMatches) {
  ExpectMatches(
      {{"content:\"a\"; content:\"b\"; distance:0; within:1;", "axaxab"},
       {"content:\"a\"; content:\"b\"; distance:0; content:\"c\"; distance:0; "
        "within:1;",
        "abxabc"},
       {"content:\"a\"; pcre:\"/^b/R\";", "acab"},
       {"content:\"a\"; byte_test:1,=,0x62,0,relative;", "acab"},
       {"content:\"a\"; isdataat:!1,relative;", "abab a"},
       {"content:\"a\"; byte_jump:1,0,string,dec,relative; content:\"z\"; "
        "distance:0; within:1;",
        "a9 a1xz"}},
      {{"content:\"a\"; content:\"b\"; distance:0; within:1;", "axaxa b"}});
}

TEST(Evaluator, TestsBytes) {
  ExpectMatches({{"byte_test:1,=,97,0;", "abcd"},
                 {"byte_test:2,>,0x6161,0;", "abcd"},
                 {"byte_test:2,=,0x6261,0,little;", "abcd"},
                 {"byte_test:1,!=,98,0;", "abcd"},
                 {"byte_test:1,&,0x60,0;", "abcd"},
                 {"byte_test:1,!&,0x80,0;", "abcd"},
                 {"byte_test:1,<=,97,0;", "abcd"},
                 {"byte_test:3,=,123,1,string,dec;", "x123"},
                 {"byte_test:4,=,0xff,0,string,hex;", "0xff"},
                 {"content:\"b\"; byte_test:1,=,99,0,relative;", "abcd"},
                 {"content:\"d\"; byte_test:1,=,97,-4,relative;", "abcd"},
                 {"byte_test:3,=,0x616263,0;", "abcd"}},
                {{"byte_test:1,=,98,0;", "abcd"},
                 {"byte_test:4,>,0,1;", "abcd"},
                 {"byte_test:1,&,0x80,0;", "abcd"},
                 {"byte_test:1,=,97,-1;", "abcd"},
                 {"byte_test:3,=,123,0,string,dec;", "x123"},
                 {"content:\"d\"; byte_test:1,=,97,0,relative;", "abcd"}});
}

TEST(Evaluator, JumpsAndExtracts) {
  ExpectMatches(
      {{"byte_jump:1,0,string,dec; content:\"z\"; distance:0; within:1;",
        "2xyz"},
       {"byte_jump:1,0,string,dec,multiplier 2; content:\"z\"; distance:0; "
        "within:1;",
        "1xyz"},
       {"byte_jump:1,0,string,dec,align; content:\"z\"; distance:0; within:1;",
        "1wxyyz"},
       {"byte_jump:1,1,string,dec,from_beginning; content:\"z\"; distance:0; "
        "within:1;",
        "x2z"},
       {"byte_jump:1,0,string,dec,post_offset -1; content:\"y\"; distance:0; "
        "within:1;",
        "2xyz"},
       {"byte_extract:1,0,n,string,dec; content:\"z\"; offset:n; depth:1;",
        "3xyz"},
       {"byte_extract:1,0,n,string,dec; isdataat:n;", "3xyz"},
       {"byte_extract:1,0,n,string,dec; byte_test:1,=,n,1,string,dec;", "33"},
       {"byte_extract:1,0,n,string,dec; content:\"x\"; content:\"z\"; "
        "within:n;",
        "2xyz"}},
      {{"byte_jump:1,0,string,dec; content:\"z\"; distance:0; within:1;",
        "1xyz"},
       {"byte_jump:1,0,string,dec;", "9xyz"},
       {"byte_extract:1,0,n,string,dec; isdataat:n;", "4xyz"},
       {"byte_extract:1,0,n,string,dec; byte_test:1,=,n,1,string,dec;", "34"}});
}

TEST(Evaluator, TestsForData) {
  ExpectMatches({{"isdataat:3;", "abcd"},
                 {"isdataat:!4;", "abcd"},
                 {"content:\"b\"; isdataat:1,relative;", "abcd"},
                 {"content:\"b\"; isdataat:!2,relative;", "abcd"}},
                {{"isdataat:4;", "abcd"},
                 {"isdataat:!3;", "abcd"},
                 {"content:\"b\"; isdataat:2,relative;", "abcd"}});
}

TEST(Evaluator, MatchesExpressions) {
  ExpectMatches(
      {{"pcre:\"/b.d/\";", "abcd"},
       {"pcre:\"/B.D/i\";", "abcd"},
       {"pcre:\"/a.b/s\";", "a\nb"},
       {"pcre:\"/^b$/m\";", "a\nb\nc"},
       {"pcre:\"/a b/x\";", "ab"},
       {"pcre:\"/bc/\"; content:\"d\"; distance:0; within:1;", "abcd"},
       {"content:\"b\"; pcre:\"/^cd/R\";", "abcd"},
       {"pcre:!\"/x/\";", "abcd"},
       {"pcre:\"m#b/c#\";", "ab/cd"},
       {"pcre:\"/a\\;b/\";", "a;b"}},
      {{"pcre:\"/B.D/\";", "abcd"},
       {"pcre:\"/a.b/\";", "a\nb"},
       {"pcre:\"/b/A\";", "abcd"},
       {"content:\"b\"; pcre:\"/^d/R\";", "abcd"},
       {"pcre:!\"/b/\";", "abcd"}});
}

// Each part of a message has options of its own.
TEST(Evaluator, LooksIntoTheBufferThatIsNamed) {
  static constexpr std::pair<const char*, Buffer> kNames[] = {
      {"http_uri", Buffer::kUri},
      {"http_raw_uri", Buffer::kRawUri},
      {"http_header", Buffer::kHeader},
      {"http_raw_header", Buffer::kRawHeader},
      {"http_method", Buffer::kMethod},
      {"http_cookie", Buffer::kCookie},
      {"http_raw_cookie", Buffer::kRawCookie},
      {"http_client_body", Buffer::kClientBody},
      {"http_stat_code", Buffer::kStatusCode},
      {"http_stat_msg", Buffer::kStatusMessage}};
  for (const auto& [name, buffer] : kNames) {
    Buffers buffers;
    for (size_t i = 0; i < kBuffers; ++i) buffers[i] = {"no", 0, true};
    const std::string options = std::string("content:\"here\"; ") + name + ";";
    EXPECT_FALSE(MatchesIn(options, buffers)) << name;
    At(buffers, buffer).bytes = "it is here";
    EXPECT_TRUE(MatchesIn(options, buffers)) << name;
  }
  for (const auto& [flag, buffer] :
       {std::pair('U', Buffer::kUri), std::pair('I', Buffer::kRawUri),
        std::pair('H', Buffer::kHeader), std::pair('D', Buffer::kRawHeader),
        std::pair('M', Buffer::kMethod), std::pair('C', Buffer::kCookie),
        std::pair('K', Buffer::kRawCookie), std::pair('P', Buffer::kClientBody),
        std::pair('S', Buffer::kStatusCode),
        std::pair('Y', Buffer::kStatusMessage)}) {
    Buffers buffers;
    for (size_t i = 0; i < kBuffers; ++i) buffers[i] = {"no", 0, true};
    const std::string options = std::string("pcre:\"/h.re/") + flag + "\";";
    EXPECT_FALSE(MatchesIn(options, buffers)) << flag;
    At(buffers, buffer).bytes = "it is here";
    EXPECT_TRUE(MatchesIn(options, buffers)) << flag;
  }
  Buffers buffers;
  At(buffers, Buffer::kPayload) = {"head ab", 0, true};
  At(buffers, Buffer::kFileData) = {"xyz", 0, true};
  EXPECT_TRUE(MatchesIn("file_data; content:\"x\"; depth:1;", buffers));
  EXPECT_TRUE(MatchesIn("file_data; content:\"x\"; pkt_data; content:\"head\";",
                        buffers));
  EXPECT_TRUE(MatchesIn("file_data; content:\"head\"; rawbytes; content:\"z\";",
                        buffers));
  EXPECT_FALSE(MatchesIn("file_data; content:\"head\";", buffers));
  EXPECT_TRUE(MatchesIn("file_data; byte_test:1,=,0x78,0;", buffers));
}

// A rule matches when what completes it comes, and not again.
TEST(Evaluator, WantsAMatchThatEndsInFreshBytes) {
  Buffers buffers;
  At(buffers, Buffer::kPayload) = {"abcd", 2, true};
  EXPECT_FALSE(MatchesIn("content:\"ab\";", buffers));
  EXPECT_TRUE(MatchesIn("content:\"bc\";", buffers));
  EXPECT_TRUE(MatchesIn("content:\"a\"; content:\"c\";", buffers));
  EXPECT_FALSE(MatchesIn("content:\"a\"; content:!\"x\";", buffers));
  EXPECT_TRUE(MatchesIn("content:\"d\"; content:\"a\";", buffers));
  EXPECT_FALSE(MatchesIn("pcre:\"/b/\";", buffers));
  EXPECT_TRUE(MatchesIn("pcre:\"/[a-d]/\";", buffers));
  // Other tests may be the ones that fresh bytes complete.
  EXPECT_TRUE(MatchesIn("content:\"ab\"; isdataat:1,relative;", buffers));
  EXPECT_FALSE(MatchesIn("content:\"a\"; isdataat:0,relative;", buffers));
  EXPECT_FALSE(MatchesIn("content:\"a\"; isdataat:!9,relative;", buffers));
  EXPECT_TRUE(
      MatchesIn("content:\"a\"; byte_test:1,=,0x63,1,relative;", buffers));
  EXPECT_FALSE(
      MatchesIn("content:\"a\"; byte_test:1,=,0x62,0,relative;", buffers));
  // One of several places is in fresh bytes.
  At(buffers, Buffer::kPayload) = {"abab", 2, true};
  EXPECT_TRUE(MatchesIn("content:\"ab\";", buffers));
}

TEST(Evaluator, GivesUpAtItsLimits) {
  const RuleSet set = RulesOf(RuleText(
      "content:\"a\"; content:\"a\"; distance:0; content:\"a\"; distance:0; "
      "content:\"a\"; distance:0; content:\"b\"; distance:0;"));
  const std::string payload(500, 'a');
  Buffers buffers;
  At(buffers, Buffer::kPayload) = {payload, 0, true};
  Evaluator evaluator({.steps = 1'000, .regex_steps = 1'000});
  EXPECT_FALSE(evaluator.MatchesPayload(set.rules[0], buffers));
  EXPECT_EQ(evaluator.limits_reached(), 1u);
  const RuleSet hard = RulesOf(RuleText("pcre:\"/(a+)+$/\";"));
  std::string text(61, 'a');
  text.back() = 'b';
  At(buffers, Buffer::kPayload) = {text, 0, true};
  EXPECT_FALSE(evaluator.MatchesPayload(hard.rules[0], buffers));
  EXPECT_EQ(evaluator.limits_reached(), 2u);
}

TEST(Flowbits, AreTestedAndSet) {
  const RuleSet set = RulesOf(
      RuleText("flowbits:set,a&b;", 1) + RuleText("flowbits:isset,a;", 2) +
      RuleText("flowbits:isset,a|c;", 3) + RuleText("flowbits:isset,a&c;", 4) +
      RuleText("flowbits:isnotset,c;", 5) + RuleText("flowbits:unset,a;", 6) +
      RuleText("flowbits:toggle,c;", 7) + RuleText("flowbits:reset;", 8));
  std::vector<std::byte> bytes(1);
  Flowbits bits(bytes);
  const auto holds = [&](int sid) {
    return Evaluator::MatchesPacket(set.rules[static_cast<size_t>(sid - 1)],
                                    PacketFacts(), Buffers(), bits);
  };
  const auto apply = [&](int sid) {
    Evaluator::ApplyFlowbits(set.rules[static_cast<size_t>(sid - 1)], bits);
  };
  EXPECT_FALSE(holds(2));
  EXPECT_FALSE(bits.has_changed());
  apply(1);
  EXPECT_TRUE(bits.has_changed());
  EXPECT_TRUE(holds(2) && holds(3) && !holds(4) && holds(5));
  apply(7);
  EXPECT_TRUE(holds(4) && !holds(5));
  apply(6);
  EXPECT_TRUE(!holds(2) && holds(3));
  apply(8);
  EXPECT_TRUE(!holds(3) && holds(5));
}

}  // namespace
}  // namespace snf::snort
