// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_FROZEN_WATCH_H_
#define SNF_PLATFORM_REAL_TIME_FROZEN_WATCH_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace snf {

// Finds processes that stand still, because a signal has stopped them (SIGSTOP)
// and nobody lets them go on: to others they are as good as dead, and packets
// wait for them (proto/protocol.md F2). One that works, waits or is traced by a
// debugger is none, however long it takes: NfWatchdog sees to that.
//
// A process is looked at only while it gets nothing done. Owner-thread only.
class FrozenWatch {
 public:
  static constexpr Nanos kLook = Milliseconds(200);  // between two looks
  static constexpr Nanos kPatience = Seconds(1);

  explicit FrozenWatch(size_t processes) : seen_(processes) {}

  bool is_due(Instant now) const { return now >= next_; }
  // A round of looks begins.
  void Begin(Instant now) { next_ = now + kLook; }
  // Looks at a process. `done` is another number if it has got anything done
  // since the last look. Returns true if it was found stopped at all looks for
  // kPatience; then it begins anew.
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

#endif  // SNF_PLATFORM_REAL_TIME_FROZEN_WATCH_H_
