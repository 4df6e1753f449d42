// SPDX-License-Identifier: Apache-2.0
#include "platform/bypass/bypass_ports.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <utility>

namespace snf {

absl::StatusOr<BypassPorts> BypassPorts::Open(const std::string& inside,
                                              const std::string& outside) {
  BypassPorts opened;
  const std::array<PortSpec, 2> specs = {
      PortSpec{.side = Side::kInside, .interface = inside},
      PortSpec{.side = Side::kOutside, .interface = outside}};
  for (size_t i = 0; i < specs.size(); ++i) {
    auto port = PacketPort::OpenToSend(specs[i]);
    if (!port.ok()) return port.status();
    opened.ports_[i] = *std::move(port);
  }
  for (const auto& port : opened.ports_) {
    port->KeepMerged(true);
    port->Adopt(PacketReceiver(), 0);  // opens a receiver of its own
  }
  if (absl::Status s = opened.status(); !s.ok()) return s;
  return opened;
}

bool BypassPorts::Pass() {
  bool has_passed = false;
  for (size_t i = 0; i < ports_.size(); ++i) {
    PacketPort& to = *ports_[1 - i];
    has_passed |= ports_[i]->Receive([&to](const PortFrame& frame) {
      if (frame.segment_bytes > 0) {
        to.SendMerged(frame.bytes, frame.segment_bytes);
      } else {
        to.Send(frame.bytes);
      }
    });
    to.Flush();
  }
  return has_passed;
}

absl::Status BypassPorts::status() const {
  for (const auto& port : ports_) {
    if (!port->status().ok()) return port->status();
  }
  return failed_;
}

// PacketPort::UpdateFigures would claim the interface.
void BypassPorts::AddCounts(BypassCounts& counts) {
  for (size_t i = 0; i < ports_.size(); ++i) {
    tpacket_stats since = {};
    socklen_t size = sizeof since;
    if (getsockopt(ports_[i]->descriptor(), SOL_PACKET, PACKET_STATISTICS,
                   &since, &size) == 0) {
      kernel_drops_[i] += since.tp_drops;
    }
    int error = 0;
    size = sizeof error;
    if (getsockopt(ports_[i]->descriptor(), SOL_SOCKET, SO_ERROR, &error,
                   &size) == 0 &&
        error != 0) {
      failed_ = absl::UnavailableError(fmt::format(
          "{}: {}", ports_[i]->figures().interface, std::strerror(error)));
    }
    const PortFigures& figures = ports_[i]->figures();
    const Told now = {.received = figures.received,
                      .dropped = figures.refused + figures.send_drops +
                                 figures.kernel_drops + kernel_drops_[i]};
    (i == 0 ? counts.inside : counts.outside) +=
        now.received - told_[i].received;
    counts.dropped += now.dropped - told_[i].dropped;
    told_[i] = now;
  }
}

std::array<int, 2> BypassPorts::descriptors() const {
  return {ports_[0]->descriptor(), ports_[1]->descriptor()};
}

}  // namespace snf
