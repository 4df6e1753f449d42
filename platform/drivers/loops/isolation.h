// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_ISOLATION_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_ISOLATION_H_

#include <cstdint>

namespace snf {

// Says where loops of units run.
enum class Isolation : uint8_t {
  kThread,     // in the process of the controller
  kProcess,    // each in a process of its own
  kContainer,  // each in a process of its own, in a container (LXC)
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_ISOLATION_H_
