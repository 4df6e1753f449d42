// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_IP_ADDRESS_H_
#define SNF_BASE_PACKET_IP_ADDRESS_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/byte_order.h"

namespace snf {

// An IPv6 address, or an IPv4 address in the mapped form ::ffff:a.b.c.d (RFC
// 4291 §2.5.5.2), as 16 bytes in network order. One form for both, so that
// prefixes match alike: the IPv4 prefix /n is the prefix /(96 + n). A real IPv6
// packet may carry a mapped address too, so the bytes alone do not tell the
// version: code that needs the version stores it beside the address
// (flow_key.h).
struct IpAddress {
  std::array<std::byte, 16> bytes{};

  static IpAddress FromIpv4(be32 address) {
    const uint64_t low =
        SwapToBigEndian(uint64_t{0xffff} << 32 | address.host());
    IpAddress mapped;
    std::memcpy(mapped.bytes.data() + 8, &low, sizeof low);
    return mapped;
  }

  // The last four bytes, which are the IPv4 address if this is one.
  be32 ipv4() const { return LoadBe32(bytes.data() + 12); }

  friend constexpr bool operator==(const IpAddress&,
                                   const IpAddress&) = default;
  // Orders addresses as numbers, the same on every machine.
  friend std::strong_ordering operator<=>(const IpAddress& a,
                                          const IpAddress& b) {
    return std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) <=> 0;
  }
};
static_assert(sizeof(IpAddress) == 16);

}  // namespace snf

#endif  // SNF_BASE_PACKET_IP_ADDRESS_H_
