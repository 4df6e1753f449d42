// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_traffic.h"

#include <fmt/format.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr size_t kAddressBytes = 6;

Side OtherSide(Side side) {
  return side == Side::kInside ? Side::kOutside : Side::kInside;
}

// Error: FailedPrecondition, flows of the chains cannot go along.
absl::Status CheckGivingPlace(GroupTraffic& group, ChainSet& chains) {
  const auto refuse = [](const std::string& why) {
    return absl::FailedPreconditionError(why);
  };
  if (group.giving() != nullptr) return refuse("it gives its place away");
  if (chains.has_rules()) {
    return refuse("flows of several chains do not go along");
  }
  if (chains.only().is_down()) {
    return refuse("its chain has failed, and restarts: try again");
  }
  if (const uint64_t older = chains.only().older_flows(); older > 0) {
    return refuse(fmt::format(
        "{} flows of an earlier chain do not go along: try again once that "
        "chain has ended",
        older));
  }
  return group.CheckGiving();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveTraffic>> LiveTraffic::Open(
    const std::vector<PortSpec>& ports, const ReturningPort::Notice& notice) {
  std::unique_ptr<LiveTraffic> traffic(new LiveTraffic);
  for (const PortSpec& spec : ports) {
    auto port = notice == nullptr ? PacketPort::Open(spec)
                                  : ReturningPort::Open(spec, notice);
    if (!port.ok()) return port.status();
    traffic->places_.push_back({spec.side, *std::move(port)});
    traffic->routes_ |= spec.router.is_routed();
  }
  traffic->notice_ = notice;
  traffic->UpdateFigures();
  return traffic;
}

absl::StatusOr<std::unique_ptr<LiveTraffic>> LiveTraffic::OpenAsSuccessor(
    const std::vector<PortSpec>& ports, const ReturningPort::Notice& notice) {
  std::unique_ptr<LiveTraffic> traffic(new LiveTraffic);
  for (const PortSpec& spec : ports) {
    auto port = SuccessorPort::Open(spec);
    if (!port.ok()) return port.status();
    traffic->successors_.push_back(port->get());
    traffic->places_.push_back(
        {spec.side,
         std::make_unique<ReturningPort>(spec, *std::move(port), notice)});
    traffic->routes_ |= spec.router.is_routed();
  }
  traffic->notice_ = notice;
  traffic->UpdateFigures();
  return traffic;
}

absl::Status LiveTraffic::Run(ChainSet& chains,
                              const std::atomic<bool>& interrupted,
                              Mailbox* mailbox) {
  Begin(chains);
  while (!interrupted.load(std::memory_order_relaxed) && !chains.has_failed() &&
         status().ok() && !IsSucceeded(chains)) {
    const bool did = Turn(chains);
    if (mailbox != nullptr) mailbox->Open();
    if (!did) WaitForFrames(chains);
  }
  if (group_ != nullptr && group_->giving() != nullptr) {
    group_->giving()->CallOff();
    TurnGiving(chains);
  }
  if (has_predecessor()) AwaitPredecessor(chains);
  LookAtSuccessor(chains);
  if (has_handed_on()) {
    // Frames of this process leave before the frames of its successor.
    for (const Place& place : places_) place.port->Settle();
    for (size_t i = 0; i < places_.size(); ++i) {
      const std::optional<uint64_t> next = places_[i].port->LetGo();
      channels_[i].Finish({next.value_or(LastOfPort::kNowhere)});
    }
    if (group_ != nullptr) group_->StopStates();
    return status();
  }
  for (const Place& place : places_) place.port->StopReceiving();
  Drain(chains);
  if (group_ != nullptr) {
    SettleHeirs(chains);
    LeaveGroup(chains);
  }
  return status();
}

bool LiveTraffic::IsSucceeded(ChainSet& chains) {
  if (group_ != nullptr) {
    return group_->giving() != nullptr &&
           group_->giving()->state() == PlaceGiving::State::kIsGone;
  }
  if (!has_handed_on() || !chains.is_over()) return false;
  const bool has_waiting = std::ranges::any_of(
      places_, [](const Place& place) { return place.port->has_waiting(); });
  if (has_waiting && may_receive(chains)) return false;
  LookAtSuccessor(chains);
  return has_handed_on();
}

// PlaceGiving looks for itself.
void LiveTraffic::LookAtSuccessor(ChainSet& chains) {
  if (group_ != nullptr) return;
  if (std::ranges::none_of(channels_, &FrameChannel::has_lost_receiver)) return;
  channels_.clear();
  chains.Resume();
  if (notice_ != nullptr) {
    notice_("who was to take the place of this one has ended: it goes on");
  }
}

void LiveTraffic::Drain(ChainSet& chains) {
  // Fewer turns than these take all frames that wait.
  constexpr int kMostTurns = 10'000;
  bool did = true;
  for (int i = 0; i < kMostTurns && did; ++i) {
    if (group_ != nullptr) FollowGroup(false);
    TurnHeirs(chains);
    did = ReceiveAtPorts(chains);
    // Does not wait for the end of these: other members may send at any time.
    ReceiveFromGroup(chains);
    chains.Poll();
    Flush();
  }
}

bool LiveTraffic::TurnWithoutPorts(ChainSet& chains) {
  FollowGroup(false);
  TurnHeirs(chains);
  const bool has_received = ReceiveFromGroup(chains);
  const bool did = chains.Poll();
  Flush();
  return has_received || did;
}

// The heir is to have the newest states before it has the hosts. A sweep that
// has begun has passed some flows already.
void LiveTraffic::SettleHeirs(ChainSet& chains) {
  constexpr Nanos kMost = Milliseconds(500);
  FlowHeirs* const heirs = group_->heirs();
  if (heirs == nullptr || DriverOfHeirs(chains) == nullptr) return;
  const uint64_t sweep = heirs->sweeps() + 2;
  const Instant end = RealClock::Monotonic() + kMost;
  while (heirs->IsBehind(sweep) && RealClock::Monotonic() < end) {
    if (!TurnWithoutPorts(chains)) WaitForFrames(chains);
  }
}

// Other members send this one its frames until the table is without it.
void LiveTraffic::LeaveGroup(ChainSet& chains) {
  constexpr Nanos kMost = Seconds(1);
  group_->Leave();
  if (!group_->has_own_ports()) return;
  const Instant end = RealClock::Monotonic() + kMost;
  bool was_in = true;
  while (was_in && RealClock::Monotonic() < end) {
    const bool did = TurnWithoutPorts(chains);
    was_in = group_->is_in();
    if (!did && was_in) WaitForFrames(chains);
  }
}

void LiveTraffic::Follow(std::unique_ptr<GroupTraffic> group) {
  group_ = std::move(group);
  group_->Begin();
}

void LiveTraffic::AddGroup(LiveFigures& figures) const {
  if (group_ != nullptr) group_->AddTo(figures);
}

void LiveTraffic::FollowGroup(bool steers) {
  if (auto steering = group_->Turn(); steering != nullptr && steers) {
    for (const Place& place : places_) place.port->Steer(steering);
  }
  group_->OnTurned();
}

// Flows of one chain's newest generation go along.
RealDriver* LiveTraffic::DriverOfHeirs(ChainSet& chains) const {
  if (group_ == nullptr || group_->heirs() == nullptr || chains.has_rules() ||
      chains.only().is_down()) {
    return nullptr;
  }
  return &chains.only().newest();
}

void LiveTraffic::TurnHeirs(ChainSet& chains) {
  if (group_ == nullptr || group_->heirs() == nullptr) return;
  group_->heirs()->Turn(DriverOfHeirs(chains), chains.Now());
}

bool LiveTraffic::may_receive(const ChainSet& chains) const {
  return !chains.has_no_unit() && (group_ == nullptr || group_->may_receive());
}

void LiveTraffic::Begin(ChainSet& chains) {
  chains.Begin(PacketPort::WallClock());
}

bool LiveTraffic::Turn(ChainSet& chains) {
  constexpr Nanos kUpdatePeriod = Milliseconds(100);
  KeepMerged(keeps_merged_ && chains.takes_merged());
  if (group_ != nullptr) FollowGroup(true);
  TurnHeirs(chains);
  TurnGiving(chains);
  // What cannot go anywhere waits in the ports' rings.
  const bool has_received = may_receive(chains) && Receive(chains);
  const bool did = chains.Poll();
  Flush();
  const Instant now = chains.Now();
  if (now >= next_update_) {
    next_update_ = now + kUpdatePeriod;
    UpdateFigures();
    LookAtSuccessor(chains);
  }
  if (!has_received && !did) return false;
  idle_wait_ = {};
  return true;
}

void LiveTraffic::Finish() {
  for (const Place& place : places_) place.port->Settle();
  UpdateFigures();
}

void LiveTraffic::KeepMerged(bool keep) {
  if (keep == are_kept_) return;
  are_kept_ = keep;
  for (const Place& place : places_) place.port->KeepMerged(keep);
}

void LiveTraffic::Flush() {
  for (const Place& place : places_) place.port->Flush();
  if (group_ != nullptr) group_->Flush();
}

bool LiveTraffic::Receive(ChainSet& chains) {
  const bool has_received = ReceiveAtPorts(chains);
  return ReceiveFromGroup(chains) || has_received;
}

bool LiveTraffic::ReceiveAtPorts(ChainSet& chains) {
  bool has_received = false;
  for (size_t i = 0; i < places_.size(); ++i) {
    Instant now = Instant::min();  // when the frames are here
    const bool had = places_[i].port->Receive([&, i](const PortFrame& frame) {
      if (frame.news != NeighbourNews::kNone) [[unlikely]] {
        SendToSuccessor(chains, i, frame);
        return;
      }
      if (now == Instant::min()) now = chains.Now();
      if (group_ != nullptr && !group_->Admits(i, frame, now)) return;
      Offer(chains, i, frame, now + Nanos{-frame.age.ns});
    });
    if (group_ != nullptr) group_->OnReceived(i, had);
    has_received |= had;
  }
  return has_received;
}

bool LiveTraffic::ReceiveFromGroup(ChainSet& chains) {
  if (group_ == nullptr) return false;
  return group_->Receive(
      [&](size_t port, const PortFrame& frame, const FlowHeirs::Way& way) {
        Offer(chains, port, frame, chains.Now(), way);
      });
}

void LiveTraffic::Offer(ChainSet& chains, size_t port, const PortFrame& frame,
                        Instant came, const FlowHeirs::Way& way) {
  if (!has_one_port()) {
    addresses_.Learn(frame.bytes, port);
    // Ports that route go by IP addresses (RouterCount::kSameSide).
    if (!routes_ && StaysAtItsSide(port, frame.bytes)) {
      ++figures_.filtered;
      return;
    }
  }
  // Frames that came by another port meanwhile were read first.
  last_came_ = std::max(last_came_, came);
  CapturedPacket packet;
  packet.time = last_came_;
  packet.bytes = frame.bytes;
  packet.original_bytes = static_cast<uint32_t>(frame.bytes.size());
  packet.segment_bytes = frame.segment_bytes;
  packet.side = places_[port].side;
  packet.number = offered_ + 1;
  if (RealDriver* const driver = DriverOfHeirs(chains); driver != nullptr) {
    const auto aside = group_->heirs()->Meet(*driver, packet, way);
    if (aside.has_value()) [[unlikely]] {
      group_->SetAside(port, frame, *aside);
      return;
    }
  }
  ++offered_;
  if (!chains.Offer(packet)) [[unlikely]]
    PassOn(chains, port, frame);
  figures_.answer_copies = chains.answer_copies();
  figures_.no_chain = chains.packets_without_chain();
}

void LiveTraffic::PassOn(ChainSet& chains, size_t port,
                         const PortFrame& frame) {
  ++passed_on_;
  SendToSuccessor(chains, port, frame);
}

void LiveTraffic::SendToSuccessor(ChainSet& chains, size_t port,
                                  const PortFrame& frame) {
  if (!has_handed_on()) return;
  channels_[port].Send(frame, PacketPort::WallClock() + Nanos{-frame.age.ns});
  if (!channels_[port].is_open()) LookAtSuccessor(chains);
}

absl::StatusOr<std::vector<HandedPort>> LiveTraffic::HandOn() {
  std::vector<HandedPort> handed;
  std::vector<FrameChannel> channels;
  for (const Place& place : places_) {
    auto ends = FrameChannel::Make();
    if (!ends.ok()) return ends.status();
    auto receiver = place.port->HandOn();
    if (!receiver.ok()) return receiver.status();
    channels.push_back(std::move(ends->first));
    handed.push_back({std::move(ends->second), *std::move(receiver)});
  }
  channels_ = std::move(channels);
  return handed;
}

absl::StatusOr<HandedPlace> LiveTraffic::GivePlace(
    ChainSet& chains, int connection, std::function<void(bool)> told) {
  if (absl::Status s = CheckGivingPlace(*group_, chains); !s.ok()) return s;
  auto ports = HandOn();
  if (!ports.ok()) return ports.status();
  // Ports that route tell the neighbours that they know.
  ReceiveAtPorts(chains);
  group_->GivePlace(connection, std::move(told));
  return HandedPlace{.ports = *std::move(ports),
                     .group_sockets = group_->descriptors()};
}

void LiveTraffic::TurnGiving(ChainSet& chains) {
  if (group_ == nullptr || group_->giving() == nullptr) return;
  idle_wait_ = {};
  if (group_->giving()->Turn(DriverOfHeirs(chains)) !=
      PlaceGiving::State::kIsOff) {
    return;
  }
  group_->EndGiving();
  channels_.clear();
  if (notice_ != nullptr) {
    notice_("the successor has not taken the place of this daemon");
  }
}

void LiveTraffic::TakeOver(std::vector<HandedPort> ports,
                           std::function<void()> ask_to_end) {
  SNF_CHECK(ports.size() == successors_.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    successors_[i]->Begin(std::move(ports[i].channel),
                          std::move(ports[i].receiver));
  }
  successors_.clear();
  ask_to_end_ = std::move(ask_to_end);
}

bool LiveTraffic::has_predecessor() const {
  return std::ranges::any_of(places_, [](const Place& place) {
    return place.port->has_predecessor();
  });
}

// The predecessor then gives its ports to this process.
void LiveTraffic::AwaitPredecessor(ChainSet& chains) {
  constexpr Nanos kMost = Seconds(3);
  ask_to_end_();
  const Instant end = chains.Now() + kMost;
  while (has_predecessor() && chains.Now() < end && !chains.has_failed()) {
    if (!Turn(chains)) WaitForFrames(chains);
  }
}

void LiveTraffic::on_release(const ReleasedPacket& packet) {
  if (packet.comes_back) return;
  const Leaving frame = {.bytes = packet.bytes,
                         .segment_bytes = packet.segment_bytes};
  if (has_one_port()) {
    Send(*places_.front().port, frame);
  } else if (packet.side == Side::kUnknown) {
    SendToReceiver(frame);
  } else if (packet.side == Side::kOutside && IsFromInside(frame.bytes)) {
    SendBack(frame);
  } else {
    SendTo(OtherSide(packet.side), frame);
  }
}

void LiveTraffic::Send(PacketPort& port, const Leaving& frame) {
  if (frame.segment_bytes == 0) [[likely]] {
    port.Send(frame.bytes);
  } else {
    port.SendMerged(frame.bytes, frame.segment_bytes);
  }
}

void LiveTraffic::SendTo(Side side, const Leaving& frame) {
  if (routes_) {
    Send(RoutedPortOf(side, frame.bytes), frame);
    return;
  }
  const std::optional<size_t> known = addresses_.PortOfReceiver(frame.bytes);
  if (known.has_value() && places_[*known].side == side &&
      places_[*known].port->is_there()) {
    Send(*places_[*known].port, frame);
  } else {
    SendToAll(side, frame);
  }
}

PacketPort& LiveTraffic::RoutedPortOf(Side side,
                                      std::span<const std::byte> frame) const {
  PacketPort* found = nullptr;
  std::optional<uint8_t> longest;
  size_t ports = 0;
  for (const Place& place : places_) {
    if (place.side != side) continue;
    if (++ports == 1) found = place.port.get();
  }
  for (const Place& place : places_) {
    if (ports < 2 || place.side != side) continue;
    const std::optional<uint8_t> length = place.port->RouteLength(frame);
    if (length <= longest) continue;
    longest = length;
    found = place.port.get();
  }
  return *found;
}

// If no port has its interface, the first one counts the frame.
void LiveTraffic::SendToAll(Side side, const Leaving& frame) {
  PacketPort* first = nullptr;
  uint64_t sent = 0;
  for (const Place& place : places_) {
    if (place.side != side) continue;
    if (first == nullptr) first = place.port.get();
    if (!place.port->is_there()) continue;
    Send(*place.port, frame);
    ++sent;
  }
  if (sent == 0) {
    Send(*first, frame);
  } else {
    figures_.copies += sent - 1;
  }
}

void LiveTraffic::SendToReceiver(const Leaving& frame) {
  const std::optional<size_t> known = addresses_.PortOfReceiver(frame.bytes);
  if (known.has_value()) {
    Send(*places_[*known].port, frame);
    return;
  }
  const std::optional<size_t> sender = addresses_.PortOfSender(frame.bytes);
  if (sender.has_value()) {
    SendTo(OtherSide(places_[*sender].side), frame);
  } else {
    ++figures_.unrouted;
  }
}

void LiveTraffic::SendBack(const Leaving& frame) {
  turned_.assign(frame.bytes.begin(), frame.bytes.end());
  std::swap_ranges(turned_.begin(), turned_.begin() + kAddressBytes,
                   turned_.begin() + kAddressBytes);
  SendTo(Side::kInside, {turned_, frame.segment_bytes});
}

bool LiveTraffic::StaysAtItsSide(size_t port,
                                 std::span<const std::byte> frame) const {
  if (places_[port].port->has_both_sides()) return false;
  const std::optional<size_t> known = addresses_.PortOfReceiver(frame);
  return known.has_value() && places_[*known].side == places_[port].side &&
         !places_[*known].port->has_both_sides();
}

// The frame's sender was last seen inside.
bool LiveTraffic::IsFromInside(std::span<const std::byte> frame) const {
  const std::optional<size_t> known = addresses_.PortOfSender(frame);
  return known.has_value() && places_[*known].side == Side::kInside;
}

// Waits longer and longer while nothing happens.
void LiveTraffic::WaitForFrames(ChainSet& chains) {
  constexpr Nanos kFirst = Milliseconds(1), kLongest = Milliseconds(4);
  constexpr Nanos kForUnits = Microseconds(100);
  const bool takes_frames = may_receive(chains);
  const Nanos most = chains.MayWait(std::max(idle_wait_, kFirst));
  if (most.ns <= 0) {
    chains.AwaitUnits(kForUnits, [&] { return takes_frames && has_frames(); });
    return;
  }
  if (takes_frames && PollForFrames(most)) return;
  idle_wait_ = std::min(Nanos{2 * most.ns}, kLongest);
  std::array<pollfd, kMostPorts + 1> wanted = {};
  for (size_t i = 0; i < places_.size(); ++i) {
    wanted[i] = {
        .fd = places_[i].port->descriptor(), .events = POLLIN, .revents = 0};
  }
  wanted[places_.size()] = {.fd = group_ == nullptr ? -1 : group_->descriptor(),
                            .events = POLLIN,
                            .revents = 0};
  const timespec timeout = {.tv_sec = most.ns / 1'000'000'000,
                            .tv_nsec = most.ns % 1'000'000'000};
  // Frames that are not taken wake nobody.
  ppoll(wanted.data(), takes_frames ? places_.size() + 1 : 0, &timeout,
        nullptr);
}

// A thread that sleeps is late for the next frame by a wake-up.
bool LiveTraffic::PollForFrames(Nanos most) const {
  const Nanos longest = std::min(Doorbell::busy_poll(), most);
  if (longest <= Nanos{0}) return false;
  const Instant end = RealClock::Monotonic() + longest;
  do {
    if (has_frames()) return true;
  } while (RealClock::Monotonic() < end);
  return false;
}

bool LiveTraffic::has_frames() const {
  return std::ranges::any_of(
             places_,
             [](const Place& place) { return place.port->has_frames(); }) ||
         (group_ != nullptr && group_->has_frames());
}

void LiveTraffic::UpdateFigures() {
  figures_.ports.clear();
  for (const Place& place : places_) {
    place.port->UpdateFigures();
    figures_.ports.push_back(place.port->figures());
  }
}

absl::Status LiveTraffic::status() const {
  for (const Place& place : places_) {
    if (!place.port->status().ok()) return place.port->status();
  }
  return absl::OkStatus();
}

std::string LiveTraffic::WhatDoesNotAddUp(
    const RunResult& result, const std::vector<EarlierChain>& earlier) const {
  uint64_t received = 0;
  uint64_t came_out_of_frames = 0;
  uint64_t left = figures_.unrouted + result.aliases.packets_hairpinned;
  for (const PortFigures& port : figures_.ports) {
    received += port.received;
    left += port.sent + port.send_drops;
    came_out_of_frames += port.cut;
  }
  uint64_t came_in =
      result.packets_in + passed_on_ + figures_.filtered + figures_.no_chain;
  uint64_t released = result.packets_released + result.packets_passed_through +
                      figures_.copies + came_out_of_frames;
  if (group_ != nullptr) {
    came_in += group_->counts().away();
    received += group_->counts().of(GroupCount::kTaken);
  }
  for (const EarlierChain& chain : earlier) {
    came_in += chain.packets_in;
    released += chain.packets_released + chain.packets_passed_through;
    left += chain.packets_hairpinned;
  }
  if (received + figures_.answer_copies != came_in) {
    return fmt::format(
        "ports received {} packets, {} more were copied, and {} came in",
        received, figures_.answer_copies, came_in);
  }
  if (left == released) return "";
  return fmt::format("{} packets were released, and ports account for {}",
                     released, left);
}

std::vector<std::string> LiveTraffic::reasons() const {
  std::vector<std::string> lines;
  if (group_ != nullptr) {
    for (const NamedCount& count : group_->counts().named()) {
      if (count.count == 0) continue;
      lines.push_back(fmt::format("group: {} {}", count.count, count.name));
    }
  }
  for (const Place& place : places_) {
    for (const PortReason& reason : place.port->reasons()) {
      if (reason.count == 0) continue;
      lines.push_back(fmt::format("port {}: {} {}", place.port->figures().name,
                                  reason.count, reason.name));
    }
  }
  return lines;
}

std::vector<std::string> LiveTraffic::notes() const {
  std::vector<std::string> notes;
  for (const Place& place : places_) {
    const PacketPort& port = *place.port;
    if (port.changes().empty()) continue;
    notes.push_back(fmt::format("{} ({}): {} while this runs",
                                port.figures().name, port.figures().interface,
                                port.changes()));
  }
  // One that takes less than another: what comes there may be too long for it.
  const Place* longest = nullptr;
  const Place* shortest = nullptr;
  for (const Place& place : places_) {
    const uint32_t mtu = place.port->mtu();
    if (mtu == 0) continue;
    if (longest == nullptr || mtu > longest->port->mtu()) longest = &place;
    if (shortest == nullptr || mtu < shortest->port->mtu()) shortest = &place;
  }
  if (longest != shortest) {
    notes.push_back(fmt::format(
        "{} has an MTU of {}, {} of {}: what is too long for where it leaves "
        "is dropped, and counted",
        longest->port->figures().name, longest->port->mtu(),
        shortest->port->figures().name, shortest->port->mtu()));
  }
  return notes;
}

}  // namespace snf
