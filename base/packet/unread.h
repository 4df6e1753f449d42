// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_UNREAD_H_
#define SNF_BASE_PACKET_UNREAD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packet/packet_parser.h"

namespace snf {

// The part of a frame that the parser did not reach, although a receiver may.
// An NF that filters or translates cannot do so for such a frame.
enum class Unread : uint8_t {
  kNothing,
  kType,               // a packet behind an unknown type
  kLink,               // behind too many tags or labels, or a link header cut
  kIp,                 // an IP header that is cut or contradicts itself
  kTooManyExtensions,  // behind kMaxIpv6Extensions
  kExtension,          // another header behind mobility, HIP or shim6
  // The ports are not there, or are a first fragment's whose header of layer 4
  // ends in another one (RFC 1858, RFC 7112), or a fragment of such a packet.
  kUpperHeader,
  // A later fragment overwrites the first one (RFC 1858 §3, RFC
  // 3128): TCP at offset 8, or from inside of the first fragment.
  kOverlap,
};

// Returns the unread part of a frame by its own bytes alone: the classifier
// adds the knowledge of its first fragment.
Unread UnreadOf(const ParsedPacket& packet);

// Returns true for solicitations and advertisements of routers and neighbours
// (RFC 4861 §4.1 to §4.4): ICMPv6 with a hop limit of 255, which no router has
// forwarded, right behind the IPv6 header.
bool IsNeighbourDiscovery(std::span<const std::byte> frame,
                          const ParsedPacket& packet);

}  // namespace snf

#endif  // SNF_BASE_PACKET_UNREAD_H_
