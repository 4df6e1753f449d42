// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/frame_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace snf {

absl::StatusOr<std::pair<FrameChannel, FrameChannel>> FrameChannel::Make() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::UnavailableError(
        fmt::format("a pair of sockets: {}", std::strerror(errno)));
  }
  std::pair<FrameChannel, FrameChannel> both = {
      FrameChannel(Descriptor(ends[0])), FrameChannel(Descriptor(ends[1]))};
  // If it is refused there is less room.
  if (!SetOption(both.first.socket_, SOL_SOCKET, SO_SNDBUFFORCE, kBytes)) {
    SetOption(both.first.socket_, SOL_SOCKET, SO_SNDBUF, kBytes);
  }
  const timeval patience = {.tv_sec = 1, .tv_usec = 0};
  SetOption(both.first.socket_, SOL_SOCKET, SO_SNDTIMEO, patience);
  return both;
}

FrameChannel::FrameChannel(Descriptor socket) : socket_(std::move(socket)) {}

bool FrameChannel::has_lost_receiver() const {
  pollfd other_end = {.fd = descriptor(), .events = 0, .revents = 0};
  return !is_open() ||
         (poll(&other_end, 1, 0) > 0 && (other_end.revents & POLLHUP) != 0);
}

bool FrameChannel::Send(const PortFrame& frame, Instant came) {
  if (!is_open()) return false;
  Head head = {.came_ns = came.ns,
               .next_slot = 0,
               .is_last = 0,
               .segment_bytes = frame.segment_bytes,
               .news = static_cast<uint16_t>(frame.news)};
  std::array<iovec, 2> parts = {
      {{&head, sizeof head},
       {const_cast<std::byte*>(frame.bytes.data()), frame.bytes.size()}}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (sendmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
    return true;
  }
  if (errno == EPIPE || errno == ECONNRESET) Close();
  return false;
}

void FrameChannel::Finish(const LastOfPort& last) {
  if (!is_open()) return;
  const Head head = {.came_ns = 0,
                     .next_slot = last.next_slot,
                     .is_last = 1,
                     .segment_bytes = 0,
                     .news = 0};
  // Waits up to a second for room: the receiver needs this message.
  send(socket_.number(), &head, sizeof head, MSG_NOSIGNAL);
  Close();
}

FrameChannel::Taken FrameChannel::Receive(
    absl::FunctionRef<void(const PortFrame& frame, Instant came)> take) {
  Taken taken;
  if (room_ == nullptr) room_.reset(new std::byte[kMaxFrameBytes]);
  for (size_t i = 0; i < kBatch && !taken.is_over; ++i) {
    Head head{};
    std::array<iovec, 2> parts = {
        {{&head, sizeof head}, {room_.get(), kMaxFrameBytes}}};
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t bytes = recvmsg(socket_.number(), &message, MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (bytes < static_cast<ssize_t>(sizeof head)) {
      taken.is_over = true;
    } else if (head.is_last != 0) {
      taken.is_over = true;
      taken.last.next_slot = head.next_slot;
    } else {
      taken.any = true;
      take({.bytes = {room_.get(), static_cast<size_t>(bytes) - sizeof head},
            .segment_bytes = head.segment_bytes,
            .news = static_cast<NeighbourNews>(head.news)},
           Instant{head.came_ns});
    }
  }
  if (taken.is_over) Close();
  return taken;
}

}  // namespace snf
