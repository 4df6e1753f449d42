// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_SOCKETS_PACKET_QUEUE_H_
#define SNF_PLATFORM_PORTS_SOCKETS_PACKET_QUEUE_H_

#include <linux/filter.h>
#include <linux/if_packet.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_order.h"
#include "base/time.h"
#include "platform/ports/frames/frame_offload.h"
#include "platform/ports/frames/packet_ring.h"
#include "platform/ports/interface/network_interface.h"

namespace snf {

// A packet socket that receives, with its ring: all frames of an interface, or
// the frames of some flows, if several queues share the interface
// (PACKET_FANOUT of packet(7)).
//
// Theory of operation. The kernel hashes the addresses and ports of a frame, in
// an order that is the same for both directions, and the hash chooses the
// queue. So each flow has one queue, and keeps its order. A later fragment has
// no ports; so all fragments go by their addresses alone, and perhaps to
// another queue than the flow's whole packets.
//
// A queue that has not yet joined the others would get all frames: so no queue
// admits a frame before Admit.
//
// Owner-thread only.
class PacketQueue {
 public:
  // The kernel's memory for long frames, of all queues of a port.
  static constexpr int kReceiveBytes = 64 << 20;
  // `most_bytes`: of the longest frame, without a tag that the kernel took out.
  explicit PacketQueue(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Opens a socket that hears all frames of the interface, for any address, but
  // admits none. Slots of the ring take frames of `frame_bytes`. `queues`, of
  // the port, share PacketRing::kMostBytes and kReceiveBytes equally. Returns
  // null if it can, else what failed, with errno.
  const char* Open(int interface, size_t frame_bytes, uint32_t queues);
  // Takes a socket over that another process has opened, at that slot of its
  // ring. Returns false, with errno, if it cannot.
  bool Adopt(Descriptor socket, size_t ring_bytes, size_t slot_bytes,
             size_t next_slot);
  // Shares the interface's frames with the queues of a group: begins one if
  // `group` is nothing, and sets it. Returns false, with errno, if it cannot.
  bool Join(std::optional<uint16_t>& group);
  // Admits the frames that the program admits, or all if it is empty. Returns
  // false, with errno, if it cannot. Call it after Join.
  bool Admit(std::span<const sock_filter> program);
  // Admits no more frames. Returns false, with errno, if it cannot.
  bool AdmitNone();

  bool is_open() const { return socket_.is_open(); }
  int descriptor() const { return socket_.number(); }
  const PacketRing& ring() const { return ring_; }

  // Returns the slot of the next frame; null if there is none.
  tpacket2_hdr* Next() const { return ring_.Next(); }
  // Gives the slot of Next() back to the kernel.
  void Release() { ring_.Release(); }
  // When the kernel took the frame, by the time of day.
  static Instant TimeOf(const tpacket2_hdr& slot) {
    return {int64_t{slot.tp_sec} * 1'000'000'000 + slot.tp_nsec};
  }

  enum class Read : uint8_t {
    kFrame,
    kDropped,  // the kernel had no room for the whole of it
    kRefused,  // it is no frame, or longer than one can be
    kFailed,   // the interface is down or gone; errno says which
  };
  // A frame as a wire would have carried it, with its VLAN tag.
  struct Frame {
    std::span<std::byte> bytes;
    FrameOffload offload;
    bool has_tag = false;
  };
  // Reads the frame of a slot, in place or, if it is longer than a slot, by a
  // system call. Its bytes are valid until Release, or the next call.
  Read ReadFrame(tpacket2_hdr& slot, Frame& frame);

  // Returns the frames that the kernel dropped since the last call.
  uint64_t TakeDrops() const;
  // Returns the error that the kernel noted since the last call; 0: none.
  int TakeError() const;

 private:
  struct Whole {
    OffloadHeader offload;
    std::span<std::byte> frame;
  };
  static constexpr size_t kTagBytes = 4;

  Read ReadWhole(tpacket2_hdr& slot, Whole& whole);

  const size_t most_bytes_;
  Descriptor socket_;
  PacketRing ring_;
  bool is_shared_ = false;
  std::unique_ptr<std::byte[]> long_room_;  // for a frame that fits in no slot
};

// Returns true if the error means that the interface is down or gone.
bool IsOfInterface(int error);

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_SOCKETS_PACKET_QUEUE_H_
