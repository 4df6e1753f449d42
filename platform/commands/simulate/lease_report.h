// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_REPORT_H_
#define SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_REPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "platform/commands/simulate/lease_options.h"
#include "platform/commands/simulate/lease_simulation.h"

namespace snf {

struct LeaseReport {
  LeaseOptions options;
  LeaseFigures figures;
  std::vector<std::pair<std::string, std::string>> flags;
  Nanos elapsed;  // on the wall
};

// Quantiles are over controllers and epochs; of one controller, over epochs.
std::string TextOf(const LeaseReport& report);
std::string JsonOf(const LeaseReport& report);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_SIMULATE_LEASE_REPORT_H_
