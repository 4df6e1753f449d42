// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_IP_ADDRESS_TEXT_H_
#define SNF_BASE_PACKET_IP_ADDRESS_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/packet/ip_address.h"

namespace snf {

// "10.0.0.1", in the mapped form; nothing where the text is anything else.
std::optional<IpAddress> ParseIpv4(std::string_view text);
// "2001:db8::1".
std::optional<IpAddress> ParseIpv6(std::string_view text);

// Of the last four bytes.
std::string Ipv4Text(const IpAddress& address);
// Compressed as RFC 5952 wants it; mapped addresses as "::ffff:10.0.0.1".
std::string Ipv6Text(const IpAddress& address);

}  // namespace snf

#endif  // SNF_BASE_PACKET_IP_ADDRESS_TEXT_H_
