// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_SOCKETS_SENDING_SOCKET_H_
#define SNF_PLATFORM_PORTS_SOCKETS_SENDING_SOCKET_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "platform/ports/interface/network_interface.h"

namespace snf {

// Counts frames that a socket was given, by their fate.
struct SentFrames {
  uint64_t sent = 0;
  uint64_t drops = 0;     // the kernel did not take them
  uint64_t too_long = 0;  // of these, longer than the MTU
  uint64_t cut = 0;       // packets more than frames of several
  int lost = 0;           // the error that says the interface is down; 0: none
};

// Sends frames. Calls add to `counts`. Used by one thread at a time.
class FrameOutlet {
 public:
  static constexpr size_t kBatch = 64;
  virtual ~FrameOutlet() = default;

  // Sends up to kBatch frames.
  virtual void Send(std::span<const std::span<const std::byte>> frames,
                    SentFrames& counts) = 0;
  // Sends a frame of several packets as one; its TCP or UDP checksum may be
  // anything. Returns false, and does nothing, if it has to be cut.
  virtual bool SendMerged(std::span<const std::byte> frame,
                          uint16_t segment_bytes, SentFrames& counts) = 0;
  // Sends its packets, one by one.
  virtual void SendCut(std::span<const std::byte> frame, uint16_t segment_bytes,
                       SentFrames& counts) = 0;
};

// A packet socket that sends by an interface, and receives nothing. No call
// waits.
class SendingSocket final : public FrameOutlet {
 public:
  static constexpr int kSendBytes = 4 << 20;

  // Returns null if it can be opened, else what failed, with errno. Frames may
  // be as long as `mtu`, and an Ethernet header.
  const char* Open(int interface, uint32_t mtu);

  // Needs one system call if the kernel takes each frame.
  void Send(std::span<const std::span<const std::byte>> frames,
            SentFrames& counts) override;
  // A frame has to be cut if the kernel does not take such frames, or the
  // packets are longer than the MTU.
  bool SendMerged(std::span<const std::byte> frame, uint16_t segment_bytes,
                  SentFrames& counts) override;
  void SendCut(std::span<const std::byte> frame, uint16_t segment_bytes,
               SentFrames& counts) override;

 private:
  Descriptor socket_;
  uint32_t mtu_ = 0;
  bool takes_offload_ = false;  // the kernel takes its header
  // A message has the kernel's header, all zeros, and the frame.
  std::array<mmsghdr, kBatch> messages_{};
  std::array<std::array<iovec, 2>, kBatch> parts_{};
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_SOCKETS_SENDING_SOCKET_H_
