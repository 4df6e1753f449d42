// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_LAZY_ZERO_H_
#define SNF_BASE_LAZY_ZERO_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace snf {

// The size of the blocks that ZeroLazily compares, in bytes.
inline constexpr size_t kLazyZeroBytes = 1'024;

// Zeroes bytes, but skips blocks full of zeroes: pages of a LazyArray without a
// write cost no memory. Budget: ≤ 0.1 ns a byte.
inline void ZeroLazily(std::span<std::byte> bytes) {
  while (bytes.size() >= kLazyZeroBytes) {
    const std::span<std::byte> block = bytes.first(kLazyZeroBytes);
    std::byte any{0};
    for (const std::byte one : block) any |= one;
    if (any != std::byte{0}) std::ranges::fill(block, std::byte{0});
    bytes = bytes.subspan(kLazyZeroBytes);
  }
  std::ranges::fill(bytes, std::byte{0});
}

}  // namespace snf

#endif  // SNF_BASE_LAZY_ZERO_H_
