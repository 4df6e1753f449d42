// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include <bit>
#include <limits>

#include "base/check.h"

namespace snf {
namespace {

using uint128 = unsigned __int128;

constexpr int kPieceBits = 8;
constexpr size_t kPieces = size_t{1} << kPieceBits;

// log2(1 + i / kPieces) in units of 2^-32, one bit at a time: squaring x
// doubles its logarithm, and the whole part that appears is the next bit.
constexpr uint64_t Log2OfPiece(uint64_t i) {
  constexpr int kOne = 62;
  uint64_t x = (uint64_t{1} << kOne) + (i << (kOne - kPieceBits));
  if (i == kPieces) return uint64_t{1} << 32;
  uint64_t log = 0;
  for (int bit = 0; bit < 32; ++bit) {
    x = static_cast<uint64_t>(uint128{x} * x >> kOne);
    const uint64_t carry = x >> (kOne + 1);
    x >>= carry;
    log = log << 1 | carry;
  }
  return log;
}

constexpr std::array<uint64_t, kPieces + 1> MakeLog2Table() {
  std::array<uint64_t, kPieces + 1> table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = Log2OfPiece(i);
  return table;
}

constexpr std::array<uint64_t, kPieces + 1> kLog2 = MakeLog2Table();

// ln 2 in units of 2^-64.
constexpr uint64_t kLn2 = 0xb172'17f7'd1cf'79ab;

constexpr uint64_t kGolden = 0x9e37'79b9'7f4a'7c15;

// The output function of splitmix64: a bijection that mixes all bits.
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ x >> 27) * 0x94d0'49bb'1331'11eb;
  return x ^ x >> 31;
}

}  // namespace

uint64_t NegativeLog(uint64_t u) {
  u |= u == 0;
  const int zeros = std::countl_zero(u);
  const uint64_t mantissa = u << zeros << 1;  // the leading 1 shifted out
  const size_t piece = mantissa >> (64 - kPieceBits);
  const uint64_t along = mantissa << kPieceBits >> 32;
  const uint64_t rise = kLog2[piece + 1] - kLog2[piece];
  const uint64_t fraction = kLog2[piece] + (rise * along >> 32);
  const uint64_t bits = (static_cast<uint64_t>(zeros + 1) << 32) - fraction;
  return static_cast<uint64_t>(uint128{bits} * kLn2 >> 64);
}

Rng::Rng(uint64_t seed) : seed_(seed), state_{} {
  for (uint64_t& word : state_) word = Mix(seed += kGolden);
}

uint64_t Rng::Below(uint64_t n) {
  SNF_CHECK(n > 0);
  uint128 product = uint128{Next()} * n;
  if (static_cast<uint64_t>(product) < n) {
    const uint64_t biased = -n % n;  // 2^64 mod n
    while (static_cast<uint64_t>(product) < biased) {
      product = uint128{Next()} * n;
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

int64_t Rng::Uniform(int64_t low, int64_t high) {
  SNF_CHECK(low <= high);
  const uint64_t base = static_cast<uint64_t>(low);
  const uint64_t count = static_cast<uint64_t>(high) - base + 1;
  // The count of all 2^64 values does not fit; then none needs rejecting.
  const uint64_t offset = count == 0 ? Next() : Below(count);
  return static_cast<int64_t>(base + offset);
}

bool Rng::Chance(uint32_t per_65536) {
  SNF_CHECK(per_65536 <= 65'536);
  return Next() >> 48 < per_65536;
}

int64_t Rng::Exponential(int64_t mean) {
  SNF_CHECK(mean >= 0);
  constexpr uint128 kHalf = uint128{1} << 31;
  const uint128 product =
      uint128{NegativeLog(Next())} * static_cast<uint64_t>(mean);
  const uint128 rounded = (product + kHalf) >> 32;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return rounded > uint128{kMax} ? kMax : static_cast<int64_t>(rounded);
}

size_t Rng::Weighted(std::span<const uint32_t> weights) {
  uint64_t sum = 0;
  for (uint32_t weight : weights) sum += weight;
  uint64_t left = Below(sum);
  size_t i = 0;
  while (left >= weights[i]) left -= weights[i++];
  return i;
}

Rng Rng::Fork(uint64_t stream) const {
  // Mixed between the two, so that Fork(1).Fork(2) is not Fork(2).Fork(1).
  return Rng(Mix(Mix(seed_ + kGolden) + stream * kGolden));
}

}  // namespace snf
