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
  // Returns an error unless --ipfix names a file or a collector, and an NF of
  // the chains has logs for it. Called once the chains are known.
  absl::Status CheckIpfix() const;
  void Settle() {
    set_.request.run.nf_logs =
        !set_.request.nf_logs.empty() || !set_.request.ipfix.empty();
  }

 private:
  void AddCaptures();
  void AddReports();
  absl::Status CheckNames() const;

  RunFlagSet& set_;
  bool force_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_OUTPUT_FLAGS_H_
