// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_LINK_REVERSAL_H_
#define SNF_BASE_PACKET_LINK_REVERSAL_H_

#include <cstddef>
#include <optional>
#include <span>

#include "base/packet/link_type.h"
#include "base/packet/packet_parser.h"

namespace snf {

// The longest link header that ReverseLinkHeader writes.
inline constexpr size_t kMaxReversedLinkBytes = 36;

// Writes the link header of an answer to the packet in `frame`: its own, tags
// included, with Ethernet's addresses exchanged. Returns its length. Returns
// nothing, and `to` holds anything, if the header does not serve for the way
// back: a group address, or framing other than the link type and VLAN tags.
// `to` has kMaxReversedLinkBytes or more.
std::optional<size_t> ReverseLinkHeader(LinkType link,
                                        std::span<const std::byte> frame,
                                        const ParsedPacket& headers,
                                        std::span<std::byte> to);

}  // namespace snf

#endif  // SNF_BASE_PACKET_LINK_REVERSAL_H_
