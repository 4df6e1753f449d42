// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TIME_H_
#define SNF_BASE_TIME_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace snf {

// A span of time in integer nanoseconds. Trivially copyable.
struct Nanos {
  int64_t ns = 0;
  friend constexpr auto operator<=>(Nanos, Nanos) = default;
  static constexpr Nanos max() { return {std::numeric_limits<int64_t>::max()}; }
};

constexpr Nanos Microseconds(int64_t us) { return {us * 1'000}; }
constexpr Nanos Milliseconds(int64_t ms) { return {ms * 1'000'000}; }
constexpr Nanos Seconds(int64_t s) { return {s * 1'000'000'000}; }

// A point of time: nanoseconds since the Unix epoch in a capture, or since any
// fixed start elsewhere. Sums and differences saturate at the int64 limits, so
// hostile timestamps cannot overflow; `Instant::max()` means "never".
struct Instant {
  int64_t ns = 0;
  friend constexpr auto operator<=>(Instant, Instant) = default;
  static constexpr Instant min() {
    return {std::numeric_limits<int64_t>::min()};
  }
  static constexpr Instant max() {
    return {std::numeric_limits<int64_t>::max()};
  }
};

constexpr Instant operator+(Instant t, Nanos d) {
  int64_t sum = 0;
  if (__builtin_add_overflow(t.ns, d.ns, &sum)) {
    return d.ns > 0 ? Instant::max() : Instant::min();
  }
  return {sum};
}

constexpr Nanos operator-(Instant a, Instant b) {
  int64_t difference = 0;
  if (__builtin_sub_overflow(a.ns, b.ns, &difference)) {
    return {a.ns > b.ns ? std::numeric_limits<int64_t>::max()
                        : std::numeric_limits<int64_t>::min()};
  }
  return {difference};
}

}  // namespace snf

#endif  // SNF_BASE_TIME_H_
