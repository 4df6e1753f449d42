// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TEST_EXPLORER_H_
#define SNF_RUNTIME_CORE_TEST_EXPLORER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/test_world.h"

namespace snf {

// Findings are what an exploration found.
struct Findings {
  uint64_t states = 0;
  uint64_t steps = 0;
  uint64_t settled = 0;  // counts states in which nothing happens by itself
  uint32_t depth = 0;
  size_t unit_states = 0;
  bool is_complete = false;        // there are no other states
  std::string violation;           // is the first that was found, or empty
  std::vector<std::string> trace;  // is a shortest way to it, a line each step
  WorldRules::Totals totals;
  // Has hashes of what can be seen of the states from outside of the units,
  // each once, sorted, where they were asked for.
  std::vector<uint64_t> looks;
};

// Takes every step from every state of the configuration, breadth first, until
// all are known, or configuration.max_states are, or something is wrong. States
// are told apart by 64-bit hashes. Costs about 0.1 kB a state of the widest
// level, and 28 bytes for each other one.
Findings Explore(const Configuration& configuration, bool keeps_looks = false);

// Returns the findings as a line for people.
std::string Summary(const Findings& findings);

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_EXPLORER_H_
