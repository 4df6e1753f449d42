// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_CAPTURE_PORT_H_
#define SNF_PLATFORM_LIVE_CAPTURE_PORT_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "platform/live/network_interface.h"
#include "platform/live/packet_port.h"
#include "platform/steering/filter_program.h"
#include "platform/steering/steering.h"
#include "traces/capture_reader.h"

namespace snf {

// A port where the frames of a capture come in, as long after each other as
// they were captured, the first at once; after the last one nothing comes any
// more. What leaves there has left: it is counted, and goes nowhere. Frames
// that are not of Ethernet, or that were not captured whole, are refused.
class CapturePort final : public PacketPort {
 public:
  // Errors are those of CaptureReader; and InvalidArgument, it is no regular
  // file, or its first frame would be refused; with the port's name.
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);

  bool Receive(Take take) override;
  void StopReceiving() override { next_.reset(); }
  void Send(std::span<const std::byte> /*frame*/) override { ++figures_.sent; }
  void Flush() override {}
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
  // What a time of the capture is later than one of the clock; set by the first
  // frame.
  std::optional<Nanos> ahead_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_CAPTURE_PORT_H_
