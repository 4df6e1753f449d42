// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_RETURNING_PORT_H_
#define SNF_PLATFORM_PORTS_RETURNING_PORT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/ports/packet_port.h"

namespace snf {

// A port that outlives its interface: while the interface is down or missing,
// no packet comes, and packets that should leave are dropped and counted, until
// an interface of that name is up again. The port checks for it once in kPause,
// and never fails.
//
// Owner-thread only.
class ReturningPort final : public PacketPort {
 public:
  static constexpr auto kPause = std::chrono::milliseconds(500);
  // Receives a line when the interface is lost, and when it is back, and the
  // port's own news (TakeNews).
  using Notice = std::function<void(std::string_view)>;

  using Opening =
      absl::StatusOr<std::unique_ptr<PacketPort>> (*)(const PortSpec& spec);

  // Outlives the interface of a port that is open. `open` makes its successors.
  ReturningPort(const PortSpec& spec, std::unique_ptr<PacketPort> port,
                Notice notice, Opening open = &PacketPort::Open);
  // Errors as PacketPort::Open: at the beginning the interface must be there.
  // `notice` may be null.
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec,
                                                          Notice notice);

  bool Receive(Take take) override;
  bool has_frames() const override {
    return port_ != nullptr && port_->has_frames();
  }
  void StopReceiving() override;
  void Send(std::span<const std::byte> frame) override;
  void SendMerged(std::span<const std::byte> frame,
                  uint16_t segment_bytes) override;
  void KeepMerged(bool keep) override;
  void Flush() override;
  void Steer(std::shared_ptr<const Steering> steering) override;
  void Settle() override;
  // Also looks at the interface: call it again and again.
  void UpdateFigures() override;
  bool is_there() const override { return port_ != nullptr; }
  bool has_waiting() const override {
    return port_ != nullptr && port_->has_waiting();
  }
  std::optional<uint8_t> RouteLength(
      std::span<const std::byte> frame) const override {
    if (port_ == nullptr) return std::nullopt;
    return port_->RouteLength(frame);
  }
  // Includes the counts of ports before this one.
  std::vector<PortReason> reasons() const override;
  int descriptor() const override {
    return port_ == nullptr ? -1 : port_->descriptor();
  }

  absl::StatusOr<PacketReceiver> HandOn() override;
  std::optional<uint64_t> LetGo() override;
  bool has_predecessor() const override {
    return port_ != nullptr && port_->has_predecessor();
  }

 private:
  void Take(std::unique_ptr<PacketPort> port);
  void Lose();
  void Return();
  void Tell(std::string_view line) const {
    if (notice_ != nullptr) notice_(line);
  }

  std::unique_ptr<PacketPort> port_;  // null while the interface is lost
  Notice notice_;
  Opening open_;
  PortFigures before_;  // of ports before this one, and of the time without
  std::vector<PortReason> reasons_before_;         // of ports before this one
  std::chrono::steady_clock::time_point lost_at_;  // if the port is null
  bool keeps_merged_ = false;
  bool stops_ = false;
  bool is_handed_on_ = false;   // and not lost since
  bool has_successor_ = false;  // which hears of neighbours
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_RETURNING_PORT_H_
