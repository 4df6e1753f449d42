// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/distribution.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "traces/fixture_capture.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using Unit = Distribution::Unit;

std::vector<int64_t> Drawn(const std::string& text, Unit unit = Unit::kBytes) {
  const auto distribution = Distribution::Parse(text, unit);
  EXPECT_TRUE(distribution.ok()) << distribution.status();
  std::vector<int64_t> values;
  if (!distribution.ok()) return values;
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) values.push_back(distribution->Draw(rng));
  std::ranges::sort(values);
  return values;
}

double Mean(const std::vector<int64_t>& values) {
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

double ShareBelow(const std::vector<int64_t>& values, int64_t bound) {
  const auto below = std::ranges::lower_bound(values, bound) - values.begin();
  return static_cast<double>(below) / static_cast<double>(values.size());
}

TEST(Distribution, DrawsFixedValuesInTheirUnit) {
  EXPECT_EQ(Drawn("1.5KB").front(), 1'500);
  EXPECT_EQ(Drawn("2ms", Unit::kTime).back(), 2'000'000);
  EXPECT_EQ(Drawn("20", Unit::kCount).back(), 20);
}

TEST(Distribution, DrawsTheShapesThatItNames) {
  const auto uniform = Drawn("uniform(64B, 1500B)");
  EXPECT_EQ(uniform.front(), 64);
  EXPECT_EQ(uniform.back(), 1'500);
  EXPECT_NEAR(Mean(uniform), 782, 8);

  const auto exponential = Drawn("exp(3ms)", Unit::kTime);
  EXPECT_NEAR(Mean(exponential), 3e6, 5e4);
  EXPECT_NEAR(ShareBelow(exponential, 3'000'000), 1 - std::exp(-1), 0.01);

  const auto lognormal = Drawn("lognormal(4KB, 1.5)");
  EXPECT_NEAR(ShareBelow(lognormal, 4'000), 0.5, 0.01);
  EXPECT_NEAR(ShareBelow(lognormal, 17'927), 0.841, 0.01);  // one σ above

  const auto pareto = Drawn("pareto(1KB, 1.2, 10MB)");
  EXPECT_GE(pareto.front(), 1'000);
  EXPECT_LE(pareto.back(), 10'000'000);
  EXPECT_NEAR(ShareBelow(pareto, 10'000), 1 - std::pow(10, -1.2), 0.01);
}

TEST(Distribution, MixesByShares) {
  const auto mixture = Drawn("35% 66B + 60 % 1434B+5%uniform(100B,200B)");
  EXPECT_NEAR(ShareBelow(mixture, 67), 0.35, 0.01);
  EXPECT_NEAR(ShareBelow(mixture, 201), 0.40, 0.01);
  EXPECT_EQ(mixture.back(), 1'434);
}

TEST(Distribution, DrawsFromValuesOfAFile) {
  const TestFolder folder;
  const std::string path = folder.Write("sizes", "66\n\n1434 3\n");
  const auto values = Drawn("file(" + path + ")");
  EXPECT_NEAR(ShareBelow(values, 67), 0.25, 0.01);
  EXPECT_EQ(values.back(), 1'434);
}

TEST(Distribution, SaysWhatIsWrong) {
  const TestFolder folder;
  const std::string bad = folder.Write("bad", "66\nmany\n");
  const std::string empty = folder.Write("empty", "\n");
  for (const auto& [text, words] : std::vector<std::array<std::string, 2>>{
           {"", "no number"},
           {"fat", "no number"},
           {"zipf(1)", "\"zipf(1)\" is no distribution"},
           {"exp(1ms", "is no distribution"},
           {"exp(1B, 2B)", "has 2 arguments, not 1"},
           {"uniform(5B, 4B)", "out of range"},
           {"pareto(0B, 1, 5B)", "out of range"},
           {"lognormal(1KB, -1)", "\"-1\" is not a number"},
           {"50% 1B + 40% 2B", "add up to 90 %"},
           {"1B + 2B", "has no share"},
           {"file(" + bad + ")", "bad:2"},
           {"file(" + empty + ")", "has no value"},
           {"file(none)", "none"}}) {
    const auto distribution = Distribution::Parse(text, Unit::kBytes);
    ASSERT_FALSE(distribution.ok()) << text;
    EXPECT_THAT(std::string(distribution.status().message()), HasSubstr(words));
  }
}

}  // namespace
}  // namespace snf
