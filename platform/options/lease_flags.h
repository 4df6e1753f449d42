// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_LEASE_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_LEASE_FLAGS_H_

#include "absl/status/status.h"
#include "platform/options/run_flag_set.h"

namespace snf {

// The flags of several controllers, which lease units from a resource manager
// (RunFlagSet). A run between ports has none of them.
class LeaseFlags {
 public:
  explicit LeaseFlags(RunFlagSet& set);

  absl::Status Check() const;
  void Settle();

 private:
  absl::Status CheckSeveral() const;
  absl::Status CheckRealTime() const;
  absl::Status CheckVirtualTime() const;

  RunFlagSet& set_;
  bool independent_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_LEASE_FLAGS_H_
