// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/returning_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "platform/run/figures/figures.h"

namespace snf {

absl::StatusOr<std::unique_ptr<PacketPort>> ReturningPort::Open(
    const PortSpec& spec, Notice notice) {
  auto port = PacketPort::Open(spec);
  if (!port.ok()) return port;
  return std::unique_ptr<PacketPort>(
      new ReturningPort(spec, *std::move(port), std::move(notice)));
}

ReturningPort::ReturningPort(const PortSpec& spec,
                             std::unique_ptr<PacketPort> port, Notice notice,
                             Opening open)
    : PacketPort(spec),
      notice_(std::move(notice)),
      open_(open),
      before_(figures_) {
  Take(std::move(port));
}

void ReturningPort::Take(std::unique_ptr<PacketPort> port) {
  port_ = std::move(port);
  port_->KeepMerged(keeps_merged_);
  mtu_ = port_->mtu();
  changes_ = port_->changes();
}

bool ReturningPort::Receive(PacketPort::Take take) {
  return port_ != nullptr && port_->Receive(take);
}

void ReturningPort::StopReceiving() {
  stops_ = true;
  if (port_ != nullptr) port_->StopReceiving();
}

void ReturningPort::Send(std::span<const std::byte> frame) {
  if (port_ != nullptr) {
    port_->Send(frame);
  } else {
    ++before_.send_drops;
  }
}

void ReturningPort::SendMerged(std::span<const std::byte> frame,
                               uint16_t segment_bytes) {
  if (port_ != nullptr) {
    port_->SendMerged(frame, segment_bytes);
  } else {
    ++before_.send_drops;
  }
}

void ReturningPort::KeepMerged(bool keep) {
  keeps_merged_ = keep;
  if (port_ != nullptr) port_->KeepMerged(keep);
}

void ReturningPort::Steer(std::shared_ptr<const Steering> steering) {
  spec_.steering = steering;
  if (port_ != nullptr) port_->Steer(std::move(steering));
}

absl::StatusOr<PacketReceiver> ReturningPort::HandOn() {
  if (port_ == nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("{} is lost", spec_.interface));
  }
  auto receiver = port_->HandOn();
  is_handed_on_ = receiver.ok();
  has_successor_ |= is_handed_on_;
  return receiver;
}

std::optional<uint64_t> ReturningPort::LetGo() {
  stops_ = true;
  if (port_ == nullptr) return std::nullopt;
  const std::optional<uint64_t> next = port_->LetGo();
  return is_handed_on_ ? next : std::nullopt;
}

void ReturningPort::Flush() {
  if (port_ != nullptr) port_->Flush();
}

void ReturningPort::Settle() {
  if (port_ != nullptr) port_->Settle();
}

void ReturningPort::UpdateFigures() {
  if (port_ != nullptr) {
    port_->UpdateFigures();
    const std::string news = port_->TakeNews();
    if (!news.empty()) Tell(news);
    if (!port_->status().ok()) Lose();
  } else if (!stops_ && std::chrono::steady_clock::now() >= next_look_) {
    Return();
  }
  figures_ = before_;
  if (port_ != nullptr) {
    AddCounts(figures_, port_->figures());
  } else {
    const auto down = std::chrono::steady_clock::now() - lost_at_;
    figures_.down.ns =
        std::max<int64_t>(1, std::chrono::nanoseconds(down).count());
  }
}

std::vector<PortReason> ReturningPort::reasons() const {
  if (port_ == nullptr) return reasons_before_;
  std::vector<PortReason> reasons = port_->reasons();
  if (reasons_before_.empty()) return reasons;
  // Ports of one kind have the same names.
  for (size_t i = 0; i < reasons.size(); ++i) {
    reasons[i].count += reasons_before_[i].count;
  }
  return reasons;
}

void ReturningPort::Lose() {
  port_->Settle();  // what waits there is its drop
  port_->UpdateFigures();
  reasons_before_ = reasons();
  const std::string why(port_->status().message());
  AddCounts(before_, port_->figures());
  port_.reset();
  is_handed_on_ = false;
  lost_at_ = std::chrono::steady_clock::now();
  next_look_ = lost_at_ + kPause;
  Tell(fmt::format("{}: packets to this port are dropped until it is back",
                   why));
}

void ReturningPort::Return() {
  next_look_ = std::chrono::steady_clock::now() + kPause;
  auto port = open_(spec_);
  if (!port.ok()) return;
  Take(*std::move(port));
  if (has_successor_) port_->TellSuccessor();
  Tell(fmt::format("port {}: {} is back", figures_.name, spec_.interface));
}

}  // namespace snf
