// SPDX-License-Identifier: Apache-2.0
#include "platform/process/metrics_server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "traces/file_status.h"

namespace snf {
namespace {

struct Answer {
  unsigned status;
  const char* content_type = "text/plain; charset=utf-8";
  std::string body;
};

Answer AnswerTo(std::string_view method, std::string_view path,
                const MetricsServer& server) {
  if (path != "/metrics") {
    return {.status = MHD_HTTP_NOT_FOUND, .body = "Only /metrics is here.\n"};
  }
  if (method != MHD_HTTP_METHOD_GET) {
    return {.status = MHD_HTTP_METHOD_NOT_ALLOWED,
            .body = "Only GET is understood.\n"};
  }
  return {.status = MHD_HTTP_OK,
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = server.text()};
}

// libmicrohttpd's handler of a request, of whose body it takes nothing.
MHD_Result Handle(void* server, MHD_Connection* connection, const char* path,
                  const char* method, const char*, const char*, size_t*,
                  void**) {
  Answer answer =
      AnswerTo(method, path, *static_cast<const MetricsServer*>(server));
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

// Returns a socket that listens on 127.0.0.1, or -1 with errno set; changes a
// port of 0 to a free one.
int Listen(uint16_t& port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  const int yes = 1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const bytes = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      bind(listener, bytes, size) == 0 && listen(listener, SOMAXCONN) == 0 &&
      getsockname(listener, bytes, &size) == 0) {
    port = ntohs(address.sin_port);
    return listener;
  }
  const int error = errno;
  close(listener);
  errno = error;
  return -1;
}

}  // namespace

MetricsServer::MetricsServer(std::function<std::string()> text)
    : text_(std::move(text)) {}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    uint16_t port, std::function<std::string()> text) {
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(text)));
  server->port_ = port;
  // libmicrohttpd does not say why it cannot listen.
  const int listener = Listen(server->port_);
  if (listener < 0) {
    return FileStatus(fmt::format("cannot listen on 127.0.0.1:{}", port),
                      errno);
  }
  server->daemon_ = MHD_start_daemon(
      MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC, 0, nullptr, nullptr, Handle,
      server.get(), MHD_OPTION_LISTEN_SOCKET, listener,
      MHD_OPTION_CONNECTION_LIMIT, unsigned{kConnections},
      MHD_OPTION_CONNECTION_TIMEOUT, unsigned{kSeconds},
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestBytes, MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    close(listener);
    return absl::UnavailableError(
        fmt::format("cannot serve on 127.0.0.1:{}", server->port_));
  }
  return server;
}

MetricsServer::~MetricsServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

}  // namespace snf
