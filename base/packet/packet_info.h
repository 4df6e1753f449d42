// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_PACKET_INFO_H_
#define SNF_BASE_PACKET_PACKET_INFO_H_

#include <cstdint>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_parser.h"
#include "base/time.h"

namespace snf {

// The side of an NF with two sides from which a packet comes
// (proto/decisions.md 15). kLogs is that of no packet: the buffer has a batch
// of an NF's log records, which leaves to logs (base/messages/log_batch.h).
enum class Side : uint8_t { kUnknown, kInside, kOutside, kLogs };

// The bytes by which an NF may let a packet grow. Buffers have room for them.
inline constexpr uint32_t kMaxPacketGrowth = 128;

// The description of a packet that lies in a buffer.
struct PacketInfo {
  Instant arrival;
  uint32_t length = 0;           // captured bytes, all of them in the buffer
  uint32_t original_length = 0;  // bytes on the wire, ≥ length
  ParsedPacket headers;          // offsets into the bytes
  LinkType link = LinkType::kEthernet;
  Side side = Side::kUnknown;
  // The end of the connection that is not part of the flow's key, for an NF
  // with two sides.
  be16 far_port{};
  IpAddress far_address{};

  // Returns false if the fields contradict each other, which happens if another
  // process wrote them. If true, the guarantees of ParsedPacket hold.
  bool IsSound() const {
    const ParsedPacket& h = headers;
    // All conditions nearly always hold: one branch costs less than eight.
    return (h.l3_offset <= h.l4_offset) & (h.l4_offset <= h.payload_offset) &
           (h.payload_offset <= h.end_offset) & (h.end_offset <= length) &
           (h.icmp_inner_offset <= h.end_offset) & IsLinkType(link) &
           (side <= Side::kOutside) & (h.l3 <= L3::kIpv6);
  }
};
static_assert(sizeof(PacketInfo) <= 64);

}  // namespace snf

#endif  // SNF_BASE_PACKET_PACKET_INFO_H_
