// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_XDP_PORT_H_
#define SNF_PLATFORM_PORTS_XDP_PORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/ports/frames/xdp_ring.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/xdp_program.h"

namespace snf {

// One receive queue of an interface, and a queue of frames that leave: an
// AF_XDP socket with its own memory for kPieces pieces of frames each way
// (Linux, Documentation/networking/af_xdp.rst). A frame is one piece, or, where
// it may be longer than that, a row of them. Owner-thread only.
class XdpSocket {
 public:
  static constexpr uint32_t kPieces = 4'096;  // each way
  static constexpr uint32_t kPieceBytes = 4'096;
  // Most bytes of a frame in one piece: the kernel reserves some ahead of it.
  static constexpr uint32_t kMostInOne = kPieceBytes - 256;

  XdpSocket() = default;
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;
  ~XdpSocket();

  // If `takes_parts`, frames may consist of several pieces. Returns false, with
  // errno, on failure: EPERM, EOPNOTSUPP, or EINVAL for frames of several
  // pieces and a kernel before 6.6. Call it once.
  bool Open(int interface, uint32_t queue, bool takes_parts);
  int descriptor() const { return socket_.number(); }

  // Calls take(frame) for frames whose last piece is among the next `most`
  // pieces that have come; returns how many pieces there were.
  template <typename Take>
  uint32_t Receive(uint32_t most, const Take& take) {
    const uint32_t count = std::min(received_.waiting(), most);
    if (count == 0) return 0;
    for (uint32_t i = 0; i < count; ++i) {
      const xdp_desc& piece = received_.waiting_at(i);
      const std::span<const std::byte> bytes(memory_ + piece.addr, piece.len);
      const bool goes_on = (piece.options & kGoesOn) != 0;
      if (goes_on || !begun_.empty()) {
        begun_.insert(begun_.end(), bytes.begin(), bytes.end());
      }
      if (!goes_on) take(begun_.empty() ? bytes : std::span(begun_));
      if (!goes_on) begun_.clear();
      to_fill_.Push(piece.addr - piece.addr % kPieceBytes);
    }
    received_.Release(count);
    to_fill_.Publish();
    if (to_fill_.wants_wakeup()) WakeReceiver();
    return count;
  }
  // Counts pieces.
  uint32_t waiting() const { return received_.waiting(); }

  // Copies the frame, of at most kMaxFrameBytes, or kMostInOne if frames are of
  // one piece, into a queue. Returns false if the queue is full, because the
  // kernel has not sent its frames.
  bool Send(std::span<const std::byte> frame);
  // Lets the kernel send the queued frames. Returns an errno if the interface
  // is down or gone, else 0.
  int Flush();
  // Returns the frames dropped so far because there was no room.
  uint64_t drops() const;

 private:
  // This bit of xdp_desc::options says that the next piece is of the same
  // frame.
  static constexpr uint32_t kGoesOn = 1;

  bool MapRings();
  bool Bind(int interface, uint32_t queue, bool takes_parts) const;
  void WakeReceiver() const;
  void Complete();

  Descriptor socket_;
  std::byte* memory_ = nullptr;
  XdpRing<uint64_t> to_fill_;
  XdpRing<uint64_t> completed_;
  XdpRing<xdp_desc> received_;
  XdpRing<xdp_desc> to_send_;
  std::vector<uint64_t> free_;    // pieces that may be sent
  std::vector<std::byte> begun_;  // of a frame whose last piece is to come
};

// Theory of operation. A port by AF_XDP sockets, one a receive queue: a program
// in the interface's driver (XdpProgram) takes frames before the kernel makes
// anything else of them. Frames leave by the first queue. Where the driver can,
// it writes frames where this process reads them; else the kernel copies. Where
// the MTU is too long for one piece, frames are of several.
//
// The kernel tells nothing of a frame but its bytes. So what a sender has left
// to its network card stays undone if there is none, as at the other end of a
// veth pair: its checksums, and a VLAN tag that the card takes out, are to be
// switched off there (ethtool -K IF tx off txvlan off). A PacketSocket is told.
// Nor does the kernel tell when a frame came: its age is 0.
//
// Memory: 32 MiB a queue.
class XdpPort final : public PacketPort {
 public:
  static constexpr uint32_t kMostQueues = 64;

  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  ~XdpPort() override;

  bool Receive(Take take) override;
  void StopReceiving() override;
  void Send(std::span<const std::byte> frame) override;
  void Flush() override;
  void UpdateFigures() override;
  int descriptor() const override { return all_.number(); }

 private:
  static constexpr uint32_t kBatch = 64;
  static constexpr size_t kLeastBytes = 14;  // of an Ethernet header

  explicit XdpPort(const PortSpec& spec)
      : PacketPort(spec), interface_(spec.interface) {}
  absl::Status Connect();
  absl::Status Failed(const char* what) const;
  // The kernel or the driver takes no frames of several pieces.
  absl::Status TooLong() const;

  NetworkInterface interface_;
  int index_ = 0;
  Descriptor listener_;  // keeps the interface in promiscuous mode
  XdpProgram program_;
  std::vector<std::unique_ptr<XdpSocket>> queues_;
  Descriptor all_;              // an epoll of their sockets
  std::vector<uint32_t> left_;  // pieces of each that come before StopReceiving
  bool has_stopped_ = false;
  uint32_t unsent_ = 0;  // frames that were queued since Flush
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_XDP_PORT_H_
