// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/health_responder.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace snf {
namespace {

constexpr std::string_view kHealthy =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n"
    "Connection: close\r\n\r\nforwarding\n";
constexpr std::string_view kUnhealthy =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    "Content-Length: 15\r\nConnection: close\r\n\r\nnot forwarding\n";

}  // namespace

absl::StatusOr<std::unique_ptr<HealthResponder>> HealthResponder::Listen(
    uint16_t port) {
  const auto failed = [port] {
    return absl::FailedPreconditionError(fmt::format(
        "health check at TCP port {}: {}", port, std::strerror(errno)));
  };
  Descriptor listener(
      socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  if (!listener.is_open() ||
      !SetOption(listener, SOL_SOCKET, SO_REUSEADDR, 1) ||
      bind(listener.number(), reinterpret_cast<const sockaddr*>(&address),
           size) != 0 ||
      listen(listener.number(), kConnections) != 0 ||
      getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address),
                  &size) != 0) {
    return failed();
  }
  return std::unique_ptr<HealthResponder>(
      new HealthResponder(std::move(listener), ntohs(address.sin_port)));
}

void HealthResponder::Accept() {
  for (size_t i = 0; i < kConnections; ++i) {
    Descriptor socket(accept4(listener_.number(), nullptr, nullptr,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) return;
    connections_[oldest_] = {
        .socket = std::move(socket),
        .request = {},
        .end = std::chrono::steady_clock::now() + kPatience};
    oldest_ = (oldest_ + 1) % kConnections;
  }
}

bool HealthResponder::Serve(Connection& connection, bool is_forwarding) {
  std::array<char, kRequestBytes> room;
  const ssize_t bytes =
      recv(connection.socket.number(), room.data(), room.size(), 0);
  if (bytes < 0) {
    return (errno == EAGAIN || errno == EINTR) &&
           std::chrono::steady_clock::now() < connection.end;
  }
  if (bytes == 0) return false;
  connection.request.append(room.data(), static_cast<size_t>(bytes));
  if (connection.request.find("\r\n\r\n") == std::string::npos) {
    return connection.request.size() < kRequestBytes;
  }
  // The answer fits into the socket's empty buffer.
  const std::string_view answer = is_forwarding ? kHealthy : kUnhealthy;
  send(connection.socket.number(), answer.data(), answer.size(), MSG_NOSIGNAL);
  return false;
}

void HealthResponder::Answer(bool is_forwarding) {
  Accept();
  for (Connection& connection : connections_) {
    if (!connection.socket.is_open()) continue;
    if (!Serve(connection, is_forwarding)) connection.socket = Descriptor();
  }
}

}  // namespace snf
