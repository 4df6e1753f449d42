// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_SIMULATE_SIMULATE_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_SIMULATE_SIMULATE_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "platform/commands/simulate/flow_traffic.h"
#include "platform/commands/simulate/lease_options.h"
#include "platform/process/command.h"

namespace snf {

// `snf simulate` simulates controllers that lease units.
class SimulateCommand final : public FlagCommand {
 public:
  SimulateCommand();

 private:
  absl::Status Run() override;
  void AddFlags();
  void AddDistribution(const std::string& name, Distribution::Unit unit,
                       const std::string& preset, Distribution& value,
                       const std::string& help);

  LeaseOptions options_;
  FlowTraffic::Options traffic_;
  size_t units_ = 0;
  std::string json_;
  bool quiet_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_SIMULATE_SIMULATE_COMMAND_H_
