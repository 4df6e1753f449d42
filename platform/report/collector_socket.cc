// SPDX-License-Identifier: Apache-2.0
#include "platform/report/collector_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace snf {

CollectorSocket::CollectorSocket(const IpfixCollector& to) : to_(to) {
  addrinfo wanted = {};
  wanted.ai_socktype = to.is_udp ? SOCK_DGRAM : SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      to.host.c_str(), std::to_string(to.port).c_str(), &wanted, &found);
  if (error != 0) {
    why_not_ = gai_strerror(error);
    return;
  }
  for (const addrinfo* one = found; one != nullptr && socket_ < 0;
       one = one->ai_next) {
    Connect(*one);
  }
  freeaddrinfo(found);
}

CollectorSocket::~CollectorSocket() {
  if (socket_ >= 0) close(socket_);
}

bool CollectorSocket::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      NoteError();
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

absl::Status CollectorSocket::error() const {
  return absl::UnavailableError(fmt::format("{}: {}", to_.text(), why_not_));
}

void CollectorSocket::Connect(const addrinfo& to) {
  constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};
  socket_ = ::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return NoteError();
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  if (connect(socket_, to.ai_addr, to.ai_addrlen) == 0) return;
  NoteError();
  close(socket_);
  socket_ = -1;
}

void CollectorSocket::NoteError() {
  const bool is_late = errno == EINPROGRESS || errno == EAGAIN;
  why_not_ = std::strerror(is_late ? ETIMEDOUT : errno);
}

}  // namespace snf
