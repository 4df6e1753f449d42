// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/stream/tcp_segment.h"

#include <algorithm>

#include "base/packet/headers.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;

// Returns the end of the IP packet as its own length says, from the frame's
// first byte on; 0 if it says nothing.
uint32_t StatedEnd(Bytes frame, const ParsedPacket& headers) {
  if (headers.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<const std::byte>::At(frame, headers.l3_offset);
    if (!ip || ip.total_bytes() == 0) return 0;
    return uint32_t{headers.l3_offset} + ip.total_bytes();
  }
  const auto ip = Ipv6Header<const std::byte>::At(frame, headers.l3_offset);
  if (!ip || ip.payload_bytes() == 0) return 0;
  return uint32_t{headers.l3_offset} +
         static_cast<uint32_t>(Ipv6Header<const std::byte>::kBytes) +
         ip.payload_bytes();
}

}  // namespace

std::optional<TcpSegment> TcpSegmentOf(Bytes frame, const ParsedPacket& headers,
                                       uint32_t original_length) {
  if (!headers.has_ip() || headers.l4_protocol != IpProtocol::kTcp ||
      headers.fragment != Fragment::kNone ||
      headers.result != ParseResult::kComplete) {
    return std::nullopt;
  }
  const Bytes packet = frame.first(headers.end_offset);
  const auto tcp = TcpHeader<const std::byte>::At(packet, headers.l4_offset);
  if (!tcp) return std::nullopt;
  TcpSegment segment = {.sequence = tcp.sequence(),
                        .acknowledgement = tcp.acknowledgement(),
                        .flags = tcp.flags(),
                        .data = packet.subspan(headers.payload_offset),
                        .data_bytes = 0};
  const uint32_t stated = StatedEnd(frame, headers);
  const uint32_t end = stated != 0 ? stated : original_length;
  segment.data_bytes =
      std::max(headers.end_offset, end) - headers.payload_offset;
  return segment;
}

}  // namespace snf
