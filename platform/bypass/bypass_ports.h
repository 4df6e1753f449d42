// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BYPASS_BYPASS_PORTS_H_
#define SNF_PLATFORM_BYPASS_BYPASS_PORTS_H_

#include <array>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/bypass/bypass_state.h"
#include "platform/ports/packet_port.h"

namespace snf {

// Passes frames between two interfaces as they come, in both directions. Frames
// of several packets stay whole. It claims no interface, so that a daemon may
// claim it at any time. Owner-thread only.
class BypassPorts {
 public:
  // Errors: as of PacketPort::Open, except of claims.
  static absl::StatusOr<BypassPorts> Open(const std::string& inside,
                                          const std::string& outside);

  // Passes some dozens of frames a direction. Returns false if there were none.
  bool Pass();
  // Returns the error of a port that has failed.
  absl::Status status() const;
  // Adds the frames since the last call, and notes a port that has failed.
  // Until then descriptors of such a port are readable.
  void AddCounts(BypassCounts& counts);
  // Returns descriptors that are readable if frames wait.
  std::array<int, 2> descriptors() const;

 private:
  struct Told {
    uint64_t received = 0;
    uint64_t dropped = 0;
  };

  std::array<std::unique_ptr<PacketPort>, 2> ports_;  // inside, outside
  std::array<Told, 2> told_;
  std::array<uint64_t, 2> kernel_drops_{};
  absl::Status failed_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_BYPASS_BYPASS_PORTS_H_
