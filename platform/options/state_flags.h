// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_STATE_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_STATE_FLAGS_H_

#include "absl/status/status.h"
#include "platform/options/run_flag_set.h"

namespace snf {

// The flags of flows' state: how it follows flowlets, its replicas, and its
// store (RunFlagSet).
class StateFlags {
 public:
  explicit StateFlags(RunFlagSet& set);

  absl::Status Check() const;
  void Settle();

 private:
  void AddMode();
  void AddStore();
  void AddReplicas();
  void AddModel();
  void AddQueues();
  absl::Status CheckStore() const;

  RunFlagSet& set_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_STATE_FLAGS_H_
