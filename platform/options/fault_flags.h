// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_FAULT_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_FAULT_FLAGS_H_

#include <string>

#include "absl/status/status.h"
#include "platform/options/run_flag_set.h"

namespace snf {

// The flags of loggers, and of the failures that runs recover from by them
// (RunFlagSet).
class FaultFlags {
 public:
  explicit FaultFlags(RunFlagSet& set);

  absl::Status Check() const;
  // Refuses failures that the run cannot recover from. Called after LeaseFlags
  // and the chains are settled.
  absl::Status CheckFaults() const;
  // Makes room for recovery. Called last, since it adds units that no flag
  // asks for.
  void Settle();

 private:
  void AddLoggers();
  void AddChaos();
  void AddFaults();
  absl::Status CheckControllers() const;
  absl::Status CheckNamed() const;
  absl::Status AtOddsWithControllers(const std::string& because) const;

  RunFlagSet& set_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_FAULT_FLAGS_H_
