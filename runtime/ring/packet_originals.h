// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_PACKET_ORIGINALS_H_
#define SNF_RUNTIME_RING_PACKET_ORIGINALS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/ids.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {

// Memory in which a unit keeps the bytes of a packet as they came, before its
// NF may rewrite them: if the unit's process dies before its logger has the
// packet, another unit gets the packet as it came (proto/protocol.md F4). Each
// buffer of the controller's share, party 0, has a place of its own there.
//
// An original is that of a flow's clock, so nobody has to say that it is over:
// the next packet in the buffer has another. A process that dies while it keeps
// one has not changed the packet yet, and leaves a place without a clock.
//
// The memory is a region's, zeroed at first, and must outlive the object. A
// unit and, once its process has ended, a controller may use the same place.
class PacketOriginals {
 public:
  // Returns the bytes of memory that a share takes.
  static size_t BytesFor(const BufferPool::Options& share) {
    return FirstOf(share).back();
  }
  PacketOriginals(std::span<std::byte> memory, const BufferPool::Options& share)
      : memory_(memory.data()), first_(FirstOf(share)) {}

  // Keeps the bytes, unless those of this clock are kept. The handle is of the
  // share, and its buffer holds that many.
  void Keep(PacketHandle packet, FlowId flow, Clock clock,
            std::span<const std::byte> bytes) {
    std::byte* const place = PlaceOf(packet);
    Header& header = *reinterpret_cast<Header*>(place);
    if (header.Is(flow, clock)) return;
    header.clock.store(0, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!bytes.empty()) {
      std::memcpy(place + sizeof(Header), bytes.data(), bytes.size());
    }
    header.flow.store(value(flow), std::memory_order_relaxed);
    header.clock.store(value(clock), std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  // Brings the bytes back that are kept of this clock, if there are.
  void Restore(PacketHandle packet, FlowId flow, Clock clock,
               std::span<std::byte> bytes) const {
    const std::byte* const place = PlaceOf(packet);
    if (bytes.empty() ||
        !reinterpret_cast<const Header*>(place)->Is(flow, clock)) {
      return;
    }
    std::memcpy(bytes.data(), place + sizeof(Header), bytes.size());
  }

 private:
  static constexpr size_t kSizes = BufferPool::kBufferBytes.size();
  static constexpr int kSizeShift = 30;  // of a handle: BufferPool
  struct alignas(64) Header {
    std::atomic<uint64_t> flow;
    std::atomic<uint64_t> clock;  // 0: none is kept

    bool Is(FlowId of, Clock at) const {
      return clock.load(std::memory_order_acquire) == value(at) &&
             flow.load(std::memory_order_relaxed) == value(of);
    }
  };

  // Returns where the places of each size begin, and where all end.
  static std::array<size_t, kSizes + 1> FirstOf(
      const BufferPool::Options& share) {
    const std::array<uint32_t, kSizes> counts = {share.small, share.medium,
                                                 share.large};
    std::array<size_t, kSizes + 1> first{};
    for (size_t i = 0; i < kSizes; ++i) {
      first[i + 1] = first[i] + counts[i] * StrideOf(i);
    }
    return first;
  }
  static size_t StrideOf(size_t size) {
    return sizeof(Header) + BufferPool::kBufferBytes[size];
  }
  std::byte* PlaceOf(PacketHandle packet) const {
    const size_t size = value(packet) >> kSizeShift;
    const size_t index = value(packet) & ((uint32_t{1} << kSizeShift) - 1);
    return memory_ + first_[size] + index * StrideOf(size);
  }

  std::byte* memory_;
  std::array<size_t, kSizes + 1> first_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_PACKET_ORIGINALS_H_
