// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_FROZEN_WATCH_H_
#define SNF_PLATFORM_PROCESS_FROZEN_WATCH_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace snf {

// Finds processes that a signal has stopped (SIGSTOP) for long: packets wait
// for them, as for dead ones (proto/protocol.md F2). A process that works,
// waits or is traced by a debugger is not frozen, however long it takes:
// NfWatchdog ends calls that never return.
//
// Looks at a process only while it gets nothing done. Owner-thread only.
class FrozenWatch {
 public:
  static constexpr Nanos kLook = Milliseconds(200);  // between two looks
  static constexpr Nanos kPatience = Seconds(1);

  explicit FrozenWatch(size_t processes) : seen_(processes) {}

  bool is_due(Instant now) const { return now >= next_; }
  // Begins a round of looks.
  void Begin(Instant now) { next_ = now + kLook; }
  // Looks at a process. `done` differs from the last look's if the process has
  // got anything done. Returns true, and begins anew, if the process was
  // stopped at all looks for kPatience.
  bool Look(Instant now, size_t process, pid_t pid, uint64_t done);

  // Returns true if a signal has stopped the process.
  static bool IsStopped(pid_t pid);

 private:
  struct Seen {
    pid_t pid = 0;
    uint64_t done = 0;
    Instant stopped = Instant::max();  // since the first look that found it so
  };

  std::vector<Seen> seen_;
  Instant next_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_FROZEN_WATCH_H_
