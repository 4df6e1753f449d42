// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_METRICS_SERVER_H_
#define SNF_PLATFORM_PROCESS_METRICS_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace snf {

// Serves a text on http://127.0.0.1:PORT/metrics, to this machine alone, by a
// thread of its own, until it is destroyed. GET only, one request a connection.
// Any other path is answered with 404, any other method with 405.
//
// What a client may take is bounded: kConnections at a time, of which each has
// kSeconds for all, and kRequestBytes for a request; others wait.
class MetricsServer {
 public:
  static constexpr int kConnections = 8;
  static constexpr int kSeconds = 5;
  static constexpr uint32_t kRequestBytes = 8'192;

  // Listens on return; on any free port for 0. `text` is called by the server's
  // thread for each request. Errors: Unavailable, for example where the port is
  // taken; PermissionDenied.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      uint16_t port, std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const;

 private:
  class Listener;
  explicit MetricsServer(std::unique_ptr<Listener> listener);

  std::unique_ptr<Listener> listener_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_METRICS_SERVER_H_
