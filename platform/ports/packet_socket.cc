// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/packet_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "platform/ports/frames/packet_ring.h"

namespace snf {
namespace {

constexpr size_t kHeaderBytes = 14 + 8;  // of Ethernet with two tags
// A clock that was set back or forth is not how long a frame waited.
constexpr Nanos kMaxAge = Seconds(10);

// How long ago the kernel took a frame.
Nanos AgeOf(const tpacket2_hdr& slot, Instant now) {
  return std::clamp(now - PacketQueue::TimeOf(slot), Nanos{}, kMaxAge);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketPort>> PacketSocket::Open(
    const PortSpec& spec) {
  return Open(spec, &PacketSocket::Connect);
}

absl::StatusOr<std::unique_ptr<PacketSocket>> PacketSocket::OpenToSend(
    const PortSpec& spec) {
  return Open(spec, &PacketSocket::ConnectOut);
}

absl::StatusOr<std::unique_ptr<PacketSocket>> PacketSocket::Open(
    const PortSpec& spec, Connecting connect) {
  std::unique_ptr<PacketSocket> port(new PacketSocket(spec));
  const absl::Status status = (*port.*connect)();
  if (status.ok()) return port;
  return absl::Status(
      status.code(),
      fmt::format("port {}: {}", spec.name(), std::string(status.message())));
}

absl::Status PacketSocket::Failed(const char* what) const {
  const std::string message =
      fmt::format("{}: {}: {}", spec_.interface, what, std::strerror(errno));
  if (errno == EPERM || errno == EACCES) {
    return absl::PermissionDeniedError(
        message + "; packet sockets need root or CAP_NET_RAW");
  }
  return absl::FailedPreconditionError(message);
}

absl::Status PacketSocket::Connect() {
  if (absl::Status s = ConnectOut(); !s.ok()) return s;
  if (!Claim()) {
    if (errno != EADDRINUSE) return Failed("a claim on its frames");
    return absl::FailedPreconditionError(fmt::format(
        "{}: another run of SNF forwards {}", spec_.interface,
        spec_.steering == nullptr ? "its frames"
                                  : "the frames of controller " + Share()));
  }
  return ConnectIn();
}

// Fails if the filter stays: two controllers could take one frame.
void PacketSocket::Steer(std::shared_ptr<const Steering> steering) {
  spec_.steering = std::move(steering);
  if (!in_.empty() && !AdmitFrames()) Fail(errno);
}

std::string PacketSocket::Share() const {
  return spec_.steering == nullptr ? "" : spec_.steering->controller().text();
}

bool PacketSocket::Claim() { return interface_.Claim(Share()); }

absl::Status PacketSocket::ConnectOut() {
  if (absl::Status s = interface_.Check(); !s.ok()) return s;
  mtu_ = interface_.mtu();
  const char* const what = out_.Open(interface_.index(), mtu_);
  if (what != nullptr) return Failed(what);
  if (spec_.sends_by_thread) sender_ = std::make_unique<FrameSender>(out_);
  return absl::OkStatus();
}

absl::Status PacketSocket::ConnectIn() {
  in_.clear();
  for (uint32_t i = 0; i < spec_.queues; ++i) {
    const char* const what = in_.emplace_back().in.Open(
        interface_.index(), mtu_ + kHeaderBytes, spec_.queues);
    if (what != nullptr) return Failed(what);
  }
  changes_ = interface_.MergeNothing();
  if (!changes_.empty()) changes_ += " off";
  if (in_.size() > 1 && !Group()) return Failed("a group of packet sockets");
  if (!AdmitFrames()) return Failed("a filter of a packet socket");
  return absl::OkStatus();
}

bool PacketSocket::Group() {
  all_in_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!all_in_.is_open()) return false;
  std::optional<uint16_t> group;
  for (Queue& queue : in_) {
    epoll_event readable = {.events = EPOLLIN, .data = {}};
    if (!queue.in.Join(group) ||
        epoll_ctl(all_in_.number(), EPOLL_CTL_ADD, queue.in.descriptor(),
                  &readable) != 0) {
      return false;
    }
  }
  return true;
}

bool PacketSocket::AdmitFrames() {
  std::vector<sock_filter> program;
  if (spec_.steering != nullptr) {
    for (const FilterStep& step :
         spec_.steering->Program(spec_.side, spec_.router.is_routed())) {
      program.push_back({.code = step.code,
                         .jt = step.if_true,
                         .jf = step.if_false,
                         .k = step.value});
    }
  }
  return std::ranges::all_of(
      in_, [&program](Queue& queue) { return queue.in.Admit(program); });
}

int PacketSocket::descriptor() const {
  if (in_.size() > 1) return all_in_.number();
  return in_.empty() ? -1 : in_.front().in.descriptor();
}

absl::StatusOr<PacketReceiver> PacketSocket::HandOn() {
  if (in_.size() != 1) return PacketPort::HandOn();
  const PacketQueue& queue = in_.front().in;
  Descriptor in(fcntl(queue.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!in.is_open()) return Failed("another descriptor");
  return PacketReceiver{.socket = std::move(in),
                        .ring_bytes = queue.ring().bytes(),
                        .slot_bytes = queue.ring().slot_bytes()};
}

std::optional<uint64_t> PacketSocket::LetGo() {
  if (in_.size() != 1) return std::nullopt;
  return in_.front().in.ring().next_slot();
}

void PacketSocket::Adopt(PacketReceiver receiver, uint64_t next_slot) {
  interface_.Join();
  in_.clear();
  if (in_.emplace_back().in.Adopt(std::move(receiver.socket),
                                  receiver.ring_bytes, receiver.slot_bytes,
                                  next_slot)) {
    return;
  }
  const absl::Status status = ConnectIn();
  if (!status.ok()) Fail(ENETDOWN);
}

bool PacketSocket::Receive(Take take) {
  Queue* queue = Oldest();
  if (queue == nullptr) return false;
  const Instant now = WallClock();
  for (size_t i = 0; i < kBatch && queue != nullptr; ++i) {
    TakeFrame(*queue, now, take);
    queue->in.Release();
    queue = Oldest();
  }
  return true;
}

PacketSocket::Queue* PacketSocket::Oldest() {
  Queue* oldest = nullptr;
  Instant first = Instant::max();
  for (Queue& queue : in_) {
    const tpacket2_hdr* const slot = queue.in.Next();
    if (slot == nullptr) continue;
    if (in_.size() == 1) return &queue;
    const Instant came = PacketQueue::TimeOf(*slot);
    if (came >= first) continue;
    first = came;
    oldest = &queue;
  }
  return oldest;
}

void PacketSocket::TakeFrame(Queue& queue, Instant now, Take take) {
  tpacket2_hdr& slot = *queue.in.Next();
  PacketQueue::Frame frame;
  switch (queue.in.ReadFrame(slot, frame)) {
    case PacketQueue::Read::kFrame:
      break;
    case PacketQueue::Read::kDropped:
      ++figures_.kernel_drops;
      return;
    case PacketQueue::Read::kRefused:
      ++figures_.refused;
      return;
    case PacketQueue::Read::kFailed:
      Fail(errno);
      return;
  }
  if (!gate_.LetsIn(frame.bytes, now)) {
    ++figures_.foreign;
    return;
  }
  TakeOffloaded(frame.bytes, frame.offload, AgeOf(slot, now),
                keeps_merged_ && !frame.has_tag, take);
}

void PacketSocket::StopReceiving() {
  for (Queue& queue : in_) queue.in.AdmitNone();
}

void PacketSocket::Send(std::span<const std::byte> frame) {
  if (frame.size() > kMaxFrameBytes) {
    ++figures_.send_drops;
    ++figures_.too_long;
    return;
  }
  if (sender_ != nullptr) {
    sender_->Send(frame);
    return;
  }
  if (queue_ == kBatch) Flush();
  const std::span<std::byte> room(&rooms_[queue_ * kRoomBytes], frame.size());
  std::ranges::copy(frame, room.begin());
  queued_[queue_++] = room;
}

// Leaves at once without a sender, as the kernel reads it from the caller's
// memory.
void PacketSocket::SendMerged(std::span<const std::byte> frame,
                              uint16_t segment_bytes) {
  if (sender_ != nullptr) {
    sender_->SendMerged(frame, segment_bytes);
    return;
  }
  Flush();
  SentFrames frames;
  if (out_.SendMerged(frame, segment_bytes, frames)) {
    Count(frames);
  } else {
    PacketPort::SendMerged(frame, segment_bytes);
  }
}

void PacketSocket::Flush() {
  if (sender_ != nullptr) {
    sender_->Flush();
    return;
  }
  SentFrames frames;
  out_.Send(std::span(queued_).first(queue_), frames);
  queue_ = 0;
  Count(frames);
}

void PacketSocket::Settle() {
  Flush();
  if (sender_ == nullptr) return;
  sender_->Settle();
  CountSender();
}

void PacketSocket::Count(const SentFrames& frames) {
  figures_.sent += frames.sent;
  figures_.send_drops += frames.drops;
  figures_.too_long += frames.too_long;
  figures_.cut += frames.cut;
  if (frames.lost != 0) Fail(frames.lost);
}

void PacketSocket::CountSender() {
  const SentFrames before = counted_;
  counted_ = sender_->counts();
  Count({.sent = counted_.sent - before.sent,
         .drops = counted_.drops - before.drops,
         .too_long = counted_.too_long - before.too_long,
         .cut = counted_.cut - before.cut,
         .lost = counted_.lost});
}

void PacketSocket::UpdateFigures() {
  // A predecessor that has lost the interface claims it again.
  if (!in_.empty()) Claim();
  if (sender_ != nullptr) CountSender();
  for (Queue& queue : in_) {
    const uint64_t drops = queue.in.TakeDrops();
    queue.drops += drops;
    figures_.kernel_drops += drops;
    // No call of Receive would be told.
    if (const int error = queue.in.TakeError(); error != 0) Fail(error);
  }
}

std::vector<PortReason> PacketSocket::reasons() const {
  std::vector<PortReason> reasons;
  for (size_t i = 0; in_.size() > 1 && i < in_.size(); ++i) {
    reasons.push_back({fmt::format("queue_{}_full", i), in_[i].drops});
  }
  return reasons;
}

}  // namespace snf
