// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_LEASE_SERVER_H_
#define SNF_RESOURCE_MANAGER_LIVE_LEASE_SERVER_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/leases.pb.h"
#include "resource_manager/live/lease_address.h"

namespace snf {

// The way to a member, for as long as its stream lasts. Thread-safe.
class MemberStream {
 public:
  // So many messages wait for a member that does not read; then the stream
  // breaks.
  static constexpr size_t kMostWaiting = 4'096;

  virtual ~MemberStream() = default;
  // Sends in order, or not at all once the stream has broken. Does not wait.
  virtual void Send(proto::ToMember message) = 0;
  // Sends what waits; then the stream ends, at the latest a second later.
  virtual void End() = 0;
};

// Answers the leases service. Calls come on many threads; the calls of one
// stream come on one thread.
class LeaseHandler {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  virtual ~LeaseHandler() = default;
  virtual void on_message(const std::shared_ptr<MemberStream>& from,
                          proto::ToManager message) = 0;
  // The stream has ended.
  virtual void on_end(const std::shared_ptr<MemberStream>& stream) = 0;
  virtual absl::Status Look(Deadline deadline, proto::LookReply& reply) = 0;
};

// Serves the leases service on threads of its own, with the services for health
// and reflection, on a socket of the file system that is this user's alone, and
// on a TCP port, if there is one. A message has at most kMostBytes, and there
// are at most kMostControllers streams.
class LeaseServer {
 public:
  static constexpr int kMostBytes = 256 * 1024;

  // Listens on return. The handler must outlive the server. Error: Unavailable.
  static absl::StatusOr<std::unique_ptr<LeaseServer>> Start(
      const std::string& socket, LeaseHandler& handler,
      const std::optional<LeasePort>& port = std::nullopt);
  // Breaks all streams.
  virtual ~LeaseServer() = default;

 protected:
  LeaseServer() = default;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_LEASE_SERVER_H_
