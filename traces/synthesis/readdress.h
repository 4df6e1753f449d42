// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_READDRESS_H_
#define SNF_TRACES_SYNTHESIS_READDRESS_H_

#include <array>
#include <cstddef>
#include <span>

#include "base/packet/ip_address.h"
#include "base/packet/packet_parser.h"

namespace snf {

// Which two addresses become which.
struct AddressMap {
  std::array<IpAddress, 2> from;
  std::array<IpAddress, 2> to;
};

// Replaces the addresses of a packet's IP header, and of the packet that an
// ICMP error quotes, where the map has them; others stay. Checksums of IPv4,
// TCP, UDP and ICMPv6 are updated incrementally (RFC 1624), hence are as right
// or as wrong as they were, also where the rest of the packet was not captured.
// `packet` is what Parse says of `frame`, and has_ip(). Budget: ≤ 40 ns.
void Readdress(std::span<std::byte> frame, const ParsedPacket& packet,
               const AddressMap& map);

// Sets the checksums that can be computed from what the frame holds to their
// right values: of an IPv4 header always, of TCP, UDP, ICMP and ICMPv6 where
// all of the packet is there in one piece. A UDP checksum of 0 over IPv4 stays.
void FillChecksums(std::span<std::byte> frame, const ParsedPacket& packet);

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_READDRESS_H_
