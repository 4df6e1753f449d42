// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/successor_port.h"

#include <algorithm>
#include <utility>

#include "platform/ports/frames/frame_offload.h"
#include "platform/run/figures/figures.h"

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
    : PacketPort(spec), port_(std::move(port)), before_(figures_) {
  mtu_ = port_->mtu();
}

void SuccessorPort::Begin(FrameChannel channel, PacketReceiver receiver) {
  channel_ = std::move(channel);
  receiver_ = std::move(receiver);
  port_->Expect(receiver_);
}

bool SuccessorPort::Receive(PacketPort::Take take) {
  if (!has_predecessor()) return port_->Receive(take);
  const bool had_own = port_->ReceiveOwn(take);
  const Instant now = WallClock();
  const FrameChannel::Taken taken =
      channel_.Receive([&](PortFrame frame, Instant came) {
        frame.age = std::max(now - came, Nanos{});
        port_->Overhear(frame, now);
        if (frame.news == NeighbourNews::kNone) Give(frame, take);
      });
  if (taken.is_over) {
    port_->Adopt(std::move(receiver_), taken.last.next_slot);
    // The receiver has the predecessor's filter.
    if (steering_ != nullptr) port_->Steer(steering_);
  }
  return taken.any || taken.is_over || had_own;
}

// The chains of the predecessor may take frames whole that these do not.
void SuccessorPort::Give(const PortFrame& frame, PacketPort::Take take) {
  if (frame.segment_bytes == 0 || keeps_merged_) {
    ++passed_on_;
    take(frame);
    return;
  }
  const size_t packets = CutFrame(frame.bytes, frame.segment_bytes,
                                  [&](std::span<const std::byte> packet) {
                                    take({.bytes = packet, .age = frame.age});
                                  });
  passed_on_ += packets;
  refused_ += packets == 0 ? 1 : 0;
}

// The daemon before is to be told first.
void SuccessorPort::StopReceiving() {
  channel_.Close();
  port_->StopReceiving();
}

void SuccessorPort::UpdateFigures() {
  port_->UpdateFigures();
  if (has_predecessor() && !port_->status().ok()) Return();
  figures_ = before_;
  AddCounts(figures_, port_->figures());
  figures_.received += passed_on_;
  figures_.refused += refused_;
  if (!has_predecessor()) status_ = port_->status();
}

void SuccessorPort::Return() {
  auto port = PacketPort::OpenToSend(spec_);
  if (!port.ok()) return;
  port_->Settle();
  port_->UpdateFigures();
  AddCounts(before_, port_->figures());
  port_ = *std::move(port);
  port_->KeepMerged(keeps_merged_);
  port_->Expect(receiver_);
}

absl::StatusOr<PacketReceiver> SuccessorPort::HandOn() {
  if (!has_predecessor()) return port_->HandOn();
  return absl::FailedPreconditionError("the previous daemon still has flows");
}

}  // namespace snf
