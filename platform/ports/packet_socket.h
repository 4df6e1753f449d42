// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_PACKET_SOCKET_H_
#define SNF_PLATFORM_PORTS_PACKET_SOCKET_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "platform/ports/frames/frame_offload.h"
#include "platform/ports/frames/packet_ring.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/steering.h"

namespace snf {

// Theory of operation. A port of two packet sockets (packet(7)). One receives
// all frames at the interface, for any address (promiscuous mode), into a ring
// of memory that the kernel shares (packet_ring.h), without a system call a
// frame. The other sends, by batches of kBatch frames a system call.
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
// Memory: the ring, up to PacketRing::kMostBytes, and some 5 MB of addresses;
// pages that no frame has reached cost nothing. Frames that come while the ring
// is full are counted as the kernel's drops, and so are long frames that come
// when kReceiveBytes of such frames wait.
class PacketSocket final : public PacketPort {
 public:
  static constexpr size_t kBatch = 64;
  static constexpr int kReceiveBytes = 64 << 20;
  static constexpr int kSendBytes = 4 << 20;

  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  // Opens a socket that only sends, until it gets a receiver. Errors as in
  // Open.
  static absl::StatusOr<std::unique_ptr<PacketSocket>> OpenToSend(
      const PortSpec& spec);
  // Receives by this receiver, from slot `next_slot` of its ring on, or by a
  // new one if that fails. If a new one fails, too, the port fails.
  void Adopt(PacketReceiver receiver, uint64_t next_slot) override;

  // Marks later fragments of a datagram as this controller's, too.
  void Overhear(std::span<const std::byte> frame, Instant now) override {
    gate_.LetsIn(frame, now);
  }
  bool Receive(Take take) override;
  bool has_frames() const override {
    return in_.is_open() && ring_.Next() != nullptr;
  }
  void StopReceiving() override;
  void Steer(std::shared_ptr<const Steering> steering) override;
  void Send(std::span<const std::byte> frame) override;
  void SendMerged(std::span<const std::byte> frame,
                  uint16_t segment_bytes) override;
  void KeepMerged(bool keep) override { keeps_merged_ = keep; }
  void Flush() override;
  void UpdateFigures() override;
  int descriptor() const override { return in_.number(); }
  absl::StatusOr<PacketReceiver> HandOn() override;
  std::optional<uint64_t> LetGo() override;

 private:
  // The frame lies behind room for a VLAN tag.
  static constexpr size_t kTagBytes = 4;
  static constexpr size_t kRoomBytes =
      (kTagBytes + kMaxFrameBytes + 63) / 64 * 64;
  // The first part of each message is the header of the kernel, all zeros.
  struct Batch {
    Batch();
    // Each frame gets a header of the kernel's in front of it.
    void DescribePlain();
    std::span<std::byte> room(size_t i) {
      return {&rooms[i * kRoomBytes], kRoomBytes};
    }
    std::unique_ptr<std::byte[]> rooms;
    std::array<mmsghdr, kBatch> messages{};
    std::array<std::array<iovec, 2>, kBatch> parts{};
  };
  // A frame with room for a VLAN tag ahead of it.
  struct Whole {
    OffloadHeader offload;
    std::span<std::byte> frame;
  };

  explicit PacketSocket(const PortSpec& spec)
      : PacketPort(spec),
        interface_(spec.interface),
        gate_(spec.steering, spec.side),
        long_room_(new std::byte[kRoomBytes]) {}
  absl::Status Connect();
  absl::Status ConnectIn();
  absl::Status ConnectOut();
  // Returns the share of this port: "" for all frames, "0/2" for a controller.
  std::string Share() const;
  // Returns false, with errno, if another process forwards these frames.
  bool Claim();
  bool AttachFilter();
  absl::Status Failed(const char* what) const;
  void CountUnsent(int error);
  void TakeFrame(tpacket2_hdr& slot, Instant now, Take take);
  std::optional<Whole> WholeOf(tpacket2_hdr& slot);

  NetworkInterface interface_;
  FragmentGate gate_;
  Descriptor in_;
  Descriptor out_;
  bool sends_offload_ = false;  // the kernel takes its header
  PacketRing ring_;
  std::unique_ptr<std::byte[]> long_room_;  // for a frame that fits in no slot
  bool keeps_merged_ = false;
  Batch queued_;
  size_t queue_ = 0;  // frames in it
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_PACKET_SOCKET_H_
