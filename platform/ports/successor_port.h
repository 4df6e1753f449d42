// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_SUCCESSOR_PORT_H_
#define SNF_PLATFORM_PORTS_SUCCESSOR_PORT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "platform/ports/frame_channel.h"
#include "platform/ports/packet_port.h"

namespace snf {

// A port of a daemon that replaces its predecessor. Packets leave by a socket
// of its own. Incoming packets are read by the predecessor, which forwards
// those that are not of its flows, until it sends the place in its ring where
// it stops. From there this port reads the same ring. If the predecessor ends
// without a last message, this port opens a new socket: packets in between are
// lost. An interface that is lost while the predecessor reads is opened again
// to send once it is back.
//
// Owner-thread only.
class SuccessorPort final : public PacketPort {
 public:
  // Errors as in PacketPort::OpenToSend.
  static absl::StatusOr<std::unique_ptr<SuccessorPort>> Open(
      const PortSpec& spec);
  // Has frames read from this channel, and later from that receiver.
  // Call it once, before there is anything to receive.
  void Begin(FrameChannel channel, PacketReceiver receiver);
  // Returns true as long as the daemon before reads.
  bool has_predecessor() const override { return channel_.is_open(); }

  bool Receive(Take take) override;
  bool ReceiveOwn(Take take) override { return port_->ReceiveOwn(take); }
  bool has_frames() const override {
    return !has_predecessor() && port_->has_frames();
  }
  void StopReceiving() override;
  void Steer(std::shared_ptr<const Steering> steering) override {
    steering_ = steering;
    port_->Steer(std::move(steering));
  }
  void Send(std::span<const std::byte> frame) override { port_->Send(frame); }
  void SendMerged(std::span<const std::byte> frame,
                  uint16_t segment_bytes) override {
    port_->SendMerged(frame, segment_bytes);
  }
  void KeepMerged(bool keep) override {
    keeps_merged_ = keep;
    port_->KeepMerged(keep);
  }
  void Flush() override { port_->Flush(); }
  void Settle() override { port_->Settle(); }
  bool has_waiting() const override { return port_->has_waiting(); }
  std::optional<uint8_t> RouteLength(
      std::span<const std::byte> frame) const override {
    return port_->RouteLength(frame);
  }
  std::string TakeNews() override { return port_->TakeNews(); }
  void UpdateFigures() override;
  int descriptor() const override {
    return has_predecessor() ? channel_.descriptor() : port_->descriptor();
  }
  absl::StatusOr<PacketReceiver> HandOn() override;
  std::optional<uint64_t> LetGo() override { return port_->LetGo(); }

 private:
  SuccessorPort(const PortSpec& spec, std::unique_ptr<PacketPort> port);
  void Give(const PortFrame& frame, Take take);
  // Replaces the port, whose interface was lost, if the interface is back.
  void Return();

  std::unique_ptr<PacketPort> port_;
  FrameChannel channel_;
  PacketReceiver receiver_;
  PortFigures before_;                        // of ports before this one
  std::shared_ptr<const Steering> steering_;  // by the last Steer; may be null
  uint64_t passed_on_ = 0;  // packets that came by the channel
  uint64_t refused_ = 0;    // frames from there that could not be cut
  bool keeps_merged_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_SUCCESSOR_PORT_H_
