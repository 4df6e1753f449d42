// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_TAP_PORT_H_
#define SNF_PLATFORM_LIVE_TAP_PORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "platform/live/network_interface.h"
#include "platform/live/packet_port.h"

namespace snf {

// A port that is the other end of a TAP interface (the kernel's
// Documentation/networking/tuntap.rst): what the machine sends by the interface
// comes in here, and what leaves here has come to the interface. If there is no
// interface of that name, it is made, with room for kQueued frames that wait to
// be read, set up, and gone with the port. What comes while that room is full
// is the kernel's drop.
//
// Frames come and go one a system call, whole: there is nothing that the kernel
// would leave to this end. Two processes may have the port, of which one reads:
// so the other can take its place, and the interface stays as it is.
class TapPort final : public PacketPort {
 public:
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  static absl::StatusOr<std::unique_ptr<PacketPort>> OpenToSend(
      const PortSpec& spec);

  bool Receive(Take take) override;
  void StopReceiving() override { has_stopped_ = true; }
  void Send(std::span<const std::byte> frame) override;
  void Flush() override {}
  void UpdateFigures() override;
  int descriptor() const override { return tap_.number(); }
  absl::StatusOr<PacketReceiver> HandOn() override;
  // The next reader gets what was not read here.
  std::optional<uint64_t> LetGo() override { return 0; }
  void Expect(const PacketReceiver& receiver) override;

 private:
  static constexpr size_t kBatch = 64;
  static constexpr int kQueued = 16'384;  // frames, in the kernel

  TapPort(const PortSpec& spec, Descriptor tap);

  NetworkInterface interface_;
  Descriptor tap_;
  uint64_t unsent_before_;
  bool has_stopped_ = false;
  std::array<std::byte, kMaxFrameBytes + 1> room_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_TAP_PORT_H_
