// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FLOW_KEYS_H_
#define SNF_PLATFORM_RUN_FLOW_KEYS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "controller/core/flow_table.h"

namespace snf {

// Returns the key of the flow; FlowKey{} if the controller has forgotten the
// flow, or if its slot is not below `slots`. May be called by a thread that is
// not the table's while the flow is in use, since its key does not change then.
inline FlowKey KeyOf(const FlowTable& flows, uint32_t slots, FlowId flow) {
  const uint32_t slot = slot_of(flow);
  const bool is_there =
      slot < slots && flows.numbers(slot).generation == generation_of(flow);
  return is_there ? flows.hot(slot).key : FlowKey{};
}

// As above, by the table's own thread.
inline FlowKey KeyOf(const FlowTable& flows, FlowId flow) {
  return KeyOf(flows, flows.used(), flow);
}

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FLOW_KEYS_H_
