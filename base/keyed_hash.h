// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_KEYED_HASH_H_
#define SNF_BASE_KEYED_HASH_H_

#include <array>
#include <cstdint>

namespace snf {

// Folds the two halves of the 128-bit product: one multiplication spreads every
// bit of both factors.
inline uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Returns a secret seed from the system's source of random bytes; each call
// returns a new seed. Aborts if the system has no such source. Thread-safe.
uint64_t SecretSeed();

// Hashes words for tables whose keys strangers choose. Every input bit reaches
// every output bit, so any bits of the result index a table. A stranger without
// the seed cannot aim at a bucket: the words are added to secret ones and
// multiplied in pairs, and the products are summed without loss (NH; Black et
// al., "UMAC: Fast and Secure Message Authentication", 1999), so any two keys
// have equal sums under at most one in 2^64 secrets. A product with two more
// secrets then mixes the sum.
//
// The hash is the same on every machine, but no result may depend on it, for
// the seed may be any. A value of 80 bytes. Budget: ≤ 5 ns for five words.
class KeyedHash {
 public:
  static constexpr uint32_t kMaxWords = 8;

  explicit KeyedHash(uint64_t seed);

  // Hashes at most kMaxWords words. The keys of a table have one length.
  uint64_t operator()(const uint64_t* words, uint32_t count) const {
    using Wide = unsigned __int128;
    Wide sum = 0;
    uint32_t i = 0;
    for (; i + 1 < count; i += 2) {
      sum += Wide{words[i] + secret_[i]} * (words[i + 1] + secret_[i + 1]);
    }
    if (i < count) sum += Wide{words[i] + secret_[i]} * secret_[i + 1];
    return Fold(static_cast<uint64_t>(sum) ^ secret_[kMaxWords],
                static_cast<uint64_t>(sum >> 64) ^ secret_[kMaxWords + 1]);
  }

 private:
  std::array<uint64_t, kMaxWords + 2> secret_;
};

}  // namespace snf

#endif  // SNF_BASE_KEYED_HASH_H_
