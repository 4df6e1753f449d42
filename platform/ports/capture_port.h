// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_CAPTURE_PORT_H_
#define SNF_PLATFORM_PORTS_CAPTURE_PORT_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "platform/ports/frames/filter_program.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/steering.h"
#include "traces/capture_reader.h"

namespace snf {

// A port at which the frames of a capture come in, with the gaps of the
// capture, the first frame at once; none comes after the last one. Frames that
// leave are counted and discarded. Frames that are not of Ethernet, or that
// were not captured whole, are refused.
class CapturePort final : public PacketPort {
 public:
  // Errors, with the port's name: as of CaptureReader; InvalidArgument if it is
  // not a regular file, or its first frame would be refused.
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);

  bool Receive(Take take) override;
  void StopReceiving() override { next_.reset(); }
  void Send(std::span<const std::byte> /*frame*/) override { ++figures_.sent; }
  void Flush() override {}
  bool has_both_sides() const override { return true; }
  int descriptor() const override { return timer_.number(); }

 private:
  static constexpr size_t kBatch = 64;

  CapturePort(const PortSpec& spec, std::unique_ptr<CaptureReader> reader,
              Descriptor timer);
  void Read();
  absl::Status CheckFirst() const;
  bool IsOwn(Instant now);
  void SetTimer(Nanos from_now);

  std::unique_ptr<CaptureReader> reader_;
  Descriptor timer_;                 // readable when the next frame is due
  std::vector<FilterStep> program_;  // none: all frames are taken
  FragmentGate gate_;
  std::optional<CapturedPacket> next_;
  // Offset of the capture's times to the clock; set by the first frame.
  std::optional<Nanos> ahead_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_CAPTURE_PORT_H_
