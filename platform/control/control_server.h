// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_SERVER_H_
#define SNF_PLATFORM_CONTROL_CONTROL_SERVER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "platform/control/control_handler.h"
#include "platform/service/tls_endpoint.h"

namespace snf {

// Serves the control service on threads of its own, with the services for
// health and reflection. What clients may take is bounded: a message has at
// most kMostBytes; kMostCalls of the control service are under way at a time,
// others are refused; and a call without a deadline, or with a later one, is
// given up after kMostSeconds.
class ControlServer {
 public:
  static constexpr int kMostBytes = 64 * 1024;
  static constexpr int kMostCalls = 16;
  static constexpr int kMostSeconds = 40;

  // Listens on return, on a socket of the file system that is this user's
  // alone, and on a TCP port, if one is named, for clients whose certificate
  // its authority has signed. control_access.h has what these may ask for. The
  // handler must outlive the server. Error: Unavailable.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(
      const std::string& socket, const std::optional<TlsEndpoint>& tcp,
      ControlHandler& handler);
  // Refuses what comes, and waits for calls that are under way.
  virtual ~ControlServer() = default;

 protected:
  ControlServer() = default;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_SERVER_H_
