// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_PIN_PLACE_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_PIN_PLACE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace snf {

// Returns the CPUs that the calling thread may use, in order.
std::vector<int> OwnCpus();

// Chooses CPUs for one of several runs side by side (RealOptions::pin).
// One thread dispatches for all runs, on the first CPU.
// Each run has further threads, with CPUs of their own.
//
// Example: of 8 CPUs, the runs 0 and 1 have three threads each: on the CPUs 0,
// 1, 2 and 0, 3, 4.
struct PinPlace {
  uint32_t number = 0;  // of the run, from 0 on
  uint32_t runs = 1;    // that have as many threads
  // Lists the CPUs that the process may use, in order, for as long as runs
  // start. Empty: the calling thread's.
  std::span<const int> cpus = {};
  // Pins the calling thread as well, which dispatches.
  bool pins_caller = true;

  // Returns the most threads, at least `least`, that each run can have on that
  // number of CPUs.
  uint32_t ThreadsOn(uint32_t cpus_there, uint32_t least) const;
  // Returns the CPU of each thread. Errors: InvalidArgument, there are too few.
  absl::StatusOr<std::vector<int>> CpusOf(std::span<const int> all,
                                          uint32_t threads) const;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_PIN_PLACE_H_
