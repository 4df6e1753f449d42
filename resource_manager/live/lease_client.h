// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_LEASE_CLIENT_H_
#define SNF_RESOURCE_MANAGER_LIVE_LEASE_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "proto/leases.pb.h"
#include "resource_manager/live/lease_address.h"

namespace snf {

// A member's stream to a resource manager (proto/leases.proto). One thread may
// send while another reads.
class LeaseStream {
 public:
  // Returns within some seconds; whether anybody listens there shows by Read.
  static std::unique_ptr<LeaseStream> Open(const LeaseAddress& address);
  // Breaks the stream; no other call is under way.
  virtual ~LeaseStream() = default;
  // Returns false once the stream has broken.
  virtual bool Send(const proto::ToManager& message) = 0;
  // Waits for the next message; returns false once the stream has broken.
  virtual bool Read(proto::ToMember& message) = 0;
  // Breaks the stream: Send and Read return. Any thread.
  virtual void Cancel() = 0;
  // Returns why it has broken, once Read has returned false. Call once.
  virtual absl::Status Finish() = 0;

 protected:
  LeaseStream() = default;
};

// Asks a resource manager once for its members and leases. Errors: those of the
// service; DeadlineExceeded or Unavailable if it cannot be reached.
absl::StatusOr<proto::LookReply> LookAtLeases(const LeaseAddress& address,
                                              Nanos patience);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_LEASE_CLIENT_H_
