// SPDX-License-Identifier: Apache-2.0
#include "base/packet/ip_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

using testing::HasSubstr;

TEST(IpPrefix, ComesBackAsItWentIn) {
  for (const char* text :
       {"10.0.0.0/8", "10.0.0.0/8,192.168.0.0/16,2001:db8::/32", "10.0.0.1",
        "::1", "0.0.0.0/0", "::/0", "::fffe:0:0/95"}) {
    const auto prefixes = ParsePrefixes(text);
    ASSERT_TRUE(prefixes.ok()) << prefixes.status();
    EXPECT_EQ(FormatPrefixes(*prefixes), text);
  }
  EXPECT_EQ(FormatPrefixes({}), "");
  EXPECT_EQ(FormatPrefixes(*ParsePrefixes("10.0.0.1/32")), "10.0.0.1");
}

TEST(IpPrefix, CountsTheBitsOfTheMappedAddress) {
  const auto prefixes = ParsePrefixes("10.128.0.0/9");
  ASSERT_TRUE(prefixes.ok());
  ASSERT_EQ(prefixes->size(), 1u);
  EXPECT_EQ(prefixes->front().address, V4(10, 128, 0, 0));
  EXPECT_EQ(prefixes->front().length, 96 + 9);
}

TEST(IpPrefix, QuotesThePartThatIsWrong) {
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
    const auto prefixes = ParsePrefixes(text);
    ASSERT_FALSE(prefixes.ok()) << text;
    const std::string message(prefixes.status().message());
    EXPECT_THAT(message, HasSubstr(part));
    EXPECT_THAT(message, HasSubstr(why));
  }
}

TEST(IpPrefix, ContainsWhatBeginsLikeIt) {
  const IpAddress host = V4(192, 0, 2, 129);
  for (const auto& [address, length, contains] :
       {std::tuple{V4(192, 0, 2, 128), 25, true},
        std::tuple{V4(192, 0, 2, 0), 25, false},
        std::tuple{V4(192, 0, 2, 0), 24, true},
        std::tuple{V4(192, 0, 2, 129), 32, true},
        std::tuple{V4(192, 0, 2, 128), 32, false},
        std::tuple{V4(128, 0, 0, 0), 1, true},
        std::tuple{V4(0, 0, 0, 0), 1, false},
        std::tuple{V4(0, 0, 0, 0), 0, true}}) {
    EXPECT_EQ(
        (IpPrefix{address, static_cast<uint8_t>(96 + length)}.Contains(host)),
        contains)
        << length;
  }
  const IpPrefix v6 = {.address = Ipv6Fields::Address("2001:db8::"),
                       .length = 32};
  EXPECT_TRUE(v6.Contains(Ipv6Fields::Address("2001:db8:ffff::1")));
  EXPECT_FALSE(v6.Contains(Ipv6Fields::Address("2001:db9::1")));
  EXPECT_FALSE(v6.Contains(host));
  EXPECT_TRUE(IpPrefix{}.Contains(host));
}

}  // namespace
}  // namespace snf
