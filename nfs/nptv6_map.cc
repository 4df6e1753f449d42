// SPDX-License-Identifier: Apache-2.0
#include "nfs/nptv6_map.h"

#include <algorithm>

#include "base/byte_order.h"

namespace snf {
namespace {

constexpr size_t kWords = 8;
constexpr uint16_t kMinusZero = 0xffff;

uint16_t WordAt(const IpAddress& address, size_t word) {
  return LoadBe16(&address.bytes[word * 2]).host();
}

// Adds in one's complement.
uint16_t Sum(uint32_t a, uint32_t b) {
  const uint32_t sum = a + b;
  return static_cast<uint16_t>((sum & 0xffff) + (sum >> 16));
}

uint16_t SumOf(const IpPrefix& prefix) {
  uint16_t sum = 0;
  for (size_t word = 0; word < kWords; ++word) {
    sum = Sum(sum, WordAt(prefix.address, word));
  }
  return sum;
}

}  // namespace

std::optional<Nptv6Map> Nptv6Map::Of(const IpPrefix& inside,
                                     const IpPrefix& outside) {
  const uint8_t bits = std::max(inside.length, outside.length);
  const auto fits = [](const IpPrefix& prefix) {
    return prefix.length > 0 && prefix.length <= kMostBits;
  };
  if (!fits(inside) || !fits(outside)) return std::nullopt;
  const Nptv6Map map({inside.address, bits}, {outside.address, bits});
  if (map.inside_ == map.outside_) return std::nullopt;
  return map;
}

Nptv6Map::Nptv6Map(const IpPrefix& inside, const IpPrefix& outside)
    : inside_(inside),
      outside_(outside),
      adjustment_(Sum(SumOf(inside), static_cast<uint16_t>(~SumOf(outside)))) {}

std::optional<IpAddress> Nptv6Map::Map(const IpAddress& address,
                                       const IpPrefix& to,
                                       uint16_t adjustment) {
  constexpr size_t kSubnetWord = 3, kFirstIdWord = 4;
  size_t word = kSubnetWord;
  if (to.length > kSubnetWord * 16) {
    word = kFirstIdWord;
    while (word < kWords && WordAt(address, word) == kMinusZero) ++word;
  }
  if (word == kWords || WordAt(address, word) == kMinusZero) {
    return std::nullopt;
  }
  IpAddress mapped = address;
  const size_t whole = to.length / 8u;
  std::copy_n(to.address.bytes.begin(), whole, mapped.bytes.begin());
  if (const unsigned rest = to.length % 8u; rest != 0) {
    const auto mask = static_cast<std::byte>(0xff << (8 - rest) & 0xff);
    mapped.bytes[whole] =
        (to.address.bytes[whole] & mask) | (address.bytes[whole] & ~mask);
  }
  const uint16_t sum = Sum(WordAt(address, word), adjustment);
  Store(&mapped.bytes[word * 2], be16(sum == kMinusZero ? uint16_t{0} : sum));
  return mapped;
}

}  // namespace snf
