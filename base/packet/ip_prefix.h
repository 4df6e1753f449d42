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

  bool Contains(const IpAddress& other) const;
  // Whether it holds mapped addresses only.
  bool is_ipv4() const {
    return length >= 96 && address == IpAddress::FromIpv4(address.ipv4());
  }
  friend bool operator==(const IpPrefix&, const IpPrefix&) = default;
};

// Address prefixes with commas between them, IPv4 and IPv6, as
// "10.0.0.0/8,2001:db8::/32"; an address without a length is one host. What
// cannot be read, or has bits behind its length, is InvalidArgument with that
// part of the text.
absl::StatusOr<std::vector<IpPrefix>> ParsePrefixes(std::string_view text);

// The shortest text that ParsePrefixes reads as these; "" for none.
std::string FormatPrefixes(std::span<const IpPrefix> prefixes);

}  // namespace snf

#endif  // SNF_BASE_PACKET_IP_PREFIX_H_
