// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/tap_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace snf {

absl::StatusOr<std::unique_ptr<PacketPort>> TapPort::Open(
    const PortSpec& spec) {
  const auto failed = [&spec](const char* what) {
    const std::string message =
        fmt::format("port {}: tap {}: {}: {}", spec.name(), spec.interface,
                    what, std::strerror(errno));
    if (errno == EPERM || errno == EACCES) {
      return absl::PermissionDeniedError(
          message + "; TAP interfaces need root or CAP_NET_ADMIN");
    }
    return absl::FailedPreconditionError(message);
  };
  const bool is_new = NetworkInterface(spec.interface).index() == 0;
  Descriptor tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap.is_open()) return failed("/dev/net/tun");
  ifreq request = {};
  std::memcpy(request.ifr_name, spec.interface.data(), spec.interface.size());
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tap.number(), TUNSETIFF, &request) != 0) {
    return failed("creating it, or attaching to it");
  }
  NetworkInterface interface(spec.interface);
  // Or else some milliseconds without a turn would be too long.
  if (is_new) interface.QueueFrames(kQueued);
  if (!interface.SetUp()) return failed("up");
  return std::unique_ptr<PacketPort>(new TapPort(spec, std::move(tap)));
}

absl::StatusOr<std::unique_ptr<PacketPort>> TapPort::OpenToSend(
    const PortSpec& spec) {
  if (absl::Status s = NetworkInterface(spec.interface).Check(); !s.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("port {}: {}", spec.name(), std::string(s.message())));
  }
  return std::unique_ptr<PacketPort>(new TapPort(spec, Descriptor()));
}

absl::StatusOr<PacketReceiver> TapPort::HandOn() {
  Descriptor another(fcntl(tap_.number(), F_DUPFD_CLOEXEC, 0));
  if (another.is_open()) {
    is_handed_on_ = true;
    return PacketReceiver{.socket = std::move(another)};
  }
  return absl::FailedPreconditionError(
      fmt::format("port {}: tap {}: another descriptor: {}", spec_.name(),
                  spec_.interface, std::strerror(errno)));
}

void TapPort::Expect(const PacketReceiver& receiver) {
  tap_ = Descriptor(fcntl(receiver.socket.number(), F_DUPFD_CLOEXEC, 0));
  if (!tap_.is_open()) {
    Fail(errno);
    return;
  }
  TakeOffloads();
}

TapPort::TapPort(const PortSpec& spec, Descriptor tap)
    : PacketPort(spec),
      interface_(spec.interface),
      tap_(std::move(tap)),
      unsent_before_(interface_.unsent()) {
  mtu_ = interface_.mtu();
  if (tap_.is_open()) TakeOffloads();
}

void TapPort::TakeOffloads() {
  ifreq request = {};
  has_offloads_ = ioctl(tap_.number(), TUNGETIFF, &request) == 0 &&
                  (request.ifr_flags & IFF_VNET_HDR) != 0;
  if (!has_offloads_) return;
  // The size is the interface's, and may be another program's.
  const int header_bytes = sizeof(OffloadHeader);
  if (ioctl(tap_.number(), TUNSETVNETHDRSZ, &header_bytes) != 0) Fail(errno);
  // If the kernel refuses, it does the work itself.
  ioctl(tap_.number(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6);
}

// An interface that outlives the port has no offloads, which the next program
// may not know.
TapPort::~TapPort() {
  if (has_offloads_ && !is_handed_on_) {
    ioctl(tap_.number(), TUNSETOFFLOAD, 0);
  }
}

void TapPort::UpdateFigures() {
  // An interface that is gone counts from 0.
  figures_.kernel_drops =
      std::max(interface_.unsent(), unsent_before_) - unsent_before_;
}

// Frames that the kernel queues after the stop are lost with the interface, as
// on a pulled cable.
bool TapPort::Receive(Take take) {
  const size_t header_bytes = has_offloads_ ? sizeof(OffloadHeader) : 0;
  for (size_t i = 0; i < kBatch && !has_stopped_; ++i) {
    const ssize_t bytes = read(tap_.number(), room_.data(), room_.size());
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) Fail(errno);
      return i > 0;
    }
    const auto all = std::span(room_).first(static_cast<size_t>(bytes));
    if (all.size() < header_bytes ||
        all.size() > header_bytes + kMaxFrameBytes) {
      ++figures_.refused;
      continue;
    }
    OffloadHeader header{};
    std::memcpy(&header, all.data(), header_bytes);
    const std::optional<FrameOffload> offload = ReadOffload(header, 0);
    if (!offload.has_value()) {
      ++figures_.refused;
      continue;
    }
    TakeOffloaded(all.subspan(header_bytes), *offload, Nanos{}, keeps_merged_,
                  take);
  }
  return !has_stopped_;
}

void TapPort::Send(std::span<const std::byte> frame) {
  OffloadHeader plain{};
  std::array<iovec, 2> parts = {
      {{&plain, sizeof plain},
       {const_cast<std::byte*>(frame.data()), frame.size()}}};
  if (const int error = Write(parts); error != 0) CountUnsent(error);
}

void TapPort::SendMerged(std::span<const std::byte> frame,
                         uint16_t segment_bytes) {
  MergedFrame merged;
  if (!has_offloads_ ||
      !merged.Describe(frame, segment_bytes, mtu_ + ETH_HLEN)) {
    PacketPort::SendMerged(frame, segment_bytes);
    return;
  }
  const int error = Write(merged.parts());
  if (error == EINVAL) {
    // A kernel before 6.2 does not take frames of several UDP packets.
    PacketPort::SendMerged(frame, segment_bytes);
  } else if (error != 0) {
    CountUnsent(error);
  }
}

int TapPort::Write(std::span<iovec> parts) {
  if (!has_offloads_) parts = parts.subspan(1);
  if (writev(tap_.number(), parts.data(), static_cast<int>(parts.size())) < 0) {
    return errno;
  }
  ++figures_.sent;
  return 0;
}

void TapPort::CountUnsent(int error) {
  ++figures_.send_drops;
  if (error == EBADFD) Fail(error);
}

}  // namespace snf
