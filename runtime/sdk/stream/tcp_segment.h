// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_STREAM_TCP_SEGMENT_H_
#define SNF_RUNTIME_SDK_STREAM_TCP_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/packet/packet_parser.h"

namespace snf {

// A TCP segment (RFC 9293). The data borrow the packet's bytes.
struct TcpSegment {
  uint32_t sequence = 0;  // of the SYN, or of the first byte
  uint32_t acknowledgement = 0;
  uint8_t flags = 0;                     // TcpHeader::kSyn …
  std::span<const std::byte> data = {};  // as captured
  uint32_t data_bytes = 0;               // as sent, ≥ data.size()

  bool has(uint8_t flag) const { return (flags & flag) != 0; }
};

// Returns the segment of a packet, or nothing if it holds no TCP, if its header
// is not whole, or if it is a fragment. `original_length` is the length of the
// frame on the wire.
//
// The IP header's length says where the data end, so bytes that pad a frame are
// no data. A length of 0 (packet_parser.h) reaches to the frame's end.
std::optional<TcpSegment> TcpSegmentOf(std::span<const std::byte> frame,
                                       const ParsedPacket& headers,
                                       uint32_t original_length);

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_STREAM_TCP_SEGMENT_H_
