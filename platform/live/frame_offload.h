// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_FRAME_OFFLOAD_H_
#define SNF_PLATFORM_LIVE_FRAME_OFFLOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace snf {

// Says what a sender has left to its network card, which was none: its frame
// came here over memory alone, as between the ends of a veth pair. Values are
// those of virtio_net_hdr (Virtual I/O Device 1.2, §5.1.6).
struct FrameOffload {
  // Where the bytes begin that the checksum is over, and where in these it
  // stands; so far there is the sum of the pseudo header. 0: it is complete.
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;
  // The frame is to be sent as packets with so many bytes of payload. 0: it is
  // a single one.
  uint16_t segment_bytes = 0;
};

// Does the card's part: makes of a frame, of Ethernet, the packets that a wire
// would have carried, as the Linux kernel does (Documentation/networking/
// segmentation-offloads.rst). Lengths, IPv4's numbers, TCP's sequence numbers
// and flags are those of each packet; checksums are complete.
//
// Example: a TCP frame with 3,000 bytes of payload, PSH, sequence 100 and
// segment_bytes = 1,448 makes packets with 1,448, 1,448 and 104 bytes, the
// sequences 100, 1,548 and 2,996, and PSH in the last.
//
// Calls take() for each packet, in order, valid during the call. The frame is
// written to. Returns how many packets there were; 0, and nothing was taken, if
// it cannot be done: what was left is neither an Internet checksum nor TCP or
// UDP to be split, or it is within a tunnel, or not within the frame.
size_t FinishFrame(std::span<std::byte> frame, const FrameOffload& offload,
                   absl::FunctionRef<void(std::span<const std::byte>)> take);

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_FRAME_OFFLOAD_H_
