// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_AWAKE_CPUS_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_AWAKE_CPUS_H_

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace snf {

// Keeps the CPUs that this thread may use from halting as long as it lives, as
// the kernel's idle=poll does: on each, a thread spins that gives way to all
// others. A CPU of a virtual machine that has halted may take the host some
// milliseconds to run again, of which no program inside knows the cause.
// Owner-thread only.
class AwakeCpus {
 public:
  AwakeCpus() {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      threads_.emplace_back([this, cpu] { Spin(cpu); });
    }
  }
  AwakeCpus(const AwakeCpus&) = delete;
  AwakeCpus& operator=(const AwakeCpus&) = delete;
  ~AwakeCpus() {
    stops_.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Spin(size_t cpu) const {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    const sched_param none = {};
    if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) != 0) return;
    while (!stops_.load(std::memory_order_relaxed)) {
    }
  }

  std::atomic<bool> stops_{false};
  std::vector<std::thread> threads_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_AWAKE_CPUS_H_
