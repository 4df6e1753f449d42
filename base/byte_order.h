// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_BYTE_ORDER_H_
#define SNF_BASE_BYTE_ORDER_H_

#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace snf {

// Returns `value` with its bytes swapped if the machine is little-endian, else
// unchanged. The function is its own inverse.
template <std::unsigned_integral T>
constexpr T SwapToBigEndian(T value) {
  static_assert(std::endian::native == std::endian::little ||
                std::endian::native == std::endian::big);
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}

// An integer whose bytes stand in network order. It compares by its value and
// does not convert or add by itself: `host()` gives the number.
template <std::unsigned_integral T>
class BigEndian {
 public:
  constexpr BigEndian() = default;
  constexpr explicit BigEndian(T host_value)
      : raw_(SwapToBigEndian(host_value)) {}

  constexpr T host() const { return SwapToBigEndian(raw_); }

  friend constexpr bool operator==(BigEndian, BigEndian) = default;
  friend constexpr auto operator<=>(BigEndian a, BigEndian b) {
    return a.host() <=> b.host();
  }

 private:
  T raw_ = 0;
};

// Network order exists in this code base only as these two types.
using be16 = BigEndian<uint16_t>;
using be32 = BigEndian<uint32_t>;
static_assert(sizeof(be16) == 2 && sizeof(be32) == 4);

// Load and store at any alignment. The caller checks the bounds before.
template <typename T>
T LoadAs(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline be16 LoadBe16(const std::byte* from) { return LoadAs<be16>(from); }
inline be32 LoadBe32(const std::byte* from) { return LoadAs<be32>(from); }
inline void Store(std::byte* to, be16 value) {
  std::memcpy(to, &value, sizeof value);
}
inline void Store(std::byte* to, be32 value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace snf

#endif  // SNF_BASE_BYTE_ORDER_H_
