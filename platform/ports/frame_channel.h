// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_FRAME_CHANNEL_H_
#define SNF_PLATFORM_PORTS_FRAME_CHANNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"

namespace snf {

// The last message of a port's channel: the place of the next frame in the ring
// of the port's socket; kNowhere if the socket is closed.
struct LastOfPort {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t next_slot = kNowhere;
};

// Carries frames of a port from a daemon to its successor (live_traffic.h), by
// a SOCK_SEQPACKET socket, whose messages are whole. Both ends are on one
// machine and use the same head, whose size is checked. Owner-thread only.
class FrameChannel {
 public:
  static constexpr int kBytes = 32 << 20;  // most bytes under way
  static constexpr size_t kBatch = 64;

  // Makes both ends: the first sends, the second receives. Error: Unavailable.
  static absl::StatusOr<std::pair<FrameChannel, FrameChannel>> Make();
  // Takes an end that another process has made.
  explicit FrameChannel(Descriptor socket = Descriptor());

  bool is_open() const { return socket_.is_open(); }
  int descriptor() const { return socket_.number(); }
  void Close() { socket_ = Descriptor(); }

  // Returns true once the receiver's end is closed.
  bool has_lost_receiver() const;
  // Returns false if the frame is lost, for example because the channel is
  // full. Closes the channel if the receiver is gone.
  bool Send(const PortFrame& frame, Instant came);
  // Sends the last message, and closes the channel.
  void Finish(const LastOfPort& last);

  // Calls take() for the frames that have come, without their ages, at most
  // some dozens. Returns the last message; nothing while more frames may come.
  // A channel that was closed without a last message returns kNowhere.
  struct Taken {
    bool any = false;
    bool is_over = false;
    LastOfPort last{};
  };
  Taken Receive(
      absl::FunctionRef<void(const PortFrame& frame, Instant came)> take);

 private:
  struct Head {
    int64_t came_ns;
    uint64_t next_slot;
    uint32_t is_last;
    uint16_t segment_bytes;
    uint16_t news;
  };
  static_assert(sizeof(Head) == 24);

  Descriptor socket_;
  std::unique_ptr<std::byte[]> room_;  // of a frame that is received
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_FRAME_CHANNEL_H_
