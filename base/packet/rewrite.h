// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_REWRITE_H_
#define SNF_BASE_PACKET_REWRITE_H_

#include <cstddef>
#include <span>

#include "base/byte_order.h"
#include "base/packet/packet_parser.h"

namespace snf {

// Rewrite one end of an IPv4 packet, in place, as a translator of addresses
// does: the address, and of TCP and UDP the port, of an ICMP query the
// identifier. Of an ICMP error the packet that it quotes goes the other way, so
// its other end is rewritten too: with the source the quoted destination, and
// so on (RFC 5508 §4.2, RFC 3022 §4.3).
//
// Checksums are updated incrementally (RFC 1624): they are as right or as wrong
// as before, and a UDP checksum of 0 stays 0. Of a later fragment, and of other
// protocols, only the address is rewritten. What was cut off by a snap length,
// or does not belong to the IP packet, is not touched: a checksum that was not
// captured is not there to be updated. No IPv4: nothing happens. Budget:
// ≤ 25 ns, of an ICMP error ≤ 100 ns.
void RewriteSource(std::span<std::byte> frame, const ParsedPacket& headers,
                   be32 address, be16 port);
void RewriteDestination(std::span<std::byte> frame, const ParsedPacket& headers,
                        be32 address, be16 port);

}  // namespace snf

#endif  // SNF_BASE_PACKET_REWRITE_H_
