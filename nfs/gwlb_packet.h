// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_GWLB_PACKET_H_
#define SNF_NFS_GWLB_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/packet_parser.h"
#include "base/tunnels/gwlb_header.h"
#include "nfs/gwlb_options.h"
#include "runtime/sdk/packet.h"

namespace snf {

// Return the addresses of an IPv4 packet; of others, no address.
IpAddress Ipv4SourceOf(std::span<const std::byte> frame,
                       const ParsedPacket& headers);
IpAddress Ipv4DestinationOf(std::span<const std::byte> frame,
                            const ParsedPacket& headers);
// Returns true if the packet is for a group of hosts, or for all of a link.
bool IsForGroup(std::span<const std::byte> frame, const ParsedPacket& headers);
// Returns true if the packet is UDP to the port of GENEVE.
bool IsGeneve(std::span<const std::byte> frame, const ParsedPacket& headers);

// The flags of a TCP segment.
struct GwlbTcp {
  bool is_tcp = false;  // with flags
  bool is_syn = false;  // that begins a connection
};
GwlbTcp TcpOf(std::span<const std::byte> frame, const ParsedPacket& headers);

// A packet that an appliance has sent back, behind IPv4 and UDP headers.
struct GwlbReturned {
  GwlbRefusal refusal = GwlbRefusal::kNone;
  GwlbMetadata metadata{};
  EtherType protocol{};
  uint32_t outer_bytes = 0;  // in front of the inner packet, from IPv4 on
  std::span<const std::byte> inner{};
};
GwlbReturned ReadReturned(std::span<const std::byte> frame,
                          const ParsedPacket& headers);

// Returns true if an inner packet, whose headers these are, is of that version
// of IP, and as long as it says, if `is_whole`.
bool IsInner(std::span<const std::byte> inner, const ParsedPacket& headers,
             EtherType protocol, bool is_whole);

// The headers that bring a packet to an appliance: IPv4 with the packet's
// traffic class, DF and no identification (RFC 6864), UDP with a source port of
// the flow and checksum 0 (RFC 8926 §4.3.1), and GENEVE.
class GwlbOuterHeaders {
 public:
  GwlbOuterHeaders(const IpAddress& balancer, const IpAddress& appliance,
                   const GwlbMetadata& metadata, const Packet& packet);
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::array<std::byte, GwlbOptions::kOuterBytes> bytes_{};
};

}  // namespace snf

#endif  // SNF_NFS_GWLB_PACKET_H_
