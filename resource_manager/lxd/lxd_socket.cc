// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/lxd/lxd_socket.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>

#include "base/text/wording.h"

namespace snf {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

using Stream = beast::basic_stream<asio::local::stream_protocol>;

// One request, and its response. Boost's errors become a Status here.
class Exchanger {
 public:
  Exchanger(const std::string& path, const LxdRequest& request)
      : path_(path), request_(request), stream_(context_) {}

  absl::StatusOr<LxdResponse> Run() {
    stream_.expires_after(std::chrono::nanoseconds(request_.patience.ns));
    if (absl::Status s = Connect(); !s.ok()) return s;
    const absl::Status sent = request_.file.empty() ? SendText() : SendFile();
    if (!sent.ok()) return sent;
    return Receive();
  }

 private:
  // Runs an operation until its end or the end of the patience.
  template <typename Begin>
  boost::system::error_code Await(Begin begin) {
    boost::system::error_code ended = asio::error::operation_aborted;
    begin([&ended](boost::system::error_code error, auto&&...) {
      ended = error;
    });
    context_.restart();
    context_.run();
    return ended;
  }

  absl::Status Failed(boost::system::error_code error) const {
    if (error == beast::error::timeout) {
      return absl::UnavailableError(
          fmt::format("LXD at {}: no answer to {} {} within {} s",
                      Printable(path_), request_.method, request_.target,
                      request_.patience.ns / Seconds(1).ns));
    }
    return absl::UnavailableError(
        fmt::format("LXD at {}: {} {}: {}", Printable(path_), request_.method,
                    request_.target, error.message()));
  }

  absl::Status Connect() {
    if (path_.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the path of a unix socket has at most {} bytes",
                      Printable(path_), sizeof(sockaddr_un{}.sun_path) - 1));
    }
    const auto error = Await([this](auto done) {
      stream_.async_connect(asio::local::stream_protocol::endpoint(path_),
                            std::move(done));
    });
    if (!error) return absl::OkStatus();
    if (error == boost::system::errc::permission_denied) {
      return absl::PermissionDeniedError(fmt::format(
          "LXD at {}: this user may not ask LXD: root may, and the group lxd",
          Printable(path_)));
    }
    return absl::FailedPreconditionError(fmt::format(
        "no LXD listens at {}: {}", Printable(path_), error.message()));
  }

  template <typename Body>
  absl::Status Send(http::request<Body>& message) {
    message.version(11);
    message.method_string(request_.method);
    message.target(request_.target);
    message.set(http::field::host, "lxd");
    message.set(http::field::connection, "close");
    for (const auto& [name, value] : request_.headers) message.set(name, value);
    message.prepare_payload();
    const auto error = Await([this, &message](auto done) {
      http::async_write(stream_, message, std::move(done));
    });
    return error ? Failed(error) : absl::OkStatus();
  }

  absl::Status SendText() {
    http::request<http::string_body> message;
    message.body() = request_.body;
    if (!request_.body.empty()) {
      message.set(http::field::content_type, "application/json");
    }
    return Send(message);
  }

  absl::Status SendFile() {
    http::request<http::file_body> message;
    boost::system::error_code error;
    message.body().open(request_.file.c_str(), beast::file_mode::scan, error);
    if (error) {
      return absl::NotFoundError(
          fmt::format("{}: {}", Printable(request_.file), error.message()));
    }
    message.set(http::field::content_type, "application/octet-stream");
    return Send(message);
  }

  absl::StatusOr<LxdResponse> Receive() {
    http::response_parser<http::string_body> parser;
    parser.body_limit(LxdSocket::kMostBytes);
    beast::flat_buffer buffer;
    const auto error = Await([this, &buffer, &parser](auto done) {
      http::async_read(stream_, buffer, parser, std::move(done));
    });
    if (error) return Failed(error);
    return LxdResponse{.status = parser.get().result_int(),
                       .body = parser.get().body()};
  }

  const std::string& path_;
  const LxdRequest& request_;
  asio::io_context context_{1};
  Stream stream_;
};

}  // namespace

std::string LxdSocket::UsualPath() {
  const char* folder = std::getenv("LXD_DIR");
  if (folder != nullptr && *folder != '\0') {
    return std::string(folder) + "/unix.socket";
  }
  constexpr std::array<const char*, 2> kUsual = {
      "/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket"};
  for (const char* path : kUsual) {
    if (access(path, F_OK) == 0) return path;
  }
  return kUsual[0];
}

absl::StatusOr<LxdResponse> LxdSocket::Exchange(const LxdRequest& request) {
  try {
    return Exchanger(path_, request).Run();
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        fmt::format("LXD at {}: {}", Printable(path_), error.what()));
  }
}

}  // namespace snf
