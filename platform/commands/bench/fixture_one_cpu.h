// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_ONE_CPU_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_ONE_CPU_H_

#include <sched.h>

#include <cstddef>

namespace snf {

// The CPUs that this thread may use, of which it uses one while this object
// lives. A thread that wakes others is on the first CPU, and the woken threads
// are on the last. Owner-thread only.
class OneCpu {
 public:
  explicit OneCpu(bool is_last) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_)) continue;
      if (is_last) CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      if (!is_last) break;
    }
    sched_setaffinity(0, sizeof one, &one);
  }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;
  ~OneCpu() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_ONE_CPU_H_
