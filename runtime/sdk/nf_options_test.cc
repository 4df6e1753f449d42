// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_options.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

NfOptions Good(std::string_view text) {
  absl::StatusOr<NfOptions> options = NfOptions::Parse(text);
  EXPECT_TRUE(options.ok()) << options.status();
  return *options;
}
// Returns the error of a text that is no list of options.
std::string WhatIsWrong(std::string_view text) {
  const absl::Status status = NfOptions::Parse(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(NfOptions, OfNoTextAreTheDefaults) {
  NfOptions options = Good("");
  EXPECT_EQ(options.Text("name", "x", "TEXT", "help"), "x");
  EXPECT_EQ(options.Integer("size", 7, 0, 9, "help"), 7);
  EXPECT_EQ(options.Duration("time", Seconds(2), {}, Seconds(9), "help"),
            Seconds(2));
  EXPECT_TRUE(options.Flag("on", true, "help"));
  EXPECT_FALSE(options.Flag("off", false, "help"));
  EXPECT_TRUE(options.status().ok());
}

TEST(NfOptions, AreReadByKey) {
  NfOptions options =
      Good("name=a=b,size=9,time=5ms,kind=two,on=true,off=false,empty=");
  EXPECT_EQ(options.Text("name", "x", "TEXT", "help"), "a=b");
  EXPECT_EQ(options.Integer("size", 7, 0, 9, "help"), 9);
  EXPECT_EQ(options.Duration("time", Seconds(2), {}, Seconds(9), "help"),
            Milliseconds(5));
  static constexpr std::array<std::string_view, 2> kNames = {"one", "two"};
  EXPECT_EQ(options.Choice("kind", 0, kNames, "help"), 1u);
  EXPECT_TRUE(options.Flag("on", false, "help"));
  EXPECT_FALSE(options.Flag("off", true, "help"));
  EXPECT_EQ(options.Text("empty", "x", "TEXT", "help"), "");
  EXPECT_TRUE(options.status().ok()) << options.status();
}

TEST(NfOptions, MustBeKeyAndValue) {
  EXPECT_THAT(WhatIsWrong("size"), HasSubstr("\"size\""));
  EXPECT_THAT(WhatIsWrong("=4"), HasSubstr("\"=4\""));
  EXPECT_THAT(WhatIsWrong("a=1,,b=2"), HasSubstr("\"\""));
  EXPECT_THAT(WhatIsWrong("a=1,b"), HasSubstr("\"b\""));
}

TEST(NfOptions, MustNotBeGivenTwice) {
  EXPECT_THAT(WhatIsWrong("size=1,size=1"), HasSubstr("\"size\""));
}

TEST(NfOptions, ThatNobodyAskedForAreNamed) {
  NfOptions options = Good("size=1,sise=2");
  EXPECT_EQ(options.status().message(),
            "sise=2: there is no option \"sise\"; it takes none");
  options.Integer("size", 7, 0, 9, "help");
  options.Flag("fast", false, "help");
  EXPECT_EQ(options.status().message(),
            "sise=2: there is no option \"sise\"; there is: fast, size");
}

TEST(NfOptions, WithValuesThatAreWrongHaveTheDefaultAndAreNamed) {
  for (const std::string_view value :
       {"10", "-1", "", "x", "7x", " 7", "0x7", "99999999999999999999"}) {
    NfOptions options = Good("size=" + std::string(value));
    EXPECT_EQ(options.Integer("size", 7, 0, 9, "help"), 7);
    EXPECT_THAT(options.status().message(),
                AllOf(HasSubstr("size=" + std::string(value)),
                      HasSubstr("from 0 to 9")));
  }
  for (const std::string_view value : {"10s", "5", "-1ms", "", "soon"}) {
    NfOptions options = Good("time=" + std::string(value));
    EXPECT_EQ(options.Duration("time", Seconds(2), {}, Seconds(9), "help"),
              Seconds(2));
    EXPECT_THAT(options.status().message(),
                HasSubstr("time=" + std::string(value)));
  }
  for (const std::string_view value : {"1", "yes", "True", ""}) {
    NfOptions options = Good("on=" + std::string(value));
    EXPECT_TRUE(options.Flag("on", true, "help"));
    EXPECT_THAT(options.status().message(), HasSubstr("false, true"));
  }
}

TEST(NfOptions, TellOfTheFirstThingWrong) {
  NfOptions options = Good("a=x,b=y,c=z");
  options.Integer("b", 0, 0, 1, "help");
  options.Integer("a", 0, 0, 1, "help");
  options.Fail("a", "as I like");
  EXPECT_THAT(options.status().message(), HasSubstr("b=y"));
}

TEST(NfOptions, MayBeFailedByTheNf) {
  NfOptions options = Good("a=3");
  options.Integer("a", 0, 0, 9, "help");
  options.Fail("a", "even");
  EXPECT_EQ(options.status().message(), "a=3: must be even");
}

TEST(NfOptions, ReadEndpointsOfBothVersions) {
  NfOptions options =
      Good("of=192.0.2.1:80+[2001:db8::1]:443,none=,list=a+b c+");
  const std::vector<NfOptions::Endpoint> found = options.Endpoints("of", "h");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(NfOptions::ToText(found[0]), "192.0.2.1:80");
  EXPECT_EQ(NfOptions::ToText(found[1]), "[2001:db8::1]:443");
  EXPECT_FALSE(found[0].is_ipv6);
  EXPECT_TRUE(found[1].is_ipv6);
  EXPECT_TRUE(options.Endpoints("none", "h").empty());
  EXPECT_TRUE(options.Endpoints("missing", "h").empty());
  EXPECT_THAT(options.List("list", "WORD", "h"),
              ::testing::ElementsAre("a", "b c", ""));
  EXPECT_TRUE(options.status().ok()) << options.status();
  EXPECT_EQ(options.described()[0].values, "ADDRESS:PORT[+…]");
}

TEST(NfOptions, ThatAreNoEndpointsAreQuoted) {
  for (const char* const wrong :
       {"192.0.2.1", "192.0.2.1:", ":80", "192.0.2.1:0", "192.0.2.1:65536",
        "192.0.2.1:8x", "192.0.2.256:80", "2001:db8::1:80", "[2001:db8::1]",
        "[192.0.2.1]:80", "[]:80", "[2001:db8::1:80"}) {
    NfOptions options = Good(std::string("of=192.0.2.7:7+") + wrong);
    options.Endpoints("of", "help");
    EXPECT_THAT(std::string(options.status().message()),
                HasSubstr("not \"" + std::string(wrong) + "\""));
  }
}

TEST(NfOptions, ChangeAtTheirTimes) {
  NfOptions options =
      Good("size=1,size@20s=3,size@3s=2,name@3s=x,fixed=7,size@1h=9,name@1h=y");
  EXPECT_EQ(options.Integer("fixed", 0, 0, 9, "help"), 7);
  const auto values = options.Changing([](NfOptions& o) {
    return std::pair(o.Integer("size", 0, 0, 9, "help"),
                     o.Text("name", "none", "TEXT", "help"));
  });
  ASSERT_TRUE(options.status().ok()) << options.status();
  using Value = std::pair<int64_t, std::string>;
  const std::vector<std::pair<Instant, Value>> expected = {
      {Instant::min(), {1, "none"}},
      {Instant{} + Seconds(3), {2, "x"}},
      {Instant{} + Seconds(20), {3, "x"}},
      {Instant{} + Seconds(3'600), {9, "y"}}};
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].from, expected[i].first) << i;
    EXPECT_EQ(values[i].value, expected[i].second) << i;
  }
  EXPECT_EQ(options.described().size(), 3u);
  EXPECT_EQ(NfOptions::Parse(options.text())->text(), options.text());
}

TEST(NfOptions, ThatCannotChangeAreRefused) {
  NfOptions options = Good("size@3s=1");
  options.Integer("size", 0, 0, 9, "help");
  EXPECT_EQ(options.status().message(),
            "size@3s=1: the option \"size\" cannot change while packets go "
            "through");
  for (const char* const wrong : {"size@=1", "size@soon=1", "size@-1s=1"}) {
    NfOptions other = Good(wrong);
    other.Changing([](NfOptions& o) { return o.Flag("size", false, "help"); });
    EXPECT_THAT(std::string(other.status().message()),
                HasSubstr("behind @ must be a time"))
        << wrong;
  }
  NfOptions late = Good("size=1,size@3s=10");
  late.Changing([](NfOptions& o) { return o.Integer("size", 0, 0, 9, "h"); });
  EXPECT_THAT(std::string(late.status().message()),
              HasSubstr("size@3s=10: must be"));
}

}  // namespace
}  // namespace snf
