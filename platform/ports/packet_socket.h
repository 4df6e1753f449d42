// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_PACKET_SOCKET_H_
#define SNF_PLATFORM_PORTS_PACKET_SOCKET_H_

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/sockets/frame_sender.h"
#include "platform/ports/sockets/packet_queue.h"
#include "platform/ports/sockets/sending_socket.h"
#include "platform/ports/steering.h"

namespace snf {

// Theory of operation. A port of two packet sockets (packet(7)). One receives
// all frames at the interface, for any address (promiscuous mode), into a ring
// of memory that the kernel shares (packet_ring.h), without a system call a
// frame. The other sends, by batches of kBatch frames a system call, and many
// frames on a thread of its own if the spec says so (FrameSender).
//
// If PortSpec::queues is set, several sockets receive, each the frames of flows
// (packet_queue.h): so CPUs that take frames from a card do not wait for each
// other at one ring. Of frames in several rings the oldest is read first.
//
// With each frame the kernel reports which parts were removed or left undone,
// and the port restores the packet as a wire would have carried it: the VLAN
// tag is put back where it was; checksums that the sender left to its network
// card are completed, and frames that it left to be cut into packets are cut
// (frame_offload.h), or stay whole (KeepMerged) until the kernel gets them as
// they came.
//
// A frame longer than the interface's MTU, such as one to be cut into packets,
// does not fit into a slot of the ring and is read by a system call.
//
// If several controllers have sockets at an interface, a filter in the kernel
// admits the frames of this one (steering.h).
//
// Memory: the rings, up to PacketRing::kMostBytes in all, and some 5 MB of
// addresses; pages that no frame has reached cost nothing. Frames that come
// while their ring is full are counted as the kernel's drops, and so are long
// frames that come when a queue's share of PacketQueue::kReceiveBytes is full.
class PacketSocket final : public PacketPort {
 public:
  static constexpr size_t kBatch = SendingSocket::kBatch;

  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  // Opens a socket that only sends, until it gets a receiver. Errors as in
  // Open.
  static absl::StatusOr<std::unique_ptr<PacketSocket>> OpenToSend(
      const PortSpec& spec);
  // Receives by this receiver, from slot `next_slot` of its ring on, or by a
  // new one if that fails. If a new one fails, too, the port fails.
  void Adopt(PacketReceiver receiver, uint64_t next_slot) override;

  // Marks later fragments of a datagram as this controller's, too.
  void Overhear(const PortFrame& frame, Instant now) override {
    gate_.LetsIn(frame.bytes, now);
  }
  bool Receive(Take take) override;
  bool has_frames() const override {
    return std::ranges::any_of(
        in_, [](const Queue& queue) { return queue.in.Next() != nullptr; });
  }
  void StopReceiving() override;
  void Steer(std::shared_ptr<const Steering> steering) override;
  void Send(std::span<const std::byte> frame) override;
  void SendMerged(std::span<const std::byte> frame,
                  uint16_t segment_bytes) override;
  void KeepMerged(bool keep) override { keeps_merged_ = keep; }
  void Flush() override;
  void Settle() override;
  void UpdateFigures() override;
  int descriptor() const override;
  // Names the queues whose rings were full: "queue_1_full".
  std::vector<PortReason> reasons() const override;
  // Error: also FailedPrecondition if the port has several queues.
  absl::StatusOr<PacketReceiver> HandOn() override;
  std::optional<uint64_t> LetGo() override;

 private:
  static constexpr size_t kRoomBytes = (kMaxFrameBytes + 63) / 64 * 64;
  struct Queue {
    PacketQueue in{kMaxFrameBytes};
    uint64_t drops = 0;  // frames that the kernel had no room for
  };

  explicit PacketSocket(const PortSpec& spec)
      : PacketPort(spec),
        interface_(spec.interface),
        gate_(spec.steering, spec.side),
        rooms_(new std::byte[kBatch * kRoomBytes]) {}
  using Connecting = absl::Status (PacketSocket::*)();
  static absl::StatusOr<std::unique_ptr<PacketSocket>> Open(
      const PortSpec& spec, Connecting connect);
  absl::Status Connect();
  absl::Status ConnectIn();
  absl::Status ConnectOut();
  // Returns the share of this port: "" for all frames, "0/2" for a controller.
  std::string Share() const;
  // Returns false, with errno, if another process forwards these frames.
  bool Claim();
  // Makes the queues a group, and one descriptor of theirs.
  bool Group();
  bool AdmitFrames();
  absl::Status Failed(const char* what) const;
  void Count(const SentFrames& frames);
  // Counts what the sender has sent since the last call.
  void CountSender();
  // Returns the queue of the frame that came first; null if none waits.
  Queue* Oldest();
  void TakeFrame(Queue& queue, Instant now, Take take);

  NetworkInterface interface_;
  FragmentGate gate_;
  std::deque<Queue> in_;
  Descriptor all_in_;  // an epoll of several queues
  SendingSocket out_;
  std::unique_ptr<FrameSender> sender_;  // null: the owner's thread sends
  SentFrames counted_;                   // of the sender
  bool keeps_merged_ = false;
  // Frames that wait for Flush. Not cleared: pages are the kernel's zeros, and
  // are there once they are used.
  const std::unique_ptr<std::byte[]> rooms_;
  std::array<std::span<const std::byte>, kBatch> queued_;
  size_t queue_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_PACKET_SOCKET_H_
