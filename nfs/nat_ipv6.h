// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_IPV6_H_
#define SNF_NFS_NAT_IPV6_H_

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/tunnels/ip_translation.h"
#include "nfs/nat_packet.h"
#include "runtime/sdk/packet.h"

namespace snf {

// Theory of operation. NAT64 (RFC 6146) is the NAT of IPv4 between two
// translations of the IP header (RFC 7915). A host of IPv6 has a stand-in, an
// address of 240.0.0.0/4, which no packet may have: with it the host's packets
// are like packets of IPv4, and a mapping whose inside address is a
// stand-in is one of IPv6.
//
// Example: [2001:db8::1]:5000 sends UDP to [64:ff9b::192.0.2.9]:53. The packet
// becomes one from 243.1.2.3:5000 to 192.0.2.9:53, and then one from the
// mapping's external end, 198.51.100.1:5000. The answer to that end becomes one
// to 243.1.2.3:5000, and then one from [64:ff9b::192.0.2.9]:53 to
// [2001:db8::1]:5000.

// Returns the stand-in of an address. Two hosts may have the same; they then
// share host_ports and, if pooling is paired, the external address.
be32 StandInOf(const IpAddress& address);
constexpr bool IsStandIn(be32 address) { return address.host() >> 28 == 0xf; }

// Returns true if the packet is of IPv6 and goes to the prefix.
bool GoesTo(const Ipv4InIpv6& prefix, const Packet& packet);

// Fills in the view of a packet that goes to the prefix, as if it came from the
// stand-in, or returns why it is not translated. Of an ICMPv6 error, only
// is_icmp_error is set.
NatDrop ReadIpv6(const Ipv4InIpv6& prefix, const Packet& packet, NatView& view);

// Returns the source of a packet of IPv6.
IpAddress Ipv6SourceOf(const Packet& packet);

// Returns why a packet could not be translated; kNone if it was.
NatDrop DropOf(PacketResize outcome);

}  // namespace snf

#endif  // SNF_NFS_NAT_IPV6_H_
