// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_TAP_PORT_H_
#define SNF_PLATFORM_PORTS_TAP_PORT_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "platform/ports/frames/frame_offload.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"

namespace snf {

// A port that is the other end of a TAP interface (the kernel's
// Documentation/networking/tuntap.rst): frames that the machine sends by the
// interface come in here, and frames that leave here arrive at the interface.
// If there is no interface of that name, the port makes one, with room for
// kQueued frames that wait to be read, sets it up, and removes it at its end.
// Frames that come while that room is full are the kernel's drops.
//
// Frames come and go one a system call. As for a packet socket, checksums are
// completed here, and frames of several packets are cut or stay whole: one
// system call carries up to 64 KB of them. Two processes may have the port, one
// of which reads: so the other can replace it, and the interface stays as it
// is.
class TapPort final : public PacketPort {
 public:
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  static absl::StatusOr<std::unique_ptr<PacketPort>> OpenToSend(
      const PortSpec& spec);

  ~TapPort() override;

  bool Receive(Take take) override;
  void StopReceiving() override { has_stopped_ = true; }
  void Send(std::span<const std::byte> frame) override;
  void SendMerged(std::span<const std::byte> frame,
                  uint16_t segment_bytes) override;
  void KeepMerged(bool keep) override { keeps_merged_ = keep; }
  void Flush() override {}
  void UpdateFigures() override;
  int descriptor() const override { return tap_.number(); }
  absl::StatusOr<PacketReceiver> HandOn() override;
  // The next reader gets the frames that were not read here.
  std::optional<uint64_t> LetGo() override { return 0; }
  void Expect(const PacketReceiver& receiver) override;

 private:
  static constexpr size_t kBatch = 64;
  static constexpr int kQueued = 16'384;  // frames, in the kernel

  TapPort(const PortSpec& spec, Descriptor tap);
  // Looks whether frames have the kernel's header in front of them; then asks
  // the kernel to leave work to this end.
  void TakeOffloads();
  // Writes the parts, the first of which is the kernel's header. Returns an
  // error number; 0 if the frame was sent.
  int Write(std::span<iovec> parts);
  void CountUnsent(int error);

  NetworkInterface interface_;
  Descriptor tap_;
  uint64_t unsent_before_;
  bool has_stopped_ = false;
  bool has_offloads_ = false;  // frames have the kernel's header
  bool is_handed_on_ = false;  // another process has the interface as well
  bool keeps_merged_ = false;
  std::array<std::byte, sizeof(OffloadHeader) + kMaxFrameBytes + 1> room_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_TAP_PORT_H_
