// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RNG_H_
#define SNF_BASE_RNG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace snf {

// Returns −ln(u / 2^64) in units of 2^-32, without floating point, by a count
// of leading zeros and a table of log2 with 256 linear pieces. `u` = 0 is taken
// as 1. The result is never below the true value minus 2^-32, and above it by
// at most 2.0e-6 (so 1.0 is found as 1.000000 … 1.000002). Pure; ≤ 5 ns.
uint64_t NegativeLog(uint64_t u);

// A reproducible source of random integers: xoshiro256** (Blackman and Vigna,
// "Scrambled Linear Pseudorandom Number Generators", 2021) whose state is
// filled from the seed by splitmix64. No floating point anywhere, so the same
// seed gives the same numbers on every machine; rng_test.cc pins them.
// Not for secrets.
//
// A value: copying it copies the place in the stream, and two that compare
// equal go on alike. Owner-thread only. No allocation.
//
// Worked example: a simulation owns Rng(seed) and gives each part its own
// stream, Fork(1) to the workload, Fork(2) to the faults. One more draw in the
// workload then leaves every fault where it was.
class Rng {
 public:
  explicit Rng(uint64_t seed);

  // Returns 64 random bits. Budget: ≤ 2 ns.
  uint64_t Next();

  // Returns a number uniform in [0, n), without bias (Lemire, "Fast Random
  // Integer Generation in an Interval", 2019). n > 0. Budget: ≤ 4 ns.
  uint64_t Below(uint64_t n);

  // Returns a number uniform in [low, high], both included; low ≤ high.
  int64_t Uniform(int64_t low, int64_t high);

  // Returns true in `per_65536` of 65,536 cases; per_65536 ≤ 65,536.
  bool Chance(uint32_t per_65536);

  // Returns an exponentially distributed number of this mean ≥ 0, rounded to
  // the nearest integer (so it may be 0) and limited to the int64 maximum.
  // Accuracy: that of NegativeLog, 2.0e-6 of the mean; the greatest value is
  // 44.4 means. Budget: ≤ 10 ns.
  int64_t Exponential(int64_t mean);

  // Returns index i with probability weights[i] / sum; the sum must not be 0.
  // O(weights).
  size_t Weighted(std::span<const uint32_t> weights);

  // Puts the items into uniformly random order (Fisher-Yates). O(items).
  template <typename T>
  void Shuffle(std::span<T> items) {
    for (size_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[Below(left)]);
    }
  }

  // Returns another generator, independent of this one and of its other forks.
  // The result depends on the seed and on `stream` alone, not on earlier draws;
  // forking the same stream twice gives equal generators.
  Rng Fork(uint64_t stream) const;

  friend bool operator==(const Rng&, const Rng&) = default;

 private:
  uint64_t seed_;
  std::array<uint64_t, 4> state_;
};

inline uint64_t Rng::Next() {
  const auto rotl = [](uint64_t x, int k) { return x << k | x >> (64 - k); };
  const uint64_t result = rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotl(state_[3], 45);
  return result;
}

}  // namespace snf

#endif  // SNF_BASE_RNG_H_
