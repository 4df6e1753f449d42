// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/routed_port.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "platform/ports/frames/frame_offload.h"
#include "platform/ports/packet_socket.h"
#include "platform/ports/port_notes.h"

namespace snf {
namespace {

RouterConfig WithMacsBeside(const RouterConfig& router) {
  RouterConfig with = router;
  for (const std::string& interface : router.interfaces_beside) {
    const MacAddress mac = NetworkInterface(interface).mac();
    if (mac != MacAddress{}) with.macs_beside.push_back(mac);
  }
  return with;
}

std::string RouterClaim(const ControllerOf& controller) {
  return "router " + controller.text();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RoutedPort>> RoutedPort::OpenAround(
    const PortSpec& spec, Opening open) {
  if (absl::Status s = CheckKernel(spec); !s.ok()) return s;
  auto port = open(spec);
  if (!port.ok()) return port.status();
  std::unique_ptr<RoutedPort> routed(new RoutedPort(spec, *std::move(port)));
  if (absl::Status s = routed->ReadRoutes(); !s.ok()) return s;
  return routed;
}

absl::StatusOr<std::unique_ptr<PacketPort>> RoutedPort::Open(
    const PortSpec& spec) {
  auto routed = OpenAround(spec, &PacketSocket::Open);
  if (!routed.ok()) return routed.status();
  (*routed)->BeginReading();
  if ((*routed)->is_to_advertise()) {
    (*routed)->router_.Announce();
    (*routed)->port_->Flush();
  } else {
    (*routed)->router_.LeaveAdvertising();
  }
  return *std::move(routed);
}

absl::StatusOr<std::unique_ptr<PacketPort>> RoutedPort::OpenToSend(
    const PortSpec& spec) {
  auto routed = OpenAround(
      spec,
      +[](const PortSpec& one) -> absl::StatusOr<std::unique_ptr<PacketPort>> {
        return PacketSocket::OpenToSend(one);
      });
  if (!routed.ok()) return routed.status();
  (*routed)->router_.LeaveAdvertising();
  return *std::move(routed);
}

RoutedPort::RoutedPort(const PortSpec& spec, std::unique_ptr<PacketPort> port)
    : PacketPort(spec),
      interface_(spec.interface),
      port_(std::move(port)),
      router_(WithMacsBeside(spec.router), interface_.mac(), *this),
      answers_(spec.steering) {
  changes_ = port_->changes();
  router_.set_mtu(interface_.mtu());
  if (spec.steering != nullptr)
    places_ = spec.steering->PlaceProgram(spec.side);
}

// Controllers that share the port see each other by claims of their own, which
// last as long as they read frames. Others may start later than this one.
void RoutedPort::BeginReading() {
  constexpr Nanos kOthersStart = Seconds(5);
  reads_ = true;
  if (answers_ == nullptr) return;
  interface_.Claim(RouterClaim(answers_->controller()));
  next_look_ = Now() + kOthersStart;
}

bool RoutedPort::is_to_advertise() const {
  return answers_ == nullptr || answers_->Owns(Steering::kRest);
}

bool RoutedPort::IsToAnswer(std::span<const std::byte> frame) const {
  if (answers_ == nullptr) return true;
  const uint32_t place = ResultOf(places_, frame) - 1;
  return place < Steering::kPlaces && answers_->Owns(place);
}

MemberSet RoutedPort::OtherRouters() const {
  const ControllerOf self = answers_->controller();
  MemberSet others = 0;
  for (uint32_t id = 0; id < self.count; ++id) {
    const ControllerOf other = {.id = id, .count = self.count};
    if (id != self.id && interface_.is_claimed(RouterClaim(other))) {
      others |= SetOf(id);
    }
  }
  return others;
}

// Answers for controllers that are gone, until they are back.
void RoutedPort::LookAtOthers(Instant now) {
  constexpr Nanos kPause = Seconds(1);
  if (answers_ == nullptr || !reads_ || now < next_look_) return;
  next_look_ = now + kPause;
  const bool did_advertise = is_to_advertise();
  const uint32_t self = answers_->controller().id;
  answers_ = spec_.steering->Among(OtherRouters() | SetOf(self));
  if (is_to_advertise() == did_advertise) return;
  if (did_advertise) {
    router_.LeaveAdvertising();
  } else {
    router_.TakeOverAdvertising(now);
  }
}

absl::StatusOr<PacketReceiver> RoutedPort::HandOn() {
  auto receiver = port_->HandOn();
  if (receiver.ok()) TellSuccessor();
  return receiver;
}

void RoutedPort::TellSuccessor() { is_handed_on_ = is_to_tell_known_ = true; }

// The next process advertises the router: hosts are not to leave it.
std::optional<uint64_t> RoutedPort::LetGo() {
  has_stopped_ = true;
  return port_->LetGo();
}

void RoutedPort::Overhear(const PortFrame& frame, Instant now) {
  if (frame.news == NeighbourNews::kNone) {
    port_->Overhear(frame, now);
  } else {
    router_.Overhear(Now() + Nanos{-frame.age.ns}, frame.bytes, frame.news);
  }
}

void RoutedPort::Adopt(PacketReceiver receiver, uint64_t next) {
  port_->Adopt(std::move(receiver), next);
  BeginReading();
  if (is_to_advertise()) router_.TakeOverAdvertising(Now());
}

void RoutedPort::TellKnown(Instant now, Take take) {
  is_to_tell_known_ = false;
  router_.TellKnown(now, [&](std::span<const std::byte> frame, Nanos age) {
    take({.bytes = frame, .age = age, .news = NeighbourNews::kKnown});
  });
}

void RoutedPort::TellNews(Instant now, const PortFrame& frame, Take take) {
  const NeighbourNews news = router_.TakeNews(now);
  if (news == NeighbourNews::kNone) return;
  take({.bytes = frame.bytes, .age = frame.age, .news = news});
}

absl::Status RoutedPort::ReadRoutes() {
  if (spec_.router.kernel_table == 0) return absl::OkStatus();
  auto routes = KernelRoutes::Open(spec_.router, spec_.interface);
  if (!routes.ok()) {
    return absl::Status(routes.status().code(),
                        fmt::format("port {}: {}", spec_.name(),
                                    std::string(routes.status().message())));
  }
  routes_ = *std::move(routes);
  TakeRoutes();
  return absl::OkStatus();
}

void RoutedPort::TakeRoutes() {
  router_.SetLearnedRoutes(routes_->routes(), routes_->rules());
  router_.CountUnusedRoutes(routes_->unused());
}

void RoutedPort::UpdateRoutes() {
  if (!routes_.has_value()) return;
  const std::string before = routes_->not_followed();
  switch (routes_->Update(Now())) {
    case KernelRoutes::News::kNone:
      break;
    case KernelRoutes::News::kTaken:
      TakeRoutes();
      break;
    case KernelRoutes::News::kNotFollowed:
      router_.CountRulesNotFollowed();
      break;
  }
  TellNotFollowed(before);
}

void RoutedPort::TellNotFollowed(const std::string& before) {
  const std::string& now = routes_->not_followed();
  if (now == before) return;
  news_ = now.empty() ? fmt::format("port {}: follows the kernel's rules again",
                                    spec_.name())
                      : fmt::format(
                            "port {}: {}: it keeps its rules and routes until "
                            "that rule is gone",
                            spec_.name(), now);
}

Instant RoutedPort::Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

bool RoutedPort::Receive(Take take) {
  const bool had_returned = ReceiveOwn(take);
  const Instant now = Now();
  if (is_to_tell_known_) TellKnown(now, take);
  const bool had_frames = port_->Receive([&](const PortFrame& frame) {
    const auto passed = router_.Take(now, frame.bytes);
    if (is_handed_on_) TellNews(now, frame, take);
    if (passed.empty()) return;
    ++figures_.received;
    take({.bytes = passed,
          .age = frame.age,
          .segment_bytes = frame.segment_bytes});
  });
  return had_returned || had_frames;
}

bool RoutedPort::ReceiveOwn(Take take) {
  return returned_.Give([&](std::span<const std::byte> frame) {
    ++figures_.received;
    take({.bytes = frame});
  });
}

void RoutedPort::StopReceiving() {
  has_stopped_ = true;
  if (answers_ != nullptr) {
    // The last controller takes leave, also if another one has advertised.
    interface_.Unclaim();
    if (OtherRouters() != 0) {
      router_.LeaveAdvertising();
    } else if (!is_to_advertise()) {
      router_.TakeOverAdvertising(Now());
    }
  }
  router_.TakeLeave();
  port_->StopReceiving();
}

void RoutedPort::Send(std::span<const std::byte> frame) {
  router_.Send(Now(), frame);
}

void RoutedPort::SendMerged(std::span<const std::byte> frame,
                            uint16_t segment_bytes) {
  if (router_.SendMerged(Now(), frame, segment_bytes)) return;
  const size_t packets =
      CutFrame(frame, segment_bytes,
               [this](std::span<const std::byte> packet) { Send(packet); });
  if (packets == 0) {
    ++uncut_;
  } else {
    own_cut_ += packets - 1;
  }
}

void RoutedPort::SendRoutedMerged(std::span<const std::byte> frame,
                                  uint16_t segment_bytes) {
  port_->SendMerged(frame, segment_bytes);
}

void RoutedPort::SendRouted(std::span<const std::byte> frame) {
  port_->Send(frame);
}

void RoutedPort::SendOwn(std::span<const std::byte> frame) {
  port_->Send(frame);
}

bool RoutedPort::ReturnToChain(std::span<const std::byte> frame) {
  return !has_stopped_ && returned_.Add(frame);
}

void RoutedPort::UpdateFigures() {
  port_->UpdateFigures();
  status_ = port_->status();
  router_.set_mtu(interface_.mtu());
  // No later call sends the packets that wait.
  if (has_stopped_ || !status_.ok()) {
    router_.GiveUp();
  } else {
    UpdateRoutes();
    LookAtOthers(Now());
    router_.Tick(Now());
  }
  const PortFigures& below = port_->figures();
  const RouterCounters& counts = router_.counts();
  figures_.split = below.split;
  figures_.merged = below.merged;
  figures_.refused = below.refused;
  figures_.kernel_drops = below.kernel_drops;
  figures_.foreign = below.foreign;
  // Frames of the router's own that the kernel did not take count as packets.
  const uint64_t given = counts[RouterCount::kRouted] + below.cut;
  const uint64_t not_taken = std::min(below.send_drops, given);
  figures_.sent = given - not_taken;
  figures_.cut = own_cut_ + below.cut;
  figures_.send_drops = not_taken + counts.not_routed() + uncut_;
  figures_.too_long =
      counts[RouterCount::kTooBig] + std::min(below.too_long, not_taken);
  figures_.router.resize(kRouterCounts);
  for (size_t i = 0; i < kRouterCounts; ++i) {
    const auto count = static_cast<RouterCount>(i);
    figures_.router[i] = {std::string(Name(count)), counts[count]};
  }
}

}  // namespace snf
