// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_FRAME_CHANNEL_H_
#define SNF_PLATFORM_LIVE_FRAME_CHANNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/live/network_interface.h"
#include "platform/live/packet_port.h"

namespace snf {

// What the last message of a port's channel says: where in the ring of the
// port's socket the next frame will be; nothing if that socket is no more.
struct LastOfPort {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t next_slot = kNowhere;
};

// Frames of a port on their way from one daemon to the one that takes its place
// (live_traffic.h), by a SOCK_SEQPACKET socket, whose messages are whole. Both
// ends are of one machine and one build of the head, whose size says so.
// Owner-thread only.
class FrameChannel {
 public:
  static constexpr int kBytes = 32 << 20;  // under way, at the most
  static constexpr size_t kBatch = 64;

  // Makes both ends: the first sends, the second receives. Error: Unavailable.
  static absl::StatusOr<std::pair<FrameChannel, FrameChannel>> Make();
  // Takes an end that another process has made.
  explicit FrameChannel(Descriptor socket = Descriptor());

  bool is_open() const { return socket_.is_open(); }
  int descriptor() const { return socket_.number(); }
  void Close() { socket_ = Descriptor(); }

  // Returns false if the frame is lost, as for want of room. If nobody receives
  // any more, the channel is closed.
  bool Send(std::span<const std::byte> frame, Instant came);
  // Sends what there is to say last, and closes it.
  void Finish(const LastOfPort& last);

  // Calls take() for frames that have come, some dozens at the most. Returns
  // what was said last; nothing as long as there may be more. An end that was
  // closed without a word says kNowhere.
  struct Taken {
    bool any = false;
    bool is_over = false;
    LastOfPort last{};
  };
  Taken Receive(
      absl::FunctionRef<void(std::span<const std::byte>, Instant came)> take);

 private:
  struct Head {
    int64_t came_ns;
    uint64_t next_slot;
    uint64_t is_last;
  };
  static_assert(sizeof(Head) == 24);

  Descriptor socket_;
  std::unique_ptr<std::byte[]> room_;  // of a frame that is received
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_FRAME_CHANNEL_H_
