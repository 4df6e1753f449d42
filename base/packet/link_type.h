// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_LINK_TYPE_H_
#define SNF_BASE_PACKET_LINK_TYPE_H_

#include <cstddef>
#include <cstdint>

namespace snf {

// The framing of a captured packet. The values are SNF's own and dense; the
// capture reader maps the LINKTYPE_ numbers of pcap and pcapng onto them
// (www.tcpdump.org/linktypes.html).
enum class LinkType : uint8_t {
  kEthernet,   // LINKTYPE 1
  kRawIp,      // 101, 12, 14, 228 (IPv4), 229 (IPv6): by the version nibble
  kLinuxSll,   // 113: 16-byte cooked header, protocol at offset 14
  kLinuxSll2,  // 276: 20-byte cooked header, protocol at offset 0
  kNull,       // 0: 4-byte address family in the recording host's byte order
  kLoop,       // 108: the same in network order
  kPpp,        // 9, 50: PPP, with or without HDLC's address and control
  kNflog,      // 239: 4-byte header and attributes, one of which is the packet
};
inline constexpr size_t kLinkTypes = 8;

// Returns true if the value, which may be from another process, is one of the
// enumerators.
constexpr bool IsLinkType(LinkType link) {
  return static_cast<size_t>(link) < kLinkTypes;
}

}  // namespace snf

#endif  // SNF_BASE_PACKET_LINK_TYPE_H_
