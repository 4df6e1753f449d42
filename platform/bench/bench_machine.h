// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BENCH_BENCH_MACHINE_H_
#define SNF_PLATFORM_BENCH_BENCH_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace snf {

// What figures of a machine depend on; empty, or 0, where the system does not
// say.
struct MachineFacts {
  std::string cpu;       // model
  uint32_t cpus = 0;     // that this process may use
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
MachineFacts ReadMachineFacts();

// How many threads want to run, the mean of the last minute; -1 if unknown.
double LoadAverage();

}  // namespace snf

#endif  // SNF_PLATFORM_BENCH_BENCH_MACHINE_H_
