// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_BENCH_MACHINE_H_
#define SNF_PLATFORM_COMMANDS_BENCH_BENCH_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace snf {

// The properties of a machine that its figures depend on. A text is empty, and
// a number 0, if the system does not tell it.
struct MachineFacts {
  std::string cpu;       // model
  uint32_t cpus = 0;     // CPUs that this process may use
  int64_t clock_hz = 0;  // at the moment
  struct Cache {
    std::string name;  // "L1d"
    std::string size;  // "32K"
  };
  std::vector<Cache> caches;  // of the first CPU
  std::string kernel;
  std::string governor;    // of the frequency, of the first CPU
  std::string hypervisor;  // "yes" inside a virtual machine
};

// Reads the facts of this machine, from /proc and /sys.
MachineFacts ReadMachineFacts();

// Returns the mean number of threads that wanted to run in the last minute, or
// -1 if it is unknown.
double LoadAverage();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_BENCH_MACHINE_H_
