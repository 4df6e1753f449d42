// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_PACKET_FEED_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_PACKET_FEED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/time.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "traces/capture_reader.h"

namespace snf {

// A queue of packets, with copies of their bytes, from a thread that dispatches
// them to one that runs a controller.
//
// Theory of operation. Packets lie in a ring of bytes, in order, each behind
// its metadata and in one piece: where the end of the ring has no room for one,
// it begins anew at the start. What is pushed can be taken after Flush, or with
// the kBurst-th packet since the last one. The producer waits for half of the
// ring, so that the two threads do not wake each other for every packet.
//
// Worked example: two packets of 60 bytes take 128 bytes each. Push twice and
// Flush; Take(32, f) calls f twice, and gives 256 bytes back.
//
// One producer and one consumer, each owner-thread only. No call allocates.
class PacketFeed {
 public:
  // Longer packets are cut off here. No pool has a buffer for such a packet, so
  // its controller drops it (DropReason::kPacketTooLarge).
  static constexpr size_t kMostBytes = size_t{BufferPool::kMaxPacketBytes} + 1;
  static constexpr uint32_t kBurst = 32;
  // Packets that may wait here.
  static constexpr uint64_t kMostPackets = 1'024;

  PacketFeed();

  // --- The producer. ---

  // Returns false, and does nothing, if there is no room.
  bool Push(const CapturedPacket& packet);
  void Flush();
  // Sleeps until there is much room, for at most `most`.
  void WaitForRoom(Nanos most);
  // Sleeps until all pushed packets are at their end (Settle), for at most
  // `most`. Returns true if they are.
  bool WaitUntilSettled(Nanos most);
  // Flushes. No more packets come.
  void Close();
  uint64_t pushed() const { return pushed_; }

  // --- The consumer. ---

  // Calls take(packet) for at most `most` packets, and returns their number.
  // The bytes are valid during the call.
  template <typename TakeOne>
  uint32_t Take(uint32_t most, const TakeOne& take) {
    const uint64_t written = written_.load(std::memory_order_acquire);
    uint32_t taken = 0;
    while (taken < most && read_ != written) {
      const Head* const head = NextHead();
      if (head == nullptr) continue;
      CapturedPacket packet = head->packet;
      packet.bytes = {reinterpret_cast<const std::byte*>(head + 1),
                      head->bytes};
      take(packet);
      read_ += SizeOf(head->bytes);
      ++taken;
    }
    if (taken > 0) GiveBack(taken);
    return taken;
  }
  uint64_t taken() const { return taken_packets_; }
  // Returns true once all packets were taken and none will come.
  bool is_over() const {
    return is_closed_.load(std::memory_order_acquire) &&
           read_ == written_.load(std::memory_order_acquire);
  }
  // Sleeps until a packet comes, for at most `most`.
  void Wait(Nanos most);
  // Tells the producer that all packets taken are at their end.
  void Settle();

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  struct alignas(64) Head {
    CapturedPacket packet;  // without its bytes
    uint32_t bytes;         // kSkip: the next packet is at the ring's start
  };
  static_assert(sizeof(Head) == 64);
  static constexpr uint32_t kSkip = ~0u;
  static constexpr size_t SizeOf(size_t bytes) {
    return (sizeof(Head) + bytes + 63) / 64 * 64;
  }

  Head* HeadAt(uint64_t position) {
    return reinterpret_cast<Head*>(&memory_[position % kBytes]);
  }
  // Returns null if that was the end of the ring, which is skipped.
  const Head* NextHead() {
    const Head* const head = HeadAt(read_);
    if (head->bytes != kSkip) [[likely]]
      return head;
    read_ += kBytes - read_ % kBytes;
    return nullptr;
  }
  bool HasRoom(size_t size);
  void GiveBack(uint32_t packets);

  struct FreeAligned {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], FreeAligned> memory_;

  // The producer's.
  alignas(128) uint64_t next_ = 0;
  uint64_t pushed_ = 0;
  uint64_t known_given_back_ = 0;
  uint64_t known_taken_ = 0;
  uint32_t unflushed_ = 0;
  // The consumer's.
  alignas(128) uint64_t read_ = 0;
  uint64_t taken_packets_ = 0;
  uint64_t settled_ = 0;

  // Each has one writer.
  alignas(128) std::atomic<uint64_t> written_{0};  // bytes, as what follows
  std::atomic<uint64_t> packets_written_{0};
  std::atomic<bool> is_closed_{false};
  alignas(128) std::atomic<uint64_t> given_back_{0};
  std::atomic<uint64_t> packets_taken_{0};
  std::atomic<uint64_t> packets_settled_{0};
  Doorbell producer_;
  Doorbell consumer_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_PACKET_FEED_H_
