// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_REPLAY_OUTPUT_H_
#define SNF_PLATFORM_REPLAY_REPLAY_OUTPUT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/process/exit_code.h"
#include "platform/replay/replay_options.h"
#include "platform/replay/replay_run.h"
#include "platform/report/report.h"
#include "platform/text/terminal.h"

namespace snf {

// Writes what came of a run where ReplayOptions say: the report as text or
// JSON, CSV, the files of NFs, stories. Owner-thread only.
class ReplayOutput {
 public:
  // `options` must outlive this.
  explicit ReplayOutput(const ReplayOptions& options) : options_(options) {}

  // Each returns the exit code: kExitCheckFailed if a run is not sound, if runs
  // do not agree, or if the packets of chains do not add up. Errors name the
  // file that cannot be written, or the flow that did not come up.
  absl::StatusOr<ExitCode> Write(const ReplayedRun& replayed) const;
  absl::StatusOr<ExitCode> WriteComparison(std::vector<ReplayedRun> runs) const;
  absl::StatusOr<ExitCode> WriteChains(const ReplayedChains& replayed) const;

 private:
  RunInfo InfoOf(const ComparedRun& run,
                 const std::vector<std::string>& warnings) const;
  // Writes the two forms of a report where the flags want them.
  absl::Status WriteReport(
      const std::function<std::string()>& json,
      const std::function<std::string(Terminal)>& text) const;
  // Prints the stories, unless they stand in the JSON on stdout, or says why
  // there is none.
  absl::Status TellStories(const ReplayedRun& replayed) const;

  const ReplayOptions& options_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_REPLAY_OUTPUT_H_
