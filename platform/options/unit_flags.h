// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_UNIT_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_UNIT_FLAGS_H_

#include "absl/status/status.h"
#include "platform/options/run_flag_set.h"

namespace snf {

// The flags of compute units: their number, capacity, queues and starts
// (RunFlagSet).
class UnitFlags {
 public:
  explicit UnitFlags(RunFlagSet& set);

  absl::Status Check() const;
  void Settle();

 private:
  void AddCapacity();
  void AddQueues();
  void AddStarts();
  void AddHosts();
  absl::Status CheckHosts() const;

  RunFlagSet& set_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_UNIT_FLAGS_H_
