// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_METRICS_SERVER_H_
#define SNF_PLATFORM_PROCESS_METRICS_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

struct MHD_Daemon;

namespace snf {

// Serves pages over HTTP, or HTTPS, by a thread of its own, until it is
// destroyed: /metrics for Prometheus; /healthz and /readyz, which load
// balancers and orchestrators ask for, answer with 200, or with 503 and the
// reasons in words. A connection is closed after one request. Any other path is
// answered with 404, any other method than GET with 405.
//
// A client's share is bounded: kConnections are served at a time, while others
// wait; a request has at most kRequestBytes, and a connection that is silent
// for kSeconds is closed. A client of another machine has at most kOfOneAddress
// connections. No client shows who it is.
class MetricsServer {
 public:
  static constexpr int kConnections = 8;
  static constexpr int kOfOneAddress = 2;
  static constexpr int kSeconds = 5;
  static constexpr size_t kRequestBytes = 8'192;

  struct Options {
    std::string address = "127.0.0.1";  // of this machine, IPv4 or IPv6
    uint16_t port = 0;                  // 0: any free one
    // The certificate and its key, in PEM; "": no encryption.
    std::string certificate = {};
    std::string key = {};
  };
  struct Health {
    bool is_good = true;
    std::string text = "ok\n";
  };
  // The server's thread calls the function of the page that is asked for.
  struct Pages {
    std::function<std::string()> metrics;
    std::function<Health()> healthz = [] { return Health{}; };
    std::function<Health()> readyz = [] { return Health{}; };
  };

  // Listens on return. Errors name the address: InvalidArgument if it is none;
  // Unavailable, for example if the port is taken; PermissionDenied.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const Options& options, Pages pages);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const { return port_; }
  const Pages& pages() const { return pages_; }

 private:
  MetricsServer(Options options, Pages pages)
      : pages_(std::move(pages)), options_(std::move(options)) {}

  const Pages pages_;
  Options options_;  // whose certificate and key the daemon reads
  uint16_t port_ = 0;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_METRICS_SERVER_H_
