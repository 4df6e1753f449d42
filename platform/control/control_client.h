// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_CLIENT_H_
#define SNF_PLATFORM_CONTROL_CONTROL_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/service/tls_endpoint.h"
#include "proto/control.pb.h"

namespace snf {

// Asks a daemon by its control service. Each call waits for the answer, for so
// long at most. Errors are those of proto/control.proto. Owner-thread only.
class ControlClient {
 public:
  static constexpr Nanos kPatience = Seconds(5);
  // Units are started first, maybe in containers.
  static constexpr Nanos kChainPatience = Seconds(30);
  // Returns how long an answer to this is waited for.
  template <typename Request>
  static constexpr Nanos PatienceOf(const Request& /*request*/) {
    return kPatience;
  }
  static constexpr Nanos PatienceOf(const proto::ChainRequest& /*request*/) {
    return kChainPatience;
  }
  static Nanos PatienceOf(const proto::SetRequest& request) {
    const bool has_config =
        request.tell_config() || !request.config_file().empty();
    return has_config ? kChainPatience : kPatience;
  }

  // Asks at a socket of the file system.
  static std::unique_ptr<ControlClient> Connect(const std::string& socket);
  // Asks at a TCP port whose server has a certificate, and wants one.
  static std::unique_ptr<ControlClient> Connect(const TlsEndpoint& endpoint);
  virtual ~ControlClient() = default;

  virtual absl::StatusOr<proto::StatusReply> Ask(
      const proto::StatusRequest& request) = 0;
  virtual absl::StatusOr<proto::UnitsReply> Ask(
      const proto::UnitsRequest& request) = 0;
  virtual absl::StatusOr<proto::FlowsReply> Ask(
      const proto::FlowsRequest& request) = 0;
  virtual absl::StatusOr<proto::RulesReply> Ask(
      const proto::RulesRequest& request) = 0;
  virtual absl::StatusOr<proto::CaptureReply> Ask(
      const proto::CaptureRequest& request) = 0;
  virtual absl::StatusOr<proto::SetReply> Ask(
      const proto::SetRequest& request) = 0;
  virtual absl::StatusOr<proto::DrainReply> Ask(
      const proto::DrainRequest& request) = 0;
  virtual absl::StatusOr<proto::KillReply> Ask(
      const proto::KillRequest& request) = 0;
  virtual absl::StatusOr<proto::ChainReply> Ask(
      const proto::ChainRequest& request) = 0;
  virtual absl::StatusOr<proto::UpgradeReply> Ask(
      const proto::UpgradeRequest& request) = 0;
  virtual absl::StatusOr<proto::DownReply> Ask(
      const proto::DownRequest& request) = 0;

 protected:
  ControlClient() = default;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_CLIENT_H_
