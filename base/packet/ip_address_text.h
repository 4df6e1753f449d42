// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_IP_ADDRESS_TEXT_H_
#define SNF_BASE_PACKET_IP_ADDRESS_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/packet/ip_address.h"

namespace snf {

// Reads "10.0.0.1" and returns it in the mapped form, or nothing if the text is
// anything else.
std::optional<IpAddress> ParseIpv4(std::string_view text);
// Reads "2001:db8::1". Returns nothing if the text is no IPv6 address.
std::optional<IpAddress> ParseIpv6(std::string_view text);

// Writes the last four bytes as an IPv4 address.
std::string Ipv4Text(const IpAddress& address);
// Writes an IPv6 address, compressed as RFC 5952 wants it, and a mapped address
// as "::ffff:10.0.0.1".
std::string Ipv6Text(const IpAddress& address);

}  // namespace snf

#endif  // SNF_BASE_PACKET_IP_ADDRESS_TEXT_H_
