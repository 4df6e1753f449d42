// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_TAP_PORT_H_
#define SNF_PLATFORM_LIVE_TAP_PORT_H_

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "platform/live/network_interface.h"
#include "platform/live/packet_port.h"

namespace snf {

// A port that is the other end of a TAP interface (the kernel's
// Documentation/networking/tuntap.rst): what the machine sends by the interface
// comes in here, and what leaves here has come to the interface. If there is no
// interface of that name, it is made, set up, and gone with the port.
//
// Frames come and go one a system call, whole: there is nothing that the kernel
// would leave to this end.
class TapPort final : public PacketPort {
 public:
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);

  bool Receive(Take take) override;
  void StopReceiving() override { has_stopped_ = true; }
  void Send(std::span<const std::byte> frame) override;
  void Flush() override {}
  int descriptor() const override { return tap_.number(); }

 private:
  static constexpr size_t kBatch = 64;

  TapPort(const PortSpec& spec, Descriptor tap);

  Descriptor tap_;
  bool has_stopped_ = false;
  std::array<std::byte, kMaxFrameBytes + 1> room_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_TAP_PORT_H_
