// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/successor_port.h"

#include <algorithm>

namespace snf {

absl::StatusOr<std::unique_ptr<SuccessorPort>> SuccessorPort::Open(
    const PortSpec& spec) {
  auto port = PacketPort::OpenToSend(spec);
  if (!port.ok()) return port.status();
  return std::unique_ptr<SuccessorPort>(
      new SuccessorPort(spec, *std::move(port)));
}

SuccessorPort::SuccessorPort(const PortSpec& spec,
                             std::unique_ptr<PacketPort> port)
    : PacketPort(spec), port_(std::move(port)) {
  mtu_ = port_->mtu();
}

void SuccessorPort::Begin(FrameChannel channel, PacketReceiver receiver) {
  channel_ = std::move(channel);
  receiver_ = std::move(receiver);
  port_->Expect(receiver_);
}

bool SuccessorPort::Receive(PacketPort::Take take) {
  if (!has_predecessor()) return port_->Receive(take);
  const Instant now = WallClock();
  const FrameChannel::Taken taken =
      channel_.Receive([&](PortFrame frame, Instant came) {
        ++passed_on_;
        port_->Overhear(frame.bytes, now);
        frame.age = std::max(now - came, Nanos{});
        take(frame);
      });
  if (taken.is_over) {
    port_->Adopt(std::move(receiver_), taken.last.next_slot);
  }
  return taken.any || taken.is_over;
}

// The daemon before is to be told first.
void SuccessorPort::StopReceiving() {
  channel_.Close();
  port_->StopReceiving();
}

void SuccessorPort::UpdateFigures() {
  port_->UpdateFigures();
  figures_ = port_->figures();
  figures_.received += passed_on_;
  if (!has_predecessor()) status_ = port_->status();
}

absl::StatusOr<PacketReceiver> SuccessorPort::HandOn() {
  if (!has_predecessor()) return port_->HandOn();
  return absl::FailedPreconditionError("the previous daemon still has flows");
}

}  // namespace snf
