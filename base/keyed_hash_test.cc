// SPDX-License-Identifier: Apache-2.0
#include "base/keyed_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/slot_index.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Key = std::array<uint64_t, 2>;

// Returns the number of different hashes that the keys have.
size_t Distinct(const std::vector<Key>& keys, uint64_t seed) {
  const KeyedHash hash(seed);
  std::set<uint64_t> hashes;
  for (const Key& key : keys) hashes.insert(hash(key.data(), 2));
  return hashes.size();
}

TEST(KeyedHash, IsTheSameOnEveryMachine) {
  const std::array<uint64_t, 8> words = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(KeyedHash(0)(words.data(), 1), 0x445f'4be2'964a'9768);
  EXPECT_EQ(KeyedHash(0)(words.data(), 5), 0xa05e'42b5'6cc8'a9c5);
  EXPECT_EQ(KeyedHash(1)(words.data(), 8), 0x2cf4'39ff'2faa'44d6);
}

TEST(KeyedHash, DependsOnEveryBitOfEveryWordAndOnTheSeed) {
  for (uint32_t count = 1; count <= KeyedHash::kMaxWords; ++count) {
    std::array<uint64_t, KeyedHash::kMaxWords> words{};
    const uint64_t hash = KeyedHash(1)(words.data(), count);
    EXPECT_NE(hash, KeyedHash(2)(words.data(), count));
    for (uint32_t bit = 0; bit < count * 64; ++bit) {
      words[bit / 64] ^= uint64_t{1} << bit % 64;
      const int flips = std::popcount(hash ^ KeyedHash(1)(words.data(), count));
      EXPECT_GT(flips, 8) << count << " words, bit " << bit;
      EXPECT_LT(flips, 56) << count << " words, bit " << bit;
      words[bit / 64] ^= uint64_t{1} << bit % 64;
    }
  }
}

// A product whose other factor carries the differences up loses those of the
// highest bits, so that they cancel against the next word.
TEST(KeyedHash, TellsKeysApartThatDifferInTheirHighestBits) {
  std::vector<Key> keys;
  for (uint64_t a = 0; a < 200; ++a) {
    for (uint64_t b = 0; b < 200; ++b) {
      keys.push_back({a << 56, b << 56 | b << 24});
    }
  }
  const uint64_t secret = SecretSeed();
  std::printf("secret seed %llu\n", static_cast<unsigned long long>(secret));
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, secret}) {
    EXPECT_EQ(Distinct(keys, seed), keys.size()) << "seed " << seed;
  }
}

// A factor of zero would give all keys with the same first word one hash.
TEST(KeyedHash, HasNoWordThatHidesTheOther) {
  for (const uint64_t word :
       {uint64_t{0}, ~uint64_t{0}, uint64_t{0x1319'8a2e'0370'7345}}) {
    std::vector<Key> first, second;
    for (uint64_t i = 0; i < 40'000; ++i) {
      first.push_back({word, i << 32});
      second.push_back({i << 32, word});
    }
    EXPECT_EQ(Distinct(first, 1), first.size()) << word;
    EXPECT_EQ(Distinct(second, 1), second.size()) << word;
  }
}

TEST(SecretSeed, IsAnotherOneAtEachCall) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 100; ++i) seeds.insert(SecretSeed());
  EXPECT_EQ(seeds.size(), 100u);
}

}  // namespace
}  // namespace snf
