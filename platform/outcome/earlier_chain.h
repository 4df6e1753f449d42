// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_EARLIER_CHAIN_H_
#define SNF_PLATFORM_OUTCOME_EARLIER_CHAIN_H_

#include <cstdint>
#include <string>

namespace snf {

// Counts the packets of a chain that another chain replaced during a live run,
// or that failed and restarted
// (platform/daemon/chains/live_chains.h). Plain data.
struct EarlierChain {
  uint32_t number = 0;  // from 1 on
  std::string nf;
  uint64_t packets_in = 0;
  uint64_t packets_begun = 0;  // as RunResult has these
  uint64_t packets_released = 0;
  uint64_t packets_passed_through = 0;
  uint64_t packets_hairpinned = 0;
  uint64_t packets_ended = 0;
  uint64_t flows = 0;
  uint64_t violations = 0;
  std::string violation{};  // the first one
  std::string failure{};    // as RunResult has it
  // Why the chain failed, if it restarted under the same number.
  std::string renewed_for{};

  void Add(const EarlierChain& more) {
    packets_in += more.packets_in;
    packets_begun += more.packets_begun;
    packets_released += more.packets_released;
    packets_passed_through += more.packets_passed_through;
    packets_hairpinned += more.packets_hairpinned;
    packets_ended += more.packets_ended;
    flows += more.flows;
    violations += more.violations;
    if (violation.empty()) violation = more.violation;
    if (failure.empty()) failure = more.failure;
  }
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_EARLIER_CHAIN_H_
