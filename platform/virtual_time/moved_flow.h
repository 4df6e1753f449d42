// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_MOVED_FLOW_H_
#define SNF_PLATFORM_VIRTUAL_TIME_MOVED_FLOW_H_

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
  State state;  // with the record of the flow beside it
  std::vector<std::byte> record;
  // Not part of the message: what the run knows of the flow so far.
  uint64_t digest = 0;
  uint64_t digest_up_to_renaming = 0;
  Checker::Moved checked;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_MOVED_FLOW_H_
