// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "nfs/snort/evaluator.h"
#include "nfs/snort/rule.h"
#include "nfs/snort/test_rules.h"

namespace snf::snort {
namespace {

// Returns the fixed contents of a rule as "payload 0 'ab' file 2 'c'".
std::string FixedOf(const std::string& options) {
  const RuleSet set = RulesOf(RuleText(options));
  EXPECT_EQ(set.rules.size(), 1u) << options;
  std::string text;
  for (const FixedContent& one : FixedContentsOf(set.rules.at(0))) {
    text += text.empty() ? "" : " ";
    text += one.buffer == Buffer::kPayload    ? "payload "
            : one.buffer == Buffer::kFileData ? "file "
                                              : "other ";
    text += std::to_string(one.offset) + " '" + one.bytes + "'";
  }
  return text;
}

TEST(FixedContents, HaveADepthAsLongAsTheyAre) {
  EXPECT_EQ(FixedOf("content:\"ab\"; depth:2;"), "payload 0 'ab'");
  EXPECT_EQ(FixedOf("content:\"Ab\"; nocase; offset:3; depth:2;"),
            "payload 3 'ab'");
  EXPECT_EQ(FixedOf("content:\"ab\"; depth:3;"), "");
  EXPECT_EQ(FixedOf("content:\"ab\"; offset:3;"), "");
  EXPECT_EQ(FixedOf("content:\"x\"; content:!\"ab\"; depth:2;"), "");
  EXPECT_EQ(FixedOf("content:\"/a\"; http_uri; depth:2;"), "other 0 '/a'");
}

TEST(FixedContents, FollowOthersAtAKnownPlace) {
  EXPECT_EQ(FixedOf("content:\"ab\"; depth:2; content:\"c\"; distance:3; "
                    "within:1; content:!\"y\"; within:1; "
                    "byte_test:1,>,3,0,relative; content:\"d\"; within:1;"),
            "payload 0 'ab' payload 5 'c' payload 6 'd'");
  EXPECT_EQ(FixedOf("content:\"q\"; file_data; content:\"M\"; within:1; "
                    "content:\"Z\"; distance:1; within:1;"),
            "file 0 'M' file 2 'Z'");
}

TEST(FixedContents, DoNotFollowOthersAtAnyPlace) {
  for (const char* between :
       {"content:\"x\";", "content:\"x\"; within:2;", "pcre:\"/b/R\";",
        "byte_jump:1,0,relative;", "byte_extract:1,0,n,relative;"}) {
    EXPECT_EQ(FixedOf(std::string("content:\"ab\"; depth:2; ") + between +
                      " content:\"d\"; within:1;"),
              "payload 0 'ab'")
        << between;
  }
  EXPECT_EQ(FixedOf("content:\"ab\"; byte_extract:1,0,n; content:\"c\"; "
                    "offset:n; depth:1;"),
            "");
}

TEST(FixedContents, AreComparedAtTheirPlace) {
  const RuleSet set =
      RulesOf(RuleText("content:\"ab\"; nocase; offset:1; depth:2;"));
  const auto contents = FixedContentsOf(set.rules.at(0));
  Buffers buffers;
  EXPECT_FALSE(AreInPlace(contents, buffers));
  for (const auto& [text, is_there] :
       {std::pair("-aB-", true), std::pair("-ab", true),
        std::pair("ab-", false), std::pair("-a", false),
        std::pair("", false)}) {
    At(buffers, Buffer::kPayload) = {text, 0, true};
    EXPECT_EQ(AreInPlace(contents, buffers), is_there) << text;
  }
}

}  // namespace
}  // namespace snf::snort
