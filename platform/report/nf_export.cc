// SPDX-License-Identifier: Apache-2.0
#include "platform/report/nf_export.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace snf {
namespace {

// A socket that is connected to a collector, or why it is not.
class CollectorSocket {
 public:
  explicit CollectorSocket(const NfReport::Collector& to) {
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
  CollectorSocket(const CollectorSocket&) = delete;
  CollectorSocket& operator=(const CollectorSocket&) = delete;
  ~CollectorSocket() {
    if (socket_ >= 0) close(socket_);
  }

  bool is_open() const { return socket_ >= 0; }
  const std::string& why_not() const { return why_not_; }

  // Returns false, and says why, unless all bytes were taken.
  bool Send(std::string_view bytes) {
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

 private:
  void Connect(const addrinfo& to) {
    constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};
    socket_ = ::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return NoteError();
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
    if (connect(socket_, to.ai_addr, to.ai_addrlen) == 0) return;
    NoteError();
    close(socket_);
    socket_ = -1;
  }
  void NoteError() {
    const bool is_late = errno == EINPROGRESS || errno == EAGAIN;
    why_not_ = std::strerror(is_late ? ETIMEDOUT : errno);
  }

  int socket_ = -1;
  std::string why_not_;
};

absl::Status Failed(const NfReport::Collector& to, const std::string& why) {
  const bool is_ipv6 = to.host.find(':') != std::string::npos;
  return absl::UnavailableError(
      fmt::format("{}://{}:{}: {}", to.is_udp ? "udp" : "tcp",
                  is_ipv6 ? "[" + to.host + "]" : to.host, to.port, why));
}

}  // namespace

absl::Status SendExport(const NfReport::Export& exported) {
  using std::chrono::steady_clock;
  CollectorSocket socket(exported.to);
  if (!socket.is_open()) return Failed(exported.to, socket.why_not());
  const steady_clock::time_point begin = steady_clock::now();
  int64_t bytes = 0;
  for (const std::string& message : exported.messages) {
    if (!socket.Send(message)) return Failed(exported.to, socket.why_not());
    bytes += static_cast<int64_t>(message.size());
    if (!exported.to.is_udp) continue;
    std::this_thread::sleep_until(
        begin +
        std::chrono::microseconds(bytes * 1'000'000 / kUdpBytesPerSecond));
  }
  return absl::OkStatus();
}

}  // namespace snf
