// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_options.h"

#include <array>
#include <string>
#include <string_view>

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

}  // namespace
}  // namespace snf
