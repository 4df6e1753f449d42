// SPDX-License-Identifier: Apache-2.0
#include "platform/live/live_traffic.h"

#include <fmt/format.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/byte_order.h"

namespace snf {
namespace {

constexpr size_t kAddressBytes = 6;

// The address that stands first in these bytes.
uint64_t AddressAt(const std::byte* at) {
  return uint64_t{LoadBe16(at).host()} << 32 | LoadBe32(at + 2).host();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveTraffic>> LiveTraffic::Open(
    const std::vector<PortSpec>& ports, const ReturningPort::Notice& notice) {
  std::unique_ptr<LiveTraffic> traffic(new LiveTraffic);
  for (const PortSpec& spec : ports) {
    auto port = notice == nullptr ? PacketPort::Open(spec)
                                  : ReturningPort::Open(spec, notice);
    if (!port.ok()) return port.status();
    const size_t at = spec.side == Side::kInside ? kInside : kOutside;
    traffic->ports_[at] = *std::move(port);
  }
  traffic->UpdateFigures();
  return traffic;
}

absl::Status LiveTraffic::Run(LiveChains& chains,
                              const std::atomic<bool>& interrupted,
                              Mailbox* mailbox) {
  Begin(chains);
  while (!interrupted.load(std::memory_order_relaxed) && !chains.has_failed() &&
         status().ok()) {
    const bool did = Turn(chains);
    if (mailbox != nullptr) mailbox->Open();
    if (!did) WaitForFrames(chains.MayWait());
  }
  // What waits is less than this many turns.
  constexpr int kMostTurns = 10'000;
  for (const auto& port : ports_) port->StopReceiving();
  for (int i = 0; i < kMostTurns && Receive(chains); ++i) {
    chains.Poll();
    Flush();
  }
  return status();
}

void LiveTraffic::Begin(LiveChains& chains) {
  chains.Begin(PacketPort::WallClock());
}

bool LiveTraffic::Turn(LiveChains& chains) {
  constexpr Nanos kUpdatePeriod = Milliseconds(100);
  const bool has_received = Receive(chains);
  const bool did = chains.Poll();
  Flush();
  const Instant now = chains.Now();
  if (now >= next_update_) {
    next_update_ = now + kUpdatePeriod;
    UpdateFigures();
  }
  return has_received || did;
}

void LiveTraffic::Finish() {
  Flush();
  UpdateFigures();
}

void LiveTraffic::Flush() {
  for (const auto& port : ports_) port->Flush();
}

bool LiveTraffic::Receive(LiveChains& chains) {
  bool has_received = false;
  for (size_t i = 0; i < kPorts; ++i) {
    Instant now = Instant::min();  // when the frames are here
    has_received |=
        ports_[i]->Receive([&, i](std::span<const std::byte> frame, Nanos age) {
          if (now == Instant::min()) now = chains.Now();
          Offer(chains, i, frame, now + Nanos{-age.ns});
        });
  }
  return has_received;
}

void LiveTraffic::Offer(LiveChains& chains, size_t port,
                        std::span<const std::byte> frame, Instant came) {
  Learn(port, frame);
  // What came by the other port meanwhile was read first.
  last_came_ = std::max(last_came_, came);
  CapturedPacket packet;
  packet.time = last_came_;
  packet.bytes = frame;
  packet.original_bytes = static_cast<uint32_t>(frame.size());
  packet.side = SideOf(port);
  packet.number = ++offered_;
  chains.Offer(packet);
}

// Addresses of groups are no sender's. Once there is no room any more, no
// further ones are learned.
void LiveTraffic::Learn(size_t port, std::span<const std::byte> frame) {
  if (frame.size() < 2 * kAddressBytes) return;
  const auto is_group = frame[kAddressBytes] & std::byte{1};
  if (is_group != std::byte{}) return;
  const Address sender = AddressAt(&frame[kAddressBytes]);
  if (sender == last_sender_[port]) return;
  last_sender_[port] = sender;
  Address& other = last_sender_[kPorts - 1 - port];
  if (other == sender) other = 0;
  if (const auto known = learned_.find(sender); known != learned_.end()) {
    known->second = port;
  } else if (learned_.size() < kMaxLearned) {
    learned_.emplace(sender, port);
  }
}

void LiveTraffic::on_release(const ReleasedPacket& packet) {
  if (packet.comes_back) return;
  if (packet.side == Side::kUnknown) {
    SendToReceiver(packet.bytes);
  } else if (packet.side == Side::kInside) {
    ports_[kOutside]->Send(packet.bytes);
  } else if (IsFromInside(packet.bytes)) {
    SendBack(packet.bytes);
  } else {
    ports_[kInside]->Send(packet.bytes);
  }
}

void LiveTraffic::SendToReceiver(std::span<const std::byte> frame) {
  const auto known = frame.size() < kAddressBytes
                         ? learned_.end()
                         : learned_.find(AddressAt(frame.data()));
  if (known == learned_.end()) {
    ++figures_.unrouted;
  } else {
    ports_[known->second]->Send(frame);
  }
}

void LiveTraffic::SendBack(std::span<const std::byte> frame) {
  turned_.assign(frame.begin(), frame.end());
  std::swap_ranges(turned_.begin(), turned_.begin() + kAddressBytes,
                   turned_.begin() + kAddressBytes);
  ports_[kInside]->Send(turned_);
}

// The frame's sender was last seen inside.
bool LiveTraffic::IsFromInside(std::span<const std::byte> frame) const {
  if (frame.size() < 2 * kAddressBytes) return false;
  const Address sender = AddressAt(&frame[kAddressBytes]);
  if (sender == last_sender_[kOutside]) return false;
  const auto known = learned_.find(sender);
  return known != learned_.end() && known->second == kInside;
}

void LiveTraffic::WaitForFrames(Nanos most) const {
  if (most.ns <= 0) {
    std::this_thread::yield();
    return;
  }
  std::array<pollfd, kPorts> wanted = {};
  for (size_t i = 0; i < kPorts; ++i) {
    wanted[i] = {.fd = ports_[i]->descriptor(), .events = POLLIN, .revents = 0};
  }
  const timespec timeout = {.tv_sec = most.ns / 1'000'000'000,
                            .tv_nsec = most.ns % 1'000'000'000};
  ppoll(wanted.data(), wanted.size(), &timeout, nullptr);
}

void LiveTraffic::UpdateFigures() {
  figures_.ports.clear();
  for (const auto& port : ports_) {
    port->UpdateFigures();
    figures_.ports.push_back(port->figures());
  }
}

absl::Status LiveTraffic::status() const {
  for (const auto& port : ports_) {
    if (!port->status().ok()) return port->status();
  }
  return absl::OkStatus();
}

std::string LiveTraffic::WhatDoesNotAddUp(
    const RunResult& result, const std::vector<EarlierChain>& earlier) const {
  uint64_t received = 0;
  uint64_t left = figures_.unrouted + result.aliases.packets_hairpinned;
  for (const PortFigures& port : figures_.ports) {
    received += port.received;
    left += port.sent + port.send_drops;
  }
  uint64_t came_in = result.packets_in;
  uint64_t released = result.packets_released + result.packets_passed_through;
  for (const EarlierChain& chain : earlier) {
    came_in += chain.packets_in;
    released += chain.packets_released + chain.packets_passed_through;
    left += chain.packets_hairpinned;
  }
  if (received != came_in) {
    return fmt::format("ports received {} packets, and {} came in", received,
                       came_in);
  }
  if (left == released) return "";
  return fmt::format("{} packets were released, and ports account for {}",
                     released, left);
}

std::vector<std::string> LiveTraffic::notes() const {
  std::vector<std::string> notes;
  for (const auto& port : ports_) {
    if (port->changes().empty()) continue;
    notes.push_back(fmt::format("{} ({}): {} while this runs",
                                port->figures().name, port->figures().interface,
                                port->changes()));
  }
  const PacketPort& inside = *ports_[kInside];
  const PacketPort& outside = *ports_[kOutside];
  const bool have_mtus = inside.mtu() != 0 && outside.mtu() != 0;
  if (have_mtus && inside.mtu() != outside.mtu()) {
    notes.push_back(fmt::format(
        "inside has an MTU of {}, outside of {}: what is too long for the "
        "other is dropped, and counted",
        inside.mtu(), outside.mtu()));
  }
  return notes;
}

}  // namespace snf
