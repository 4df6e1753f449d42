// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LIVE_WIRE_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LIVE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/fixture_flows.h"
#include "platform/ports/interface/network_interface.h"

namespace snf {

// For benchmarks: two pairs of veth in a network namespace of their own, which
// are gone with all sockets in it.
//
//   sender ══ lan0   [what is measured]   wan0 ══ receiver, which drops
//
// Owner-thread only.
class LiveWire {
 public:
  // Frames that may wait at lan0.
  static constexpr uint32_t kBurst = 4'096;

  // Makes the interfaces, and calls `open` on a thread whose sockets are
  // theirs. Errors: PermissionDenied if this process may not make namespaces;
  // FailedPrecondition if there are no veth interfaces; errors of `open`.
  static absl::StatusOr<std::unique_ptr<LiveWire>> Make(
      uint32_t flows, absl::FunctionRef<absl::Status()> open);

  // Sends frames of 60 bytes to lan0, of connections in random order: at most
  // `most`, and at most one burst. Returns the number of frames.
  uint32_t Send(uint64_t most);

 private:
  LiveWire() = default;
  absl::Status OpenIn(absl::FunctionRef<absl::Status()> open);

  Descriptor sender_;
  std::vector<MadeFrame> frames_;
  size_t next_ = 0;
};

// The least that a program does that takes frames from lan0 by a packet socket
// and sends them by another to wan0, as they are, in batches.
class BareForwarder {
 public:
  // Call on a thread that is in the wire's namespace. Error:
  // FailedPrecondition.
  absl::Status Open();
  // Takes the waiting frames, and sends them if `sends`. Returns the number of
  // frames.
  uint32_t Turn(bool sends);

 private:
  static constexpr size_t kBatch = 64;
  static constexpr size_t kRoomBytes = 2'048;

  Descriptor in_;
  Descriptor out_;
  std::vector<std::byte> rooms_ = std::vector<std::byte>(kBatch * kRoomBytes);
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LIVE_WIRE_H_
