// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_REWRITE_H_
#define SNF_BASE_PACKET_REWRITE_H_

#include <cstddef>
#include <span>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/packet_parser.h"

namespace snf {

// Rewrite one end of an IPv4 packet, in place, as an address translator does:
// the address, and with it the port of TCP and UDP or the identifier of an ICMP
// query. The packet that an ICMP error quotes goes the other way, so its
// opposite end is rewritten too: the quoted destination with the source, and
// vice versa (RFC 5508 §4.2, RFC 3022 §4.3).
//
// Checksums are updated incrementally (RFC 1624): a wrong one stays as wrong as
// it was, and a UDP checksum of 0 stays 0. In a later fragment, and with other
// protocols, only the address is rewritten. Bytes behind a snap length, or
// outside the IP packet, are not touched: a checksum that was not captured is
// not updated. A frame without IPv4 stays as it is. Budget: ≤ 25 ns, for an
// ICMP error ≤ 100 ns.
//
// With an IpAddress, a packet of IPv6 is rewritten alike, ICMPv6 included, and
// one of IPv4 gets the address's last four bytes.
void RewriteSource(std::span<std::byte> frame, const ParsedPacket& headers,
                   be32 address, be16 port);
void RewriteDestination(std::span<std::byte> frame, const ParsedPacket& headers,
                        be32 address, be16 port);
void RewriteSource(std::span<std::byte> frame, const ParsedPacket& headers,
                   const IpAddress& address, be16 port);
void RewriteDestination(std::span<std::byte> frame, const ParsedPacket& headers,
                        const IpAddress& address, be16 port);

}  // namespace snf

#endif  // SNF_BASE_PACKET_REWRITE_H_
