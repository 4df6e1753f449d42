// SPDX-License-Identifier: Apache-2.0
#include "platform/live/tap_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

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
          message + "; TAP interfaces want root or CAP_NET_ADMIN");
    }
    return absl::FailedPreconditionError(message);
  };
  Descriptor tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap.is_open()) return failed("/dev/net/tun");
  ifreq request = {};
  std::memcpy(request.ifr_name, spec.interface.data(), spec.interface.size());
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(tap.number(), TUNSETIFF, &request) != 0) {
    return failed("making it, or attaching to it");
  }
  if (!NetworkInterface(spec.interface).SetUp()) return failed("up");
  return std::unique_ptr<PacketPort>(new TapPort(spec, std::move(tap)));
}

TapPort::TapPort(const PortSpec& spec, Descriptor tap)
    : PacketPort(spec), tap_(std::move(tap)) {
  mtu_ = NetworkInterface(spec.interface).mtu();
}

// What the kernel queues from when it was stopped is lost with the interface,
// as on a cable that is pulled.
bool TapPort::Receive(Take take) {
  for (size_t i = 0; i < kBatch && !has_stopped_; ++i) {
    const ssize_t bytes = read(tap_.number(), room_.data(), room_.size());
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) Fail(errno);
      return i > 0;
    }
    if (static_cast<size_t>(bytes) > kMaxFrameBytes) {
      ++figures_.refused;
      continue;
    }
    ++figures_.received;
    take(std::span(room_).first(static_cast<size_t>(bytes)), Nanos{});
  }
  return !has_stopped_;
}

void TapPort::Send(std::span<const std::byte> frame) {
  const ssize_t bytes = write(tap_.number(), frame.data(), frame.size());
  if (bytes == static_cast<ssize_t>(frame.size())) {
    ++figures_.sent;
    return;
  }
  ++figures_.send_drops;
  if (bytes < 0 && errno == EBADFD) Fail(errno);
}

}  // namespace snf
