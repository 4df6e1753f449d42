// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BYPASS_BYPASS_GUARD_H_
#define SNF_PLATFORM_BYPASS_BYPASS_GUARD_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"

namespace snf {

// The guard of a daemon, as the daemon sees it: a process of the same program
// (bypass_process.h) in a session of its own. It ends with this object's End;
// without it, as after a kill of the daemon, it takes the daemon's place.
// Owner-thread only.
class BypassGuard {
 public:
  struct Options {
    std::string inside;   // interface
    std::string outside;  // interface
    Nanos patience;
    LogOptions log;
    std::string program = "/proc/self/exe";
  };
  // Starts the guard. Any earlier guard of the name has ended (EndBypass).
  // Errors: Unavailable.
  static absl::StatusOr<BypassGuard> Start(const DaemonFiles& files,
                                           const Options& options);

  BypassGuard(BypassGuard&& other) noexcept = default;
  BypassGuard& operator=(BypassGuard&&) = delete;

  // Ends the guard, as at a clean end of the daemon, and waits for that.
  void End();

 private:
  BypassGuard(DaemonFiles files, pid_t pid, Descriptor life)
      : files_(std::move(files)), pid_(pid), life_(std::move(life)) {}

  DaemonFiles files_;
  pid_t pid_;
  Descriptor life_;  // closed by the kernel if the daemon dies
};

}  // namespace snf

#endif  // SNF_PLATFORM_BYPASS_BYPASS_GUARD_H_
