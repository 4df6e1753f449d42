// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_COUNTERS_H_
#define SNF_BASE_COUNTERS_H_

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace snf {
namespace internal {

template <size_t>
using Word = uint64_t;

// Aggregates may be initialized without the braces of their members, and
// nothing but a uint64_t takes one without narrowing.
template <typename T, size_t... kWord>
consteval bool TakesWords(std::index_sequence<kWord...>) {
  return requires(Word<kWord>... words) { T{words...}; };
}

}  // namespace internal

// A struct whose members are uint64_t, or arrays and structs of these.
template <typename T>
concept Counters =
    std::is_aggregate_v<T> && std::is_trivially_copyable_v<T> && sizeof(T) %
            sizeof(uint64_t) ==
        0 &&
    internal::TakesWords<T>(
        std::make_index_sequence<sizeof(T) / sizeof(uint64_t)>());

// Adds each counter of `one` to the same counter of `sum`. It needs no list of
// them, so none can be forgotten.
template <Counters T>
void AddCounters(T& sum, const T& one) {
  using Words = std::array<uint64_t, sizeof(T) / sizeof(uint64_t)>;
  auto words = std::bit_cast<Words>(sum);
  const auto more = std::bit_cast<Words>(one);
  for (size_t i = 0; i < words.size(); ++i) words[i] += more[i];
  sum = std::bit_cast<T>(words);
}

}  // namespace snf

#endif  // SNF_BASE_COUNTERS_H_
