// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// The sum of (seen - expected)² / expected over cells that are equally likely.
double ChiSquare(const std::vector<uint64_t>& seen) {
  double total = 0;
  for (uint64_t n : seen) total += static_cast<double>(n);
  const double expected = total / static_cast<double>(seen.size());
  double sum = 0;
  for (uint64_t n : seen) {
    const double off = static_cast<double>(n) - expected;
    sum += off * off / expected;
  }
  return sum;
}

// Limits that a fair generator passes in 999,999 of 1,000,000 seeds.
constexpr double kLimit9 = 46.8;   // 9 degrees of freedom
constexpr double kLimit23 = 71.0;  // 23 degrees of freedom

template <typename Draw>
auto Draws(int n, Draw draw) {
  std::vector<decltype(draw())> all;
  all.reserve(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) all.push_back(draw());
  return all;
}

// The golden values come from an independent implementation with unlimited
// integers, itself checked against the published outputs of splitmix64 and
// xoshiro256**.
TEST(Rng, GivesTheGoldenNumbersOfItsSeed) {
  Rng zero(0);
  EXPECT_THAT(Draws(4, [&] { return zero.Next(); }),
              ElementsAre(0x99ec5f36cb75f2b4, 0xbf6e1f784956452a,
                          0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c));
  Rng other(42);
  EXPECT_THAT(Draws(4, [&] { return other.Next(); }),
              ElementsAre(0x15780b2e0c2ec716, 0x6104d9866d113a7e,
                          0xae17533239e499a1, 0xecb8ad4703b360a1));
}

TEST(Rng, GivesTheGoldenNumbersOfEachDistribution) {
  Rng below(42);
  EXPECT_THAT(Draws(16, [&] { return below.Below(10); }),
              ElementsAre(0, 3, 6, 9, 9, 7, 7, 8, 7, 5, 6, 2, 8, 3, 7, 8));
  Rng uniform(42);
  EXPECT_THAT(Draws(8, [&] { return uniform.Uniform(-5, 4); }),
              ElementsAre(-5, -2, 1, 4, 4, 2, 2, 3));
  Rng exponential(42);
  EXPECT_THAT(Draws(6, [&] { return exponential.Exponential(1'000'000); }),
              ElementsAre(2'478'572, 970'271, 385'599, 78'294, 8'230, 261'703));
  const std::array<uint32_t, 3> weights = {1, 0, 9};
  Rng weighted(42);
  EXPECT_THAT(Draws(8, [&] { return weighted.Weighted(weights); }),
              ElementsAre(0, 2, 2, 2, 2, 2, 2, 2));
  std::vector<int> items = {0, 1, 2, 3, 4, 5, 6, 7};
  Rng(42).Shuffle(std::span(items));
  EXPECT_THAT(items, ElementsAre(7, 1, 6, 3, 5, 4, 2, 0));
}

TEST(Rng, GivesTheGoldenNumbersOfItsForks) {
  const Rng rng(42);
  EXPECT_EQ(rng.Fork(1).Next(), 0xc986fd807e5b8ab5);
  EXPECT_EQ(rng.Fork(2).Next(), 0xc57cd3752c59f2de);
  EXPECT_EQ(rng.Fork(1).Fork(2).Next(), 0xd2dc0dc818ba090f);
}

TEST(Rng, IsAValue) {
  Rng rng(7);
  rng.Next();
  Rng copy = rng;
  EXPECT_EQ(copy, rng);
  EXPECT_EQ(copy.Next(), rng.Next());
  EXPECT_EQ(copy, rng);
  rng.Next();
  EXPECT_NE(copy, rng);
}

TEST(Rng, ForksWithoutRegardToWhatWasDrawn) {
  Rng rng(7);
  const Rng before = rng.Fork(3);
  for (int i = 0; i < 10; ++i) rng.Next();
  EXPECT_EQ(rng.Fork(3), before);
  EXPECT_NE(rng.Fork(3), rng.Fork(4));
  EXPECT_NE(rng.Fork(3), Rng(8).Fork(3));
  EXPECT_NE(rng.Fork(1).Fork(2), rng.Fork(2).Fork(1));
}

TEST(Rng, ForksIntoStreamsThatShareNoBitPattern) {
  // Bits that two independent streams have in common: half, ± 5 sigma.
  constexpr int kDraws = 4'096;
  for (uint64_t stream = 0; stream < 16; ++stream) {
    Rng a = Rng(9).Fork(stream);
    Rng b = Rng(9).Fork(stream + 1);
    int common = 0;
    for (int i = 0; i < kDraws; ++i) {
      common += 64 - std::popcount(a.Next() ^ b.Next());
    }
    EXPECT_NEAR(common, 32 * kDraws, 5 * 4 * 64) << "stream " << stream;
  }
}

TEST(Rng, SetsEachBitInHalfOfTheDraws) {
  constexpr int kHalf = 1 << 15;
  std::array<int, 64> set{};
  Rng rng(11);
  for (int i = 0; i < 2 * kHalf; ++i) {
    const uint64_t x = rng.Next();
    for (int bit = 0; bit < 64; ++bit) {
      set[static_cast<size_t>(bit)] += static_cast<int>(x >> bit & 1);
    }
  }
  // sigma is 128.
  for (int n : set) EXPECT_NEAR(n, kHalf, 5 * 128);
}

TEST(Rng, SpreadsSmallRangesEvenly) {
  Rng rng(12);
  std::vector<uint64_t> seen(10);
  for (int i = 0; i < 1'000'000; ++i) ++seen[rng.Below(10)];
  EXPECT_LT(ChiSquare(seen), kLimit9);
}

TEST(Rng, IsUnbiasedWhereTheRangeIsLarge) {
  // The range is 3·2^62; without rejection every third value would come twice
  // as often.
  constexpr uint64_t kRange = uint64_t{3} << 62;
  Rng rng(13);
  std::array<int, 3> by_remainder{};
  for (int i = 0; i < 90'000; ++i) ++by_remainder[rng.Below(kRange) % 3];
  // sigma is 141.
  for (int n : by_remainder) EXPECT_NEAR(n, 30'000, 5 * 141);
}

TEST(Rng, ReachesBothEndsOfAUniformRangeAndNothingElse) {
  Rng rng(14);
  std::map<int64_t, int> seen;
  for (int i = 0; i < 70'000; ++i) ++seen[rng.Uniform(-3, 3)];
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(seen.begin()->first, -3);
  EXPECT_EQ(seen.rbegin()->first, 3);
  for (const auto& [number, n] : seen) EXPECT_NEAR(n, 10'000, 5 * 93);
  EXPECT_EQ(rng.Uniform(kMax, kMax), kMax);
  EXPECT_EQ(rng.Uniform(kMin, kMin), kMin);
}

TEST(Rng, SpansAllOfInt64) {
  Rng rng(15);
  int negative = 0;
  for (int i = 0; i < 10'000; ++i) negative += rng.Uniform(kMin, kMax) < 0;
  EXPECT_NEAR(negative, 5'000, 5 * 50);
}

TEST(Rng, TakesAChanceAsOftenAsItSays) {
  Rng rng(16);
  int never = 0, always = 0, tenth = 0;
  for (int i = 0; i < 100'000; ++i) {
    never += rng.Chance(0);
    always += rng.Chance(65'536);
    tenth += rng.Chance(6'554);
  }
  EXPECT_EQ(never, 0);
  EXPECT_EQ(always, 100'000);
  EXPECT_NEAR(tenth, 10'000, 5 * 95);
}

TEST(Rng, FindsTheLogarithmToTwoInAMillion) {
  const auto error = [](uint64_t u) {
    const double exact = -std::log(std::ldexp(static_cast<double>(u), -64));
    return std::ldexp(static_cast<double>(NegativeLog(u)), -32) - exact;
  };
  double least = 0, most = 0;
  Rng rng(17);
  for (int i = 0; i < 1'000'000; ++i) {
    // All magnitudes are equally likely.
    const uint64_t u = rng.Next() >> rng.Below(64) | 1;
    least = std::min(least, error(u));
    most = std::max(most, error(u));
  }
  EXPECT_GT(least, std::ldexp(-1, -32));
  EXPECT_LT(most, 2.0e-6);
  EXPECT_GT(most, 1.0e-6) << "the stated error is far from the real one";
}

TEST(Rng, FindsTheLogarithmAtItsEnds) {
  EXPECT_EQ(NegativeLog(~uint64_t{0}), 0u);
  EXPECT_EQ(NegativeLog(0), NegativeLog(1));
  // 64 ln 2 = 44.3614195558.
  EXPECT_EQ(NegativeLog(1), 190'530'846'196u);
  // ln 2 = 0.6931471806.
  EXPECT_EQ(NegativeLog(uint64_t{1} << 63), 2'977'044'471u);
}

TEST(Rng, NeverRisesAsTheLogarithmsArgumentRises) {
  // The values lie on both sides of the borders of the table's pieces and of
  // the powers of two.
  for (int shift = 9; shift < 64; ++shift) {
    for (uint64_t piece = 256; piece < 512; ++piece) {
      const uint64_t seam = piece << 55 >> (63 - shift);
      EXPECT_GE(NegativeLog(seam - 1), NegativeLog(seam));
      EXPECT_GE(NegativeLog(seam), NegativeLog(seam + 1));
    }
  }
}

TEST(Rng, DrawsExponentialsOfTheirMeanAndTail) {
  constexpr int kDraws = 1'000'000;
  constexpr int64_t kMean = 500'000;
  Rng rng(18);
  double sum = 0;
  std::array<int, 6> beyond{};  // how many exceed 0, 1, … 5 means
  for (int i = 0; i < kDraws; ++i) {
    const int64_t x = rng.Exponential(kMean);
    ASSERT_GE(x, 0);
    sum += static_cast<double>(x);
    for (size_t k = 0; k < beyond.size(); ++k) {
      beyond[k] += x > static_cast<int64_t>(k) * kMean;
    }
  }
  // sigma of the mean is mean / 1,000.
  EXPECT_NEAR(sum / kDraws, kMean, 5.0 * kMean / 1'000);
  for (size_t k = 0; k < beyond.size(); ++k) {
    const double p = std::exp(-static_cast<double>(k));
    EXPECT_NEAR(beyond[k], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 5)
        << k << " means";
  }
}

TEST(Rng, RoundsExponentialsToTheNearest) {
  Rng rng(25);
  int none = 0;
  for (int i = 0; i < 100'000; ++i) none += rng.Exponential(1) == 0;
  // 1 − e^−½; rounded down it were 63 %.
  EXPECT_NEAR(none, 39'347, 5 * 154);
}

TEST(Rng, DrawsExponentialsOfAnyMean) {
  Rng rng(19);
  bool held = false;
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(rng.Exponential(0), 0);
    const int64_t x = rng.Exponential(kMax);
    EXPECT_GE(x, 0);
    held |= x == kMax;
  }
  EXPECT_TRUE(held);
}

TEST(Rng, ChoosesByWeight) {
  const std::array<uint32_t, 5> weights = {0, 1, 0, 3, 6};
  Rng rng(20);
  std::array<int, 5> seen{};
  for (int i = 0; i < 100'000; ++i) ++seen[rng.Weighted(weights)];
  EXPECT_EQ(seen[0], 0);
  EXPECT_NEAR(seen[1], 10'000, 5 * 95);
  EXPECT_EQ(seen[2], 0);
  EXPECT_NEAR(seen[3], 30'000, 5 * 145);
  EXPECT_NEAR(seen[4], 60'000, 5 * 155);
}

TEST(Rng, ChoosesByWeightsWhoseSumIsBeyond32Bits) {
  const std::array<uint32_t, 3> weights = {~0u, ~0u, ~0u};
  Rng rng(21);
  std::array<int, 3> seen{};
  for (int i = 0; i < 90'000; ++i) ++seen[rng.Weighted(weights)];
  for (int n : seen) EXPECT_NEAR(n, 30'000, 5 * 141);
}

TEST(Rng, ShufflesIntoEachOrderAlike) {
  Rng rng(22);
  std::map<std::string, uint64_t> seen;
  for (int i = 0; i < 240'000; ++i) {
    std::string items = "abcd";
    rng.Shuffle(std::span(items));
    ++seen[items];
  }
  ASSERT_EQ(seen.size(), 24u);
  std::vector<uint64_t> counts;
  counts.reserve(seen.size());
  for (const auto& [order, n] : seen) counts.push_back(n);
  EXPECT_LT(ChiSquare(counts), kLimit23);
}

TEST(Rng, ShufflesNothingAndOneItem) {
  Rng rng(23);
  std::vector<int> none;
  rng.Shuffle(std::span(none));
  std::vector<int> one = {5};
  rng.Shuffle(std::span(one));
  EXPECT_THAT(one, ElementsAre(5));
  EXPECT_EQ(rng, Rng(23));
}

TEST(RngDeathTest, RefusesRangesWithoutAMember) {
  Rng rng(24);
  EXPECT_DEATH(rng.Below(0), "n > 0");
  EXPECT_DEATH(rng.Uniform(1, 0), "low <= high");
  EXPECT_DEATH(rng.Chance(65'537), "per_65536");
  EXPECT_DEATH(rng.Exponential(-1), "mean >= 0");
  const std::array<uint32_t, 2> weights = {0, 0};
  EXPECT_DEATH(rng.Weighted(weights), "n > 0");
}

}  // namespace
}  // namespace snf
