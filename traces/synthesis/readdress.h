// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_READDRESS_H_
#define SNF_TRACES_SYNTHESIS_READDRESS_H_

#include <array>
#include <cstddef>
#include <span>

#include "base/packet/ip_address.h"
#include "base/packet/packet_parser.h"

namespace snf {

// The two addresses `from`, which become the two addresses `to`.
struct AddressMap {
  std::array<IpAddress, 2> from;
  std::array<IpAddress, 2> to;
};

// Replaces the addresses of a packet's IP header, and of the packet that an
// ICMP error quotes, if the map has them; others stay. Checksums of IPv4, TCP,
// UDP and ICMPv6 are updated incrementally (RFC 1624), hence stay as right or
// as wrong as they were, also if the rest of the packet was not captured.
// `packet` is the result of Parse for `frame`, and has_ip(). Budget: ≤ 40 ns.
void Readdress(std::span<std::byte> frame, const ParsedPacket& packet,
               const AddressMap& map);

// Sets all checksums that can be computed from the frame to their right values:
// that of an IPv4 header always, those of TCP, UDP, ICMP and ICMPv6 if the
// packet is complete and in one piece. A UDP checksum of 0 over IPv4 stays.
void FillChecksums(std::span<std::byte> frame, const ParsedPacket& packet);

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_READDRESS_H_
