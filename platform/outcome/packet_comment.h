// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_PACKET_COMMENT_H_
#define SNF_PLATFORM_OUTCOME_PACKET_COMMENT_H_

#include <array>
#include <string_view>

#include "platform/run/released_packet.h"

namespace snf {

// Holds any comment; a longer one is cut.
using CommentRoom = std::array<char, 256>;

// Returns how a packet came to its end, in words of the form key=value; the
// text lies in `room`. `reason` tells why the packet was dropped; "": it left.
//
//   unit=3 flowlet=12 clock=345 latency_ns=119212
//   dropped=unit_queue_full latency_ns=0
//
// `latency_ns` counts from the controller; `generated` marks a packet that an
// NF made, `passed_through` one without a flow. Unknown words are left out.
std::string_view CommentOf(const PacketRoute& route, std::string_view reason,
                           CommentRoom& room);

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_PACKET_COMMENT_H_
