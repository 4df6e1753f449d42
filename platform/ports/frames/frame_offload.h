// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_FRAMES_FRAME_OFFLOAD_H_
#define SNF_PLATFORM_PORTS_FRAMES_FRAME_OFFLOAD_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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

// The most packets of a frame that stays whole until it leaves. A process of
// units can write the size of these packets: it cannot make a flood of them.
inline constexpr uint32_t kMostMergedPackets = 128;

// The same for a frame that has stayed whole, to be cut into packets of
// `segment_bytes`, which are not 0, whatever its TCP or UDP checksum is.
// Returns 0 as well if there would be more than kMostMergedPackets.
size_t CutFrame(std::span<const std::byte> frame, uint16_t segment_bytes,
                absl::FunctionRef<void(std::span<const std::byte>)> take);

// The kernel's header in front of a frame: virtio_net_hdr of
// <linux/virtio_net.h>, which does not compile as C++. Numbers are in the
// machine's order.
struct OffloadHeader {
  static constexpr uint8_t kNeedsChecksum = 1;  // in flags
  static constexpr uint8_t kNone = 0, kTcpIpv4 = 1, kTcpIpv6 = 4, kUdp = 5;
  static constexpr uint8_t kCongestion = 0x80;  // beside one of these
  uint8_t flags;
  uint8_t segments;
  uint16_t header_bytes;
  uint16_t segment_bytes;
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(OffloadHeader) == 10);

// Reads the header of a frame into which the reader has put `tag_bytes` of VLAN
// tags, which the header does not know. Returns nothing for work that
// FinishFrame does not support.
std::optional<FrameOffload> ReadOffload(const OffloadHeader& header,
                                        size_t tag_bytes);

// The longest headers of TCP or UDP in a frame that is sent whole.
inline constexpr size_t kMostMergedHeaders = 256;

// Returns true if a frame of several packets can be sent whole later: it has no
// VLAN tags, no longer headers, no more packets, and nothing behind the IP
// packet.
bool CanStayWhole(std::span<const std::byte> frame,
                  const FrameOffload& offload);

// Prepares a frame of several packets to be sent whole. Copies its headers, up
// to the payload, into `headers`, with the sum of the pseudo header as
// checksum, and describes the frame for the kernel. Returns the bytes of the
// headers; 0 if the frame cannot be sent whole (CanStayWhole).
size_t DescribeMerged(std::span<const std::byte> frame, uint16_t segment_bytes,
                      std::span<std::byte, kMostMergedHeaders> headers,
                      OffloadHeader& described);

// A frame of several packets as one call of writev or sendmsg takes it: the
// kernel's header, the frame's headers, and the payload in the caller's memory.
class MergedFrame {
 public:
  // Returns false if the frame cannot be sent whole (CanStayWhole), or its
  // packets would be longer than `most_bytes`.
  bool Describe(std::span<const std::byte> frame, uint16_t segment_bytes,
                size_t most_bytes);
  // Valid as long as the frame and this object, after Describe.
  std::span<iovec> parts() { return parts_; }

 private:
  OffloadHeader described_{};
  std::array<std::byte, kMostMergedHeaders> headers_;
  std::array<iovec, 3> parts_{};
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_FRAMES_FRAME_OFFLOAD_H_
