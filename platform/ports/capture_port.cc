// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/capture_port.h"

#include <fmt/format.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/ring/real_clock.h"
#include "traces/capture_format.h"

namespace snf {
namespace {

absl::Status OfPort(const PortSpec& spec, const absl::Status& status) {
  return {status.code(), fmt::format("port {}: {}", spec.name(),
                                     std::string(status.message()))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketPort>> CapturePort::Open(
    const PortSpec& spec) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(spec.interface, ignored).type();
  if (kind != std::filesystem::file_type::regular &&
      kind != std::filesystem::file_type::not_found) {
    return OfPort(spec, absl::InvalidArgumentError(fmt::format(
                            "{}: is not a regular file", spec.interface)));
  }
  auto reader = CaptureReader::Open(spec.interface);
  if (!reader.ok()) return OfPort(spec, reader.status());
  Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.is_open()) {
    return OfPort(spec, absl::UnavailableError(
                            fmt::format("a timer: {}", std::strerror(errno))));
  }
  std::unique_ptr<CapturePort> port(
      new CapturePort(spec, *std::move(reader), std::move(timer)));
  if (!port->status().ok()) return port->status();
  if (absl::Status s = port->CheckFirst(); !s.ok()) return OfPort(spec, s);
  return port;
}

CapturePort::CapturePort(const PortSpec& spec,
                         std::unique_ptr<CaptureReader> reader,
                         Descriptor timer)
    : PacketPort(spec),
      reader_(std::move(reader)),
      timer_(std::move(timer)),
      gate_(spec.steering, spec.side) {
  if (spec.steering != nullptr) program_ = spec.steering->Program(spec.side);
  Read();
}

// Else a run would refuse frame after frame, and tell so only in its figures.
absl::Status CapturePort::CheckFirst() const {
  if (!next_.has_value()) return absl::OkStatus();
  if (next_->link != LinkType::kEthernet) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: packet 1 is not an Ethernet frame, but has link type {}",
        spec_.interface,
        next_->link_number != 0 ? next_->link_number
                                : LinkTypeNumber(next_->link)));
  }
  if (next_->bytes.size() != next_->original_bytes) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: packet 1 was captured only in part: {} of {} bytes",
        spec_.interface, next_->bytes.size(), next_->original_bytes));
  }
  return absl::OkStatus();
}

// A capture that goes bad in its midst ends the run, as an interface that is
// gone.
void CapturePort::Read() {
  CapturedPacket packet;
  const ReadResult result = reader_->Next(packet);
  if (result == ReadResult::kPacket) {
    next_ = packet;
    return;
  }
  next_.reset();
  SetTimer(Nanos{0});
  if (result == ReadResult::kError) status_ = OfPort(spec_, reader_->status());
}

// 0: never.
void CapturePort::SetTimer(Nanos from_now) {
  itimerspec due = {};
  due.it_value.tv_sec = from_now.ns / 1'000'000'000;
  due.it_value.tv_nsec = from_now.ns % 1'000'000'000;
  timerfd_settime(timer_.number(), 0, &due, nullptr);
}

// Returns true if the frame is this controller's: each controller reads the
// whole capture.
bool CapturePort::IsOwn(Instant now) {
  if (program_.empty()) return true;
  if (!Takes(program_, next_->bytes)) return false;
  if (gate_.LetsIn(next_->bytes, now)) return true;
  ++figures_.foreign;
  return false;
}

bool CapturePort::Receive(Take take) {
  if (!next_.has_value()) return false;
  const Instant now = RealClock::Monotonic();
  if (!ahead_.has_value()) ahead_ = next_->time - now;
  for (size_t i = 0; i < kBatch && next_.has_value(); ++i) {
    const Nanos left = next_->time - (now + *ahead_);
    if (left.ns > 0) {
      SetTimer(left);
      return i > 0;
    }
    const bool is_whole = next_->bytes.size() == next_->original_bytes;
    if (next_->link == LinkType::kEthernet && is_whole &&
        next_->bytes.size() <= kMaxFrameBytes) {
      if (IsOwn(now)) {
        ++figures_.received;
        take({.bytes = next_->bytes, .age = Nanos{-left.ns}});
      }
    } else {
      ++figures_.refused;
    }
    Read();
  }
  return true;
}

}  // namespace snf
