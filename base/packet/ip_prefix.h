// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_IP_PREFIX_H_
#define SNF_BASE_PACKET_IP_PREFIX_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/packet/ip_address.h"

namespace snf {

// An address prefix: `length` bits of 128 (an IPv4 /n is /(96 + n)). Bits
// behind the length are 0.
struct IpPrefix {
  IpAddress address;
  uint8_t length = 0;

  // Returns the prefix of this length, of 128 bits, that contains the address.
  static IpPrefix Of(const IpAddress& address, uint8_t length);
  bool Contains(const IpAddress& other) const;
  // True if the prefix contains only mapped addresses, so that it is one of
  // IPv4.
  bool is_ipv4() const {
    return length >= 96 && address == IpAddress::FromIpv4(address.ipv4());
  }
  friend bool operator==(const IpPrefix&, const IpPrefix&) = default;
};

// Reads address prefixes of IPv4 and IPv6 with commas between them, as
// "10.0.0.0/8,2001:db8::/32"; an address without a length is one host. A part
// that cannot be read, or that has bits behind its length, gives
// InvalidArgument, which quotes it.
absl::StatusOr<std::vector<IpPrefix>> ParsePrefixes(std::string_view text);

// Writes the shortest text that ParsePrefixes reads as these prefixes; "" for
// none.
std::string FormatPrefixes(std::span<const IpPrefix> prefixes);

}  // namespace snf

#endif  // SNF_BASE_PACKET_IP_PREFIX_H_
