// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTED_PORT_H_
#define SNF_PLATFORM_PORTS_ROUTED_PORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/rendezvous.h"
#include "base/time.h"
#include "platform/ports/frames/filter_program.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/router/kernel_routes.h"
#include "platform/ports/router/returned_frames.h"
#include "platform/ports/router/router.h"

namespace snf {

// A port with addresses of its own, which is a router of its hosts (router.h),
// around another port, which has the frames. Figures count packets of the
// chain: the chain gets the received, and gave the sent and send_drops;
// PortFigures::router has the rest by name. A packet that waits for a
// neighbour is neither sent nor dropped.
//
// If several controllers share the interface (steering.h), each has such a port
// and learns of the neighbours that it sends to. A question for the addresses
// is answered by the controller that has the place of the question's frame; the
// controller that has the rest advertises the router.
//
// A port of a process that takes the place of this one (OpenToSend) gets the
// neighbours that this port knows, and each frame that says a link address
// (PortFrame::news). This port answers and advertises until the other one reads
// the interface.
//
// The MTU is the interface's, also after it has changed. A frame of several
// packets stays whole, if its next hop is known and its packets fit the MTU.
//
// Owner-thread only.
class RoutedPort final : public PacketPort, private RouterWire {
 public:
  // Errors as PacketPort::Open.
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  // Errors as PacketPort::OpenToSend.
  static absl::StatusOr<std::unique_ptr<PacketPort>> OpenToSend(
      const PortSpec& spec);

  bool Receive(Take take) override;
  bool ReceiveOwn(Take take) override;
  bool has_frames() const override { return port_->has_frames(); }
  void StopReceiving() override;
  void Send(std::span<const std::byte> frame) override;
  void SendMerged(std::span<const std::byte> frame,
                  uint16_t segment_bytes) override;
  void KeepMerged(bool keep) override { port_->KeepMerged(keep); }
  void Flush() override { port_->Flush(); }
  void Settle() override { port_->Settle(); }
  bool has_waiting() const override {
    return router_.has_waiting() || !returned_.empty() || is_to_tell_known_;
  }
  std::optional<uint8_t> RouteLength(
      std::span<const std::byte> frame) const override {
    return router_.RouteLength(frame);
  }
  // Also asks for neighbours: call it again and again.
  void UpdateFigures() override;
  int descriptor() const override { return port_->descriptor(); }
  absl::StatusOr<PacketReceiver> HandOn() override;
  void TellSuccessor() override;
  std::optional<uint64_t> LetGo() override;
  void Expect(const PacketReceiver& receiver) override {
    port_->Expect(receiver);
  }
  void Overhear(const PortFrame& frame, Instant now) override;
  void Adopt(PacketReceiver receiver, uint64_t next) override;
  std::string TakeNews() override { return std::exchange(news_, ""); }

 private:
  using Opening =
      absl::StatusOr<std::unique_ptr<PacketPort>> (*)(const PortSpec& spec);

  RoutedPort(const PortSpec& spec, std::unique_ptr<PacketPort> port);
  static absl::StatusOr<std::unique_ptr<RoutedPort>> OpenAround(
      const PortSpec& spec, Opening open);
  void BeginReading();
  // Returns true if no other controller advertises the router.
  bool is_to_advertise() const;
  MemberSet OtherRouters() const;
  void LookAtOthers(Instant now);
  void TellKnown(Instant now, Take take);
  void TellNews(Instant now, const PortFrame& frame, Take take);
  absl::Status ReadRoutes();
  void TakeRoutes();
  void UpdateRoutes();
  void TellNotFollowed(const std::string& before);
  void SendRouted(std::span<const std::byte> frame) override;
  void SendRoutedMerged(std::span<const std::byte> frame,
                        uint16_t segment_bytes) override;
  void SendOwn(std::span<const std::byte> frame) override;
  bool ReturnToChain(std::span<const std::byte> frame) override;
  bool IsToAnswer(std::span<const std::byte> frame) const override;
  static Instant Now();

  NetworkInterface interface_;
  std::unique_ptr<PacketPort> port_;
  Router router_;
  std::optional<KernelRoutes> routes_;
  std::string news_;
  // If several controllers share the port: where a question belongs, and who
  // answers it, the next live one if a controller is gone. Null: this process
  // answers all.
  std::vector<FilterStep> places_;
  std::shared_ptr<const Steering> answers_;
  Instant next_look_ = Instant::min();
  bool reads_ = false;
  bool has_stopped_ = false;
  // Another process takes the place of this one; known neighbours are still to
  // be given to that process.
  bool is_handed_on_ = false;
  bool is_to_tell_known_ = false;
  uint64_t own_cut_ = 0;  // packets more than frames that it cut itself
  uint64_t uncut_ = 0;    // frames of several packets that no cut makes packets
  ReturnedFrames returned_;  // go into the chain at the next call of Receive
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTED_PORT_H_
