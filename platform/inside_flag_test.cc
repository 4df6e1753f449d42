// SPDX-License-Identifier: Apache-2.0
#include "platform/inside_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_packets.h"

namespace snf {
namespace {

using testing::HasSubstr;

TEST(InsideFlag, ComesBackAsItWentIn) {
  for (const char* text :
       {"10.0.0.0/8", "10.0.0.0/8,192.168.0.0/16,2001:db8::/32", "10.0.0.1",
        "::1", "0.0.0.0/0", "::/0", "::fffe:0:0/95"}) {
    const auto prefixes = ParseInside(text);
    ASSERT_TRUE(prefixes.ok()) << prefixes.status();
    EXPECT_EQ(FormatInside(*prefixes), text);
  }
  EXPECT_EQ(FormatInside({}), "");
  EXPECT_EQ(FormatInside(*ParseInside("10.0.0.1/32")), "10.0.0.1");
}

TEST(InsideFlag, CountsTheBitsOfTheMappedAddress) {
  const auto prefixes = ParseInside("10.128.0.0/9");
  ASSERT_TRUE(prefixes.ok());
  ASSERT_EQ(prefixes->size(), 1u);
  EXPECT_EQ(prefixes->front().address, V4(10, 128, 0, 0));
  EXPECT_EQ(prefixes->front().length, 96 + 9);
}

TEST(InsideFlag, QuotesThePartThatIsWrong) {
  for (const auto& [text, part, why] :
       {std::tuple{"", "\"\"", "no prefix"},
        std::tuple{"10.0.0.0/8,", "\"\"", "no prefix"},
        std::tuple{"10.0.0.0/8,inside", "\"inside\"", "no prefix"},
        std::tuple{"10.0.0/8", "\"10.0.0/8\"", "no prefix"},
        std::tuple{"10.0.0.0/33", "\"10.0.0.0/33\"", "0 to 32"},
        std::tuple{"10.0.0.0/-1", "\"10.0.0.0/-1\"", "0 to 32"},
        std::tuple{"10.0.0.0/", "\"10.0.0.0/\"", "0 to 32"},
        std::tuple{"10.0.0.0/8x", "\"10.0.0.0/8x\"", "0 to 32"},
        std::tuple{"2001:db8::/129", "\"2001:db8::/129\"", "0 to 128"},
        std::tuple{"10.0.0.1/8", "\"10.0.0.1/8\"", "prefix is 10.0.0.0/8"},
        std::tuple{"2001:db8::1/64", "::1/64", "prefix is 2001:db8::/64"}}) {
    const auto prefixes = ParseInside(text);
    ASSERT_FALSE(prefixes.ok()) << text;
    const std::string message(prefixes.status().message());
    EXPECT_THAT(message, HasSubstr(part));
    EXPECT_THAT(message, HasSubstr(why));
  }
}

}  // namespace
}  // namespace snf
