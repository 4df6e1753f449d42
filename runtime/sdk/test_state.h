// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_TEST_STATE_H_
#define SNF_RUNTIME_SDK_TEST_STATE_H_

#include <cstddef>
#include <span>

#include "runtime/sdk/no_services.h"
#include "runtime/sdk/state.h"

// For tests and benchmarks: flows without a unit.

namespace snf {

// A flow while an NF handles one packet.
struct TestFlow {
  explicit TestFlow(std::span<std::byte> record) : view(record) {}
  StateView view;
  NoServices services;
  FlowState flow{FlowId{1}, Instant{}, Instant::max(), view, services};
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TEST_STATE_H_
