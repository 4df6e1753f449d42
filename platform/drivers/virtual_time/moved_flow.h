// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_MOVED_FLOW_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_MOVED_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/messages/messages.h"
#include "controller/hand_over/hand_over.h"
#include "platform/check/checker.h"

namespace snf {

// A flow on its way from one controller's driver to another's.
struct MovedFlow {
  HandedFlow flow;
  State state;
  std::vector<std::byte> record;  // of the state
  // Not part of the message: the run's digests and checks of the flow so far.
  uint64_t digest = 0;
  uint64_t digest_up_to_renaming = 0;
  Checker::Moved checked;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_MOVED_FLOW_H_
