// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_SOCKETS_FRAME_SENDER_H_
#define SNF_PLATFORM_PORTS_SOCKETS_FRAME_SENDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "platform/ports/sockets/sending_socket.h"
#include "runtime/ring/doorbell.h"

namespace snf {

// A thread that sends the frames of a port, so that its owner need not.
//
// Theory of operation. Most of a controller's thread's work for a packet is
// sending: the kernel takes the frame there through its layers, and with a veth
// pair through the receiver's as well. The owner copies frames into a ring of
// bytes, and the thread sends them from there, in their order.
//
//   owner ─Send─► ring ─► thread ─► FrameOutlet
//     └──── Flush, few frames, thread has none: sends them itself
//
// To wake a thread costs more than to send a few frames, and they wait
// meanwhile. So the owner sends a batch of fewer than kWorthFrames frames
// itself, unless frames before these are still with the thread. It does the
// same with a frame of several packets, whose copy would cost as much as to
// send it. If the ring is full, the owner waits until there is room: so packets
// wait where they come in.
//
// Owner-thread only.
class FrameSender {
 public:
  static constexpr size_t kRingBytes = 2 << 20;
  static constexpr size_t kWorthFrames = 8;

  // Starts the thread, named "snf-send". The outlet must outlive the object,
  // which alone uses it.
  explicit FrameSender(FrameOutlet& outlet);
  // Sends the frames that wait, and ends the thread.
  ~FrameSender();
  FrameSender(const FrameSender&) = delete;
  FrameSender& operator=(const FrameSender&) = delete;

  // Copies a frame of at most kMaxFrameBytes into the ring.
  void Send(std::span<const std::byte> frame) { Copy(frame, 0); }
  // Sends a frame of several packets, after the copied frames.
  void SendMerged(std::span<const std::byte> frame, uint16_t segment_bytes);
  // Lets the frames leave that were copied.
  void Flush();
  // Waits until all of them have left.
  void Settle();
  // Returns the outcomes of frames until now.
  SentFrames counts() const;

 private:
  // Stands in front of a frame in the ring.
  struct Head {
    uint32_t frame_bytes;  // kSkip: the next frame is at the ring's beginning
    uint16_t segment_bytes;
    uint16_t unused = 0;
  };
  static constexpr uint32_t kSkip = 0xffff'ffff;
  struct Counts {
    std::atomic<uint64_t> sent{0}, drops{0}, too_long{0}, cut{0};
    std::atomic<int> lost{0};
  };

  static size_t BytesOf(size_t frame_bytes) {
    return sizeof(Head) + (frame_bytes + 7) / 8 * 8;
  }
  std::byte* At(uint64_t position) { return &ring_[position % kRingBytes]; }
  void Copy(std::span<const std::byte> frame, uint16_t segment_bytes);
  uint64_t MakeRoom(size_t bytes);
  // Returns true if the thread has sent each published frame.
  bool is_idle() const {
    return released_.load(std::memory_order_acquire) ==
           published_.load(std::memory_order_relaxed);
  }
  void Publish();
  void Run();
  void SendOne(std::span<const std::byte> frame, uint16_t segment_bytes);
  void Show();
  // Sends the frames from a position on, as far as `end` and a batch go.
  // Returns the position behind them.
  uint64_t SendSome(uint64_t from, uint64_t end);

  FrameOutlet& outlet_;
  const std::unique_ptr<std::byte[]> ring_;
  SentFrames done_;  // of who sends
  Counts shown_;     // the same, for who asks
  // Positions count bytes of the ring from the start on.
  uint64_t written_ = 0;
  size_t unpublished_frames_ = 0;
  alignas(128) std::atomic<uint64_t> published_{0};  // by the owner
  alignas(128) std::atomic<uint64_t> released_{0};   // by the thread
  std::atomic<bool> ends_{false};
  Doorbell bell_;  // of the thread
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_SOCKETS_FRAME_SENDER_H_
