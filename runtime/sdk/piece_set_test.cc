// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/piece_set.h"

#include <optional>
#include <set>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Parity = PiecePreference::Parity;
using ::testing::Optional;

constexpr uint64_t kAll = ~uint64_t{0};

TEST(PieceSet, StartsEmpty) {
  PieceSet set(4);
  EXPECT_EQ(set.words(), 4u);
  EXPECT_EQ(set.size(), 0u);
  EXPECT_EQ(set.Take({.last = 255}), std::nullopt);
}

TEST(PieceSet, CountsWhatIsAddedAndRemoved) {
  PieceSet set(2);
  EXPECT_EQ(set.Add(1, 0b1011), 0u);
  EXPECT_EQ(set.size(), 3u);
  EXPECT_TRUE(set.Has(64));
  EXPECT_FALSE(set.Has(66));
  EXPECT_EQ(set.Remove(1, 0b110), 0b10u);
  EXPECT_EQ(set.size(), 2u);
  EXPECT_EQ(set.word(1), 0b1001u);
}

TEST(PieceSet, TellsWhatWasThereAlready) {
  PieceSet set(1);
  set.Add(0, 0b0110);
  EXPECT_EQ(set.Add(0, 0b1100), 0b0100u);
  EXPECT_EQ(set.size(), 3u);
}

TEST(PieceSet, GivesThePreferredOneOrTheNextFromItOn) {
  PieceSet set(3);
  set.Add(0, kAll);
  set.Add(2, 0b100);
  const PiecePreference wish = {.first = 0, .last = 191, .preferred = 63};
  EXPECT_THAT(set.Take(wish), Optional(63u));
  EXPECT_THAT(set.Take(wish), Optional(130u));
  EXPECT_THAT(set.Take(wish), Optional(0u));
  EXPECT_THAT(set.Take(wish), Optional(1u));
}

TEST(PieceSet, KeepsToRangeAndParity) {
  PieceSet set(2);
  set.Add(0, kAll);
  set.Add(1, kAll);
  const PiecePreference even = {
      .first = 61, .last = 66, .parity = Parity::kEven};
  const PiecePreference odd = {.first = 61, .last = 66, .parity = Parity::kOdd};
  EXPECT_THAT(set.Take(even), Optional(62u));
  EXPECT_THAT(set.Take(even), Optional(64u));
  EXPECT_THAT(set.Take(even), Optional(66u));
  EXPECT_EQ(set.Take(even), std::nullopt);
  EXPECT_THAT(set.Take(odd), Optional(61u));
}

TEST(PieceSet, HasNothingOutsideOfItsWordsOrOfAnEmptyRange) {
  PieceSet set(1);
  set.Add(0, kAll);
  EXPECT_EQ(set.Take({.first = 64, .last = 100}), std::nullopt);
  EXPECT_EQ(set.Take({.first = ~0u, .last = ~0u}), std::nullopt);
  EXPECT_EQ(set.Take({.first = 5, .last = 4}), std::nullopt);
  EXPECT_THAT(set.Take({.first = 63, .last = ~0u}), Optional(63u));
  // A preferred piece that the wish does not admit is not taken.
  EXPECT_THAT(set.Take({.first = 8, .last = 9, .preferred = 50}), Optional(8u));
  EXPECT_THAT(set.Take({.first = 8, .last = 9, .preferred = 2}), Optional(9u));
}

TEST(PieceSet, OfManyStepsIsTheSetOfNumbers) {
  constexpr uint64_t kSeed = 7;
  Rng rng(kSeed);
  constexpr uint32_t kWords = 130;
  constexpr uint32_t kBeyond = kWords * 64 + 10;
  PieceSet set(kWords);
  std::set<uint32_t> model;
  uint64_t given = 0;
  for (int step = 0; step < 100'000; ++step) {
    if (rng.Below(3) == 0) {
      const auto word = static_cast<uint32_t>(rng.Below(5) * 32);
      const uint64_t mask = rng.Next() & rng.Next() & rng.Next() & rng.Next();
      const bool adds = rng.Below(3) != 0;
      uint64_t expected = 0;
      for (uint32_t bit = 0; bit < 64; ++bit) {
        if ((mask >> bit & 1) == 0) continue;
        const uint32_t piece = word * 64 + bit;
        const bool was =
            adds ? !model.insert(piece).second : model.erase(piece) == 1;
        expected |= uint64_t{was} << bit;
      }
      ASSERT_EQ(adds ? set.Add(word, mask) : set.Remove(word, mask), expected);
    } else {
      PiecePreference wish;
      wish.first = static_cast<uint32_t>(rng.Below(kBeyond));
      wish.last = static_cast<uint32_t>(rng.Below(kBeyond));
      wish.preferred = static_cast<uint32_t>(rng.Below(kBeyond));
      wish.parity = static_cast<Parity>(rng.Below(3));
      const auto is_good = [&](uint32_t piece) {
        return piece >= wish.first && piece <= wish.last &&
               (wish.parity == Parity::kAny ||
                (piece % 2 == 1) == (wish.parity == Parity::kOdd));
      };
      std::optional<uint32_t> expected;
      for (const uint32_t piece : model) {
        if (!is_good(piece)) continue;
        if (!expected.has_value()) expected = piece;
        if (wish.preferred < wish.first || wish.preferred > wish.last) break;
        if (piece >= wish.preferred) {
          expected = piece;
          break;
        }
      }
      ASSERT_EQ(set.Take(wish), expected) << "seed " << kSeed;
      if (expected.has_value()) model.erase(*expected);
      given += expected.has_value() ? 1 : 0;
    }
    ASSERT_EQ(set.size(), model.size());
  }
  EXPECT_GT(given, 20'000u);
}

}  // namespace
}  // namespace snf
