// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_EXPLORER_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_EXPLORER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "platform/system_test/test_failover_world.h"

namespace snf {

// What an exploration found.
struct FailoverFindings {
  uint64_t states = 0;
  uint64_t steps = 0;
  uint64_t ends = 0;  // states after which nothing goes on by itself
  uint64_t runs = 0;  // from the beginning
  size_t depth = 0;
  bool is_complete = false;        // there are no other states
  std::string violation;           // is the first that was found, or empty
  std::vector<std::string> trace;  // is the way to it, a line each step
};

inline constexpr uint32_t kAnyTurns = ~uint32_t{0};

struct ExplorerLimits {
  uint64_t max_states = ~uint64_t{0};
  // There is an order in which the first step of those listed is taken each
  // time. A way may leave it so often, apart from failures.
  uint32_t max_turns = kAnyTurns;
};

// Takes every step from every state of the plan, depth first, until all are
// known, or `max_states` are, or something is wrong. Worlds cannot be copied:
// it goes back to a state by taking the steps to it anew. States are told apart
// by who got what in which order, so that two orders of steps that have nothing
// to do with each other count once.
FailoverFindings ExploreFailover(const FailoverPlan& plan,
                                 const ExplorerLimits& limits);

// Returns the findings as a line for people.
std::string Summary(const FailoverFindings& findings);

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_EXPLORER_H_
