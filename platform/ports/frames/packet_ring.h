// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_FRAMES_PACKET_RING_H_
#define SNF_PLATFORM_PORTS_FRAMES_PACKET_RING_H_

#include <linux/if_packet.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace snf {

// Memory that the kernel puts frames of a packet socket into, and that this
// process reads: a ring of slots, TPACKET_V2 of packet(7), which shows each
// frame at once. A frame that is longer than a slot is in the socket's queue,
// too (TP_STATUS_COPY). Owner-thread only.
class PacketRing {
 public:
  static constexpr size_t kMostBytes = 32 << 20;
  static constexpr size_t kLeastBytes = 1 << 20;

  PacketRing() = default;
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;
  ~PacketRing();

  // Gives the socket slots for frames of `frame_bytes`, Ethernet header
  // included: `most_bytes` in all, or fewer if memory is short, but at least
  // kLeastBytes. Call once, before the socket is bound. Returns false, with
  // errno, on failure.
  bool Open(int socket, size_t frame_bytes, size_t most_bytes);

  // Takes over a ring that another process has opened, from that slot on.
  // Returns false, with errno, if it cannot be.
  bool Adopt(int socket, size_t bytes, size_t slot_bytes, size_t next);
  size_t bytes() const { return memory_.size(); }
  size_t slot_bytes() const { return slot_bytes_; }
  size_t next_slot() const { return next_; }

  // Returns the next frame; null if there is none.
  tpacket2_hdr* Next() const;
  // Returns the bytes of a slot that were received.
  static std::span<std::byte> FrameOf(tpacket2_hdr& slot);
  // Gives the slot of Next() back to the kernel.
  void Release();

 private:
  tpacket2_hdr& slot(size_t i) const;

  std::span<std::byte> memory_;
  size_t slot_bytes_ = 0;
  size_t next_ = 0;  // slot
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_FRAMES_PACKET_RING_H_
