// SPDX-License-Identifier: Apache-2.0
#include "platform/process/metrics_server.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
// Boost 1.74 wants <utility> before it.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace snf {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;
using Text = std::function<std::string()>;

http::response<http::string_body> Answer(http::verb method,
                                         std::string_view target,
                                         const Text& text) {
  http::response<http::string_body> answer(http::status::ok, 11);
  answer.set(http::field::content_type, "text/plain; charset=utf-8");
  if (target.substr(0, target.find('?')) != "/metrics") {
    answer.result(http::status::not_found);
    answer.body() = "Only /metrics is here.\n";
  } else if (method != http::verb::get) {
    answer.result(http::status::method_not_allowed);
    answer.set(http::field::allow, "GET");
    answer.body() = "Only GET is understood.\n";
  } else {
    answer.set(http::field::content_type,
               "text/plain; version=0.0.4; charset=utf-8");
    answer.body() = text();
  }
  answer.keep_alive(false);
  answer.prepare_payload();
  return answer;
}

// A connection: one request, one answer. Lives as long as its handlers.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // `done` is called when it is over.
  Session(tcp::socket socket, const Text& text, std::function<void()> done)
      : stream_(std::move(socket)),
        buffer_(MetricsServer::kRequestBytes),
        text_(text),
        done_(std::move(done)) {
    parser_.header_limit(MetricsServer::kRequestBytes);
    parser_.body_limit(MetricsServer::kRequestBytes);
  }
  ~Session() { done_(); }

  void Begin() {
    stream_.expires_after(std::chrono::seconds(MetricsServer::kSeconds));
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](const Error& error, size_t) {
                       if (!error) self->Write();
                     });
  }

 private:
  void Write() {
    const auto target = parser_.get().target();
    answer_ =
        Answer(parser_.get().method(), {target.data(), target.size()}, text_);
    http::async_write(
        stream_, answer_, [self = shared_from_this()](Error error, size_t) {
          if (error) return;
          self->stream_.socket().shutdown(tcp::socket::shutdown_send, error);
        });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> answer_;
  const Text& text_;
  std::function<void()> done_;
};

}  // namespace

class MetricsServer::Listener {
 public:
  explicit Listener(Text text) : text_(std::move(text)) {}
  ~Listener() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    is_over_ = true;
  }

  Error Open(uint16_t port) {
    const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
    Error error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    constexpr int kWaiting = tcp::acceptor::max_listen_connections;
    if (!error) acceptor_.listen(kWaiting, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    return error;
  }

  // The acceptor is the thread's.
  uint16_t port() const { return port_; }

  void Run() {
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }

 private:
  void Accept() {
    is_accepting_ = true;
    acceptor_.async_accept([this](const Error& error, tcp::socket socket) {
      is_accepting_ = false;
      if (error) {  // no descriptor is free, say
        AcceptLater();
        return;
      }
      ++connections_;
      const auto session = std::make_shared<Session>(
          std::move(socket), text_, [this] { on_session_end(); });
      session->Begin();
      if (connections_ < kConnections) Accept();
    });
  }
  void AcceptLater() {
    is_accepting_ = true;
    later_.expires_after(std::chrono::milliseconds(100));
    later_.async_wait([this](const Error& error) {
      if (!error) Accept();
    });
  }
  void on_session_end() {
    --connections_;
    if (!is_accepting_ && !is_over_) Accept();
  }

  // Of the thread; sessions end as late as io_.
  const Text text_;
  uint16_t port_ = 0;
  int connections_ = 0;
  bool is_accepting_ = false;  // or will soon
  bool is_over_ = false;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer later_{io_};
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    uint16_t port, Text text) {
  auto listener = std::make_unique<Listener>(std::move(text));
  if (const Error error = listener->Open(port); error) {
    const std::string message =
        fmt::format("cannot listen on 127.0.0.1:{}: {}", port, error.message());
    return error == boost::system::errc::permission_denied
               ? absl::PermissionDeniedError(message)
               : absl::UnavailableError(message);
  }
  listener->Run();
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(listener)));
}

MetricsServer::MetricsServer(std::unique_ptr<Listener> listener)
    : listener_(std::move(listener)) {}

MetricsServer::~MetricsServer() = default;

uint16_t MetricsServer::port() const { return listener_->port(); }

}  // namespace snf
