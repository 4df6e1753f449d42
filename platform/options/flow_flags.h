// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_FLOW_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_FLOW_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/core/placement.h"
#include "platform/options/run_flag_set.h"
#include "platform/process/flow_key_flag.h"

namespace snf {

// The flags of flows, flowlets and their placement (RunFlagSet).
class FlowFlags {
 public:
  explicit FlowFlags(RunFlagSet& set);

  // Names the policies of the run: its own first, then those compared with it.
  // Called before any Check.
  void SettlePolicies(const std::vector<std::string>& compared);
  absl::Status Check() const;
  void Settle();

 private:
  void AddPlacement();
  void AddDemand();
  void AddLoad();

  RunFlagSet& set_;
  FlowKeyFlag flow_key_;
  std::string policy_ = "snf";  // its name, or the file of its module
  const PlacementPolicy* placement_ = FindPlacementPolicy("snf");
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_FLOW_FLAGS_H_
