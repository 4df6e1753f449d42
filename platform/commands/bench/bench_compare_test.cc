// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Values = std::vector<double>;

// There are C(14, 7) = 3432 ways to divide 14 values in halves; two put all
// lower into one half.
TEST(BenchChance, IsThatOfMannAndWhitney) {
  const Values low = {1, 2, 3, 4, 5, 6, 7};
  const Values high = {8, 9, 10, 11, 12, 13, 14};
  EXPECT_NEAR(ChanceOf(low, high), 2.0 / 3'432, 1e-12);
  EXPECT_NEAR(ChanceOf(high, low), 2.0 / 3'432, 1e-12);
  // Tables of the test: U = 8 for 7 and 7 has p = 0.0379.
  EXPECT_NEAR(
      ChanceOf(Values{1, 2, 3, 4, 5, 8, 13}, Values{6, 7, 9, 10, 11, 12, 14}),
      0.0379, 5e-5);
  EXPECT_NEAR(ChanceOf(Values{1, 4}, Values{2, 3}), 1, 1e-12);
}

TEST(BenchChance, SeesNoDifferenceInEqualValues) {
  EXPECT_EQ(ChanceOf(Values{5, 5, 5, 5, 5}, Values{5, 5, 5, 5, 5}), 1);
  EXPECT_EQ(ChanceOf(Values{}, Values{5}), 1);
  EXPECT_EQ(ChanceOf(Values(100, 5), Values(100, 5)), 1);
}

TEST(BenchChance, IsNearlyExactForManyValues) {
  Values before;
  Values now;
  for (int i = 0; i < 21; ++i) {
    before.push_back(i * 1.0);
    now.push_back(i + 6.5);
  }
  // The ranks of `before` have the sum 336; erfc(115.5 / sqrt(2 * 1580.25)).
  EXPECT_NEAR(ChanceOf(before, now), 0.0036668, 1e-7);
}

// A run of one row with the values 10, 11 … 16 of a ratio.
class BenchCompare : public ::testing::Test {
 protected:
  BenchCompare() {
    const auto add = [this](const std::string& name, double first) {
      return suite_.Add(name,
                        [first]() -> absl::StatusOr<BenchSuite::BenchCase> {
                          return BenchSuite::BenchCase{
                              .sample = [value = first](uint64_t) mutable {
                                return value++;
                              }};
                        });
    };
    BenchRow row = {.number = 3, .what = "the platform"};
    row.ours = {"ours", add("ours", 10)};
    row.base = {"base", add("base", 1)};
    row.of = BenchRow::Of::kOurs;
    run_.rows = {row};
    run_.version = "9.9";
    run_.machine.cpu = "Quick 1";
    run_.operations = 100;
    suite_.Run(7, 100, [](uint32_t) {});
  }
  // Returns another run with these values.
  EarlierBench Earlier(const Values& values) {
    EarlierBench before = {.file = "old.json",
                           .version = "9.8",
                           .cpu = "Quick 1",
                           .operations = 100};
    before.rows.push_back(
        {.number = 3, .what = "the platform", .values = values});
    return before;
  }
  std::string Text(const EarlierBench& before) {
    return CompareText(before, run_, suite_);
  }

  BenchSuite suite_;
  BenchRun run_;
};

TEST_F(BenchCompare, NamesRowsThatChangedBeyondNoise) {
  EXPECT_THAT(Text(Earlier({1, 2, 3, 4, 5, 6, 7})),
              AllOf(HasSubstr("4 ns before, 13 ns now, +225.0 %: worse"),
                    HasSubstr("1 of 1 rows")));
  EXPECT_THAT(Text(Earlier({20, 21, 22, 23, 24, 25, 26})),
              HasSubstr("%: better"));
  EXPECT_THAT(Text(Earlier({9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5})),
              AllOf(HasSubstr("0 of 1 rows"), Not(HasSubstr("before,"))));
}

TEST_F(BenchCompare, HoldsRatesAboveTheLess) {
  run_.rows[0].of = BenchRow::Of::kRate;
  EXPECT_THAT(Text(Earlier({1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6})),
              HasSubstr("worse"));
}

TEST_F(BenchCompare, LeavesOutRowsThatOneRunHasNot) {
  EarlierBench before = Earlier({});
  EXPECT_THAT(Text(before), HasSubstr("0 of 0 rows"));
  before = Earlier({1, 2, 3});
  before.rows[0].variant = "another";
  EXPECT_THAT(Text(before), HasSubstr("0 of 0 rows"));
}

TEST_F(BenchCompare, WarnsOfAnotherMachineAndOtherSizes) {
  EarlierBench before = Earlier({1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(Text(before), Not(HasSubstr("Warning")));
  before.cpu = "Slow 2";
  before.operations = 5;
  EXPECT_THAT(Text(before),
              AllOf(HasSubstr("Slow 2 before"), HasSubstr("5 operations")));
}

TEST_F(BenchCompare, ReadsWhatARunWrites) {
  const auto before = ParseEarlierBench("now.json", BenchJson(run_, suite_));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->version, "9.9");
  EXPECT_EQ(before->cpu, "Quick 1");
  EXPECT_EQ(before->operations, 100u);
  ASSERT_EQ(before->rows.size(), 1u);
  EXPECT_EQ(before->rows[0].values, ValuesOf(run_.rows[0], suite_));
  EXPECT_THAT(Text(*before), HasSubstr("0 of 1 rows"));
}

TEST_F(BenchCompare, RefusesOtherFiles) {
  for (const std::string text : {"", "[]", "{\"version\": 3}", "{}"}) {
    const auto before = ParseEarlierBench("x.json", text);
    ASSERT_FALSE(before.ok()) << text;
    EXPECT_THAT(std::string(before.status().message()),
                ::testing::StartsWith("x.json: not what"));
  }
  EXPECT_FALSE(ReadEarlierBench("/nonesuch/x.json").ok());
}

}  // namespace
}  // namespace snf
