// SPDX-License-Identifier: Apache-2.0
#include "platform/process/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/text/wording.h"
#include "traces/file_status.h"

namespace snf {
namespace {

struct Answer {
  unsigned status;
  const char* content_type = "text/plain; charset=utf-8";
  std::string body;
};

Answer AnswerTo(std::string_view method, std::string_view path,
                const MetricsServer::Pages& pages) {
  const auto* const health = path == "/healthz"  ? &pages.healthz
                             : path == "/readyz" ? &pages.readyz
                                                 : nullptr;
  if (health == nullptr && path != "/metrics") {
    return {.status = MHD_HTTP_NOT_FOUND,
            .body = "Only /metrics, /healthz and /readyz are here.\n"};
  }
  if (method != MHD_HTTP_METHOD_GET) {
    return {.status = MHD_HTTP_METHOD_NOT_ALLOWED,
            .body = "Only GET is understood.\n"};
  }
  if (health == nullptr) {
    return {.status = MHD_HTTP_OK,
            .content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = pages.metrics()};
  }
  MetricsServer::Health found = (*health)();
  return {.status = static_cast<unsigned>(
              found.is_good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE),
          .body = std::move(found.text)};
}

// libmicrohttpd's handler of a request, of whose body it takes nothing.
MHD_Result Handle(void* server, MHD_Connection* connection, const char* path,
                  const char* method, const char*, const char*, size_t*,
                  void**) {
  Answer answer = AnswerTo(method, path,
                           static_cast<const MetricsServer*>(server)->pages());
  MHD_Response* const response = MHD_create_response_from_buffer(
      answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                          answer.content_type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET");
  }
  const MHD_Result queued =
      MHD_queue_response(connection, answer.status, response);
  MHD_destroy_response(response);
  return queued;
}

// An address of a socket, of either version of IP.
union SocketAddress {
  sockaddr any;
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;
};

// Returns the length of the socket's address; 0 if the text is no address.
socklen_t ParseAddress(const std::string& text, uint16_t port,
                       SocketAddress& address) {
  address = {};
  if (inet_pton(AF_INET, text.c_str(), &address.ipv4.sin_addr) == 1) {
    address.ipv4.sin_family = AF_INET;
    address.ipv4.sin_port = htons(port);
    return sizeof address.ipv4;
  }
  if (inet_pton(AF_INET6, text.c_str(), &address.ipv6.sin6_addr) == 1) {
    address.ipv6.sin6_family = AF_INET6;
    address.ipv6.sin6_port = htons(port);
    return sizeof address.ipv6;
  }
  return 0;
}

bool IsLoopback(const SocketAddress& address) {
  return address.any.sa_family == AF_INET6
             ? IN6_IS_ADDR_LOOPBACK(&address.ipv6.sin6_addr) != 0
             : ntohl(address.ipv4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

// Returns a socket that listens, or -1 with errno set. Changes a port of 0 to a
// free one.
int Listen(SocketAddress& address, socklen_t size) {
  const int listener =
      socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  const int yes = 1;
  if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      bind(listener, &address.any, size) == 0 &&
      listen(listener, SOMAXCONN) == 0 &&
      getsockname(listener, &address.any, &size) == 0) {
    return listener;
  }
  const int error = errno;
  close(listener);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const Options& options, Pages pages) {
  SocketAddress address{};
  const socklen_t size = ParseAddress(options.address, options.port, address);
  if (size == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" is no address of IPv4 or IPv6", Printable(options.address)));
  }
  const bool is_ipv6 = address.any.sa_family == AF_INET6;
  std::unique_ptr<MetricsServer> server(
      new MetricsServer(options, std::move(pages)));
  const bool is_encrypted = !options.certificate.empty();
  // libmicrohttpd does not say why it cannot listen.
  const int listener = Listen(address, size);
  const auto place = [&](uint16_t port) {
    return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", options.address,
                       is_ipv6 ? "]" : "", port);
  };
  if (listener < 0) {
    return FileStatus(fmt::format("cannot listen on {}", place(options.port)),
                      errno);
  }
  server->port_ =
      ntohs(is_ipv6 ? address.ipv6.sin6_port : address.ipv4.sin_port);
  unsigned mode = MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC;
  if (is_encrypted) mode |= MHD_USE_TLS;
  // Clients of this machine may wait for each other.
  const unsigned of_one_address = IsLoopback(address) ? 0 : kOfOneAddress;
  const auto start = [&](auto... more) {
    return MHD_start_daemon(mode, 0, nullptr, nullptr, Handle, server.get(),
                            MHD_OPTION_LISTEN_SOCKET, listener,
                            MHD_OPTION_CONNECTION_LIMIT, unsigned{kConnections},
                            MHD_OPTION_PER_IP_CONNECTION_LIMIT, of_one_address,
                            MHD_OPTION_CONNECTION_TIMEOUT, unsigned{kSeconds},
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestBytes,
                            more..., MHD_OPTION_END);
  };
  const Options& kept = server->options_;
  server->daemon_ =
      is_encrypted ? start(MHD_OPTION_HTTPS_MEM_CERT, kept.certificate.c_str(),
                           MHD_OPTION_HTTPS_MEM_KEY, kept.key.c_str())
                   : start();
  if (server->daemon_ == nullptr) {
    close(listener);
    return absl::UnavailableError(fmt::format("cannot serve {} on {}",
                                              is_encrypted ? "HTTPS" : "HTTP",
                                              place(server->port_)));
  }
  return server;
}

MetricsServer::~MetricsServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

}  // namespace snf
