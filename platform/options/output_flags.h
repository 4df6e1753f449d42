// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_OUTPUT_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_OUTPUT_FLAGS_H_

#include "absl/status/status.h"
#include "platform/options/run_flag_set.h"

namespace snf {

// The flags of written captures and reports (RunFlagSet).
class OutputFlags {
 public:
  explicit OutputFlags(RunFlagSet& set);

  absl::Status Check() const;
  void Settle() { set_.request.run.nf_logs = !set_.request.nf_logs.empty(); }

 private:
  void AddCaptures();
  void AddReports();
  absl::Status CheckNames() const;

  RunFlagSet& set_;
  bool force_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_OUTPUT_FLAGS_H_
