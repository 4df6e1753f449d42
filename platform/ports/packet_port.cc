// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/packet_port.h"

#include <fmt/format.h>
#include <time.h>

#include <cstring>

#include "platform/ports/capture_port.h"
#include "platform/ports/frames/frame_offload.h"
#include "platform/ports/gwlb_port.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_socket.h"
#include "platform/ports/routed_port.h"
#include "platform/ports/tap_port.h"
#include "platform/ports/xdp_port.h"

namespace snf {
namespace {

absl::Status CannotBeHandedOn(const PortSpec& spec) {
  return absl::FailedPreconditionError(
      fmt::format("{}: only packet sockets of one queue and TAP interfaces "
                  "can be passed to another process",
                  spec.text()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketPort>> PacketPort::Open(
    const PortSpec& spec) {
  switch (spec.kind) {
    case PortSpec::Kind::kTap:
      return TapPort::Open(spec);
    case PortSpec::Kind::kCapture:
      return CapturePort::Open(spec);
    case PortSpec::Kind::kXdp:
      return XdpPort::Open(spec);
    case PortSpec::Kind::kGwlb:
      return GwlbPort::Open(spec);
    case PortSpec::Kind::kPacket:
      break;
  }
  if (spec.router.is_routed()) return RoutedPort::Open(spec);
  return PacketSocket::Open(spec);
}

Instant PacketPort::WallClock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

PacketPort::PacketPort(const PortSpec& spec) : spec_(spec) {
  figures_.name = spec.name();
  figures_.interface = spec.interface;
}

absl::StatusOr<std::unique_ptr<PacketPort>> PacketPort::OpenToSend(
    const PortSpec& spec) {
  if (spec.queues > 1) return CannotBeHandedOn(spec);
  if (spec.router.is_routed()) return RoutedPort::OpenToSend(spec);
  if (spec.kind == PortSpec::Kind::kPacket) {
    return PacketSocket::OpenToSend(spec);
  }
  if (spec.kind == PortSpec::Kind::kTap) return TapPort::OpenToSend(spec);
  return CannotBeHandedOn(spec);
}

void PacketPort::SendMerged(std::span<const std::byte> frame,
                            uint16_t segment_bytes) {
  const size_t packets =
      CutFrame(frame, segment_bytes,
               [this](std::span<const std::byte> packet) { Send(packet); });
  if (packets == 0) {
    ++figures_.send_drops;
  } else {
    figures_.cut += packets - 1;
  }
}

void PacketPort::TakeOffloaded(std::span<std::byte> frame,
                               const FrameOffload& offload, Nanos age,
                               bool keep, Take take) {
  if (keep && offload.segment_bytes > 0 && CanStayWhole(frame, offload)) {
    ++figures_.received;
    ++figures_.merged;
    take({.bytes = frame, .age = age, .segment_bytes = offload.segment_bytes});
    return;
  }
  const size_t packets =
      FinishFrame(frame, offload, [&](std::span<const std::byte> packet) {
        take({.bytes = packet, .age = age});
      });
  figures_.received += packets;
  figures_.refused += packets == 0 ? 1 : 0;
  figures_.split += packets > 1 ? 1 : 0;
}

absl::StatusOr<PacketReceiver> PacketPort::HandOn() {
  return CannotBeHandedOn(spec_);
}

void PacketPort::Fail(int error) {
  if (!status_.ok()) return;
  const absl::Status state = NetworkInterface(spec_.interface).Check();
  status_ = absl::UnavailableError(fmt::format(
      "port {}: {}", spec_.name(),
      state.ok() ? fmt::format("{}: {}", spec_.interface, std::strerror(error))
                 : std::string(state.message())));
}

}  // namespace snf
