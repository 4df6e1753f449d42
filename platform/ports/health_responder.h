// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_HEALTH_RESPONDER_H_
#define SNF_PLATFORM_PORTS_HEALTH_RESPONDER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "platform/ports/interface/network_interface.h"

namespace snf {

// Answers the health checks of a load balancer at a TCP port of all addresses
// of this machine: to any HTTP request, of any path, 200 if packets are
// forwarded, else 503. The answers are given by the thread that forwards, in
// Answer(): so a thread that hangs answers nothing, and a check by HTTP fails.
// A check by TCP connects as long as the port is open.
//
// A client's share is bounded: at most kConnections wait for a request, then
// the oldest is closed. A connection is closed after one answer, after
// kRequestBytes without the end of a request, or after kPatience.
//
// No call waits. Owner-thread only.
class HealthResponder {
 public:
  static constexpr size_t kConnections = 16;
  static constexpr size_t kRequestBytes = 4'096;
  static constexpr auto kPatience = std::chrono::seconds(2);

  // Listens at this port, or at any free one if it is 0. Errors:
  // FailedPrecondition, which names the port.
  static absl::StatusOr<std::unique_ptr<HealthResponder>> Listen(uint16_t port);

  // Takes connections, and answers requests that have come.
  void Answer(bool is_forwarding);

  uint16_t port() const { return port_; }

 private:
  struct Connection {
    Descriptor socket;
    std::string request;
    std::chrono::steady_clock::time_point end;
  };

  HealthResponder(Descriptor listener, uint16_t port)
      : listener_(std::move(listener)), port_(port) {}
  void Accept();
  // Returns false if the connection is over.
  static bool Serve(Connection& connection, bool is_forwarding);

  Descriptor listener_;
  uint16_t port_;
  std::array<Connection, kConnections> connections_;
  size_t oldest_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_HEALTH_RESPONDER_H_
