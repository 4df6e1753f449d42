// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_METRICS_SERVER_H_
#define SNF_PLATFORM_PROCESS_METRICS_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct MHD_Daemon;

namespace snf {

// Serves a text on http://127.0.0.1:PORT/metrics, to this machine alone, by a
// thread of its own, until it is destroyed. A connection is closed after one
// request. Any other path than /metrics is answered with 404, any other method
// than GET with 405.
//
// A client's share is bounded: kConnections are served at a time, while others
// wait; a request has at most kRequestBytes, and a connection that is silent
// for kSeconds is closed.
class MetricsServer {
 public:
  static constexpr int kConnections = 8;
  static constexpr int kSeconds = 5;
  static constexpr size_t kRequestBytes = 8'192;

  // Listens on return, on any free port if `port` is 0. The server's thread
  // calls `text` for each request. Errors: Unavailable, for example if the port
  // is taken; PermissionDenied. They name the port.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      uint16_t port, std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const { return port_; }
  // Returns the answer to a request for /metrics.
  std::string text() const { return text_(); }

 private:
  explicit MetricsServer(std::function<std::string()> text);

  const std::function<std::string()> text_;
  uint16_t port_ = 0;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_METRICS_SERVER_H_
