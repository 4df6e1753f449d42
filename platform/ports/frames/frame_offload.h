// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_FRAMES_FRAME_OFFLOAD_H_
#define SNF_PLATFORM_PORTS_FRAMES_FRAME_OFFLOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace snf {

// The work that a sender has left to its network card although there is none:
// its frame came over memory alone, as between the ends of a veth pair. Values
// as in virtio_net_hdr (Virtual I/O Device 1.2, §5.1.6).
struct FrameOffload {
  // Offset of the bytes that the checksum covers, and offset of the checksum
  // within these, which holds the sum of the pseudo header. 0: the checksum is
  // complete.
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;
  // Payload bytes of each packet that the frame is to be cut into. 0: the frame
  // is a single packet.
  uint16_t segment_bytes = 0;
};

// Does the card's part: makes of a frame, of Ethernet, the packets that a wire
// would have carried, as the Linux kernel does (Documentation/networking/
// segmentation-offloads.rst). Lengths, IPv4's numbers, TCP's sequence numbers
// and flags are set for each packet; checksums are complete.
//
// Example: a TCP frame with 3,000 bytes of payload, PSH, sequence 100 and
// segment_bytes = 1,448 makes packets with 1,448, 1,448 and 104 bytes, the
// sequences 100, 1,548 and 2,996, and PSH in the last.
//
// Calls take() for each packet, in order, valid during the call. The frame is
// written to. Returns the number of packets. Returns 0, without a call of
// take(), if the work is not supported: neither an Internet checksum nor TCP or
// UDP to be split, or within a tunnel, or not within the frame.
size_t FinishFrame(std::span<std::byte> frame, const FrameOffload& offload,
                   absl::FunctionRef<void(std::span<const std::byte>)> take);

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_FRAMES_FRAME_OFFLOAD_H_
