// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_CONTROLLER_COUNTS_H_
#define SNF_BASE_MESSAGES_CONTROLLER_COUNTS_H_

#include <cstdint>

namespace snf {

// The values that a ControllerId can have.
inline constexpr uint32_t kControllerIds = 256;
// Controllers that lease units from one resource manager, at most.
inline constexpr uint32_t kMostControllers = 64;
// Controllers in processes of their own at the same ports, at most: a filter in
// the kernel tells each packet's.
inline constexpr uint32_t kMostAtPorts = 16;

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_CONTROLLER_COUNTS_H_
