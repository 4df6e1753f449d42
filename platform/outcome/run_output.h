// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_RUN_OUTPUT_H_
#define SNF_PLATFORM_OUTCOME_RUN_OUTPUT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text/terminal.h"
#include "platform/options/run_request.h"
#include "platform/outcome/replayed_run.h"
#include "platform/process/exit_code.h"
#include "platform/report/report.h"

namespace snf {

// Writes the result of a run to the places that a RunRequest names: the report
// as text or JSON, CSV, the files of NFs, stories. Owner-thread only.
class RunOutput {
 public:
  // `options` must outlive this.
  explicit RunOutput(const RunRequest& options) : options_(options) {}

  // Each returns kExitCheckFailed if a run is not sound or if runs disagree,
  // else kExitOk. An error names the file that cannot be written, or the flow
  // of --explain that no packet had.
  absl::StatusOr<ExitCode> Write(const ReplayedRun& replayed) const;
  absl::StatusOr<ExitCode> WriteComparison(std::vector<ReplayedRun> runs) const;

  // Returns the inputs of a run, for its report.
  RunInfo InfoOf(const ComparedRun& run,
                 const std::vector<std::string>& warnings) const;
  // Writes a report as JSON, as text, or as both, as the flags say.
  absl::Status WriteReport(
      const std::function<std::string()>& json,
      const std::function<std::string(Terminal)>& text) const;

 private:
  // Prints the stories, unless they stand in the JSON on stdout, or says why
  // there is none.
  absl::Status TellStories(const ReplayedRun& replayed) const;

  const RunRequest& options_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_RUN_OUTPUT_H_
