// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LIVE_RUN_H_
#define SNF_PLATFORM_DAEMON_LIVE_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/options/run_request.h"
#include "platform/outcome/replayed_run.h"
#include "platform/ports/port_spec.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/exit_code.h"

namespace snf {

class Daemon;

// The result of a live run, and how its ports ended.
struct LiveRun {
  ReplayedRun replayed;
  std::string nf;  // of the newest chain
  absl::Status ports;
};

// Runs live traffic between the ports until it is interrupted. The daemon, if
// there is one, steers the run. Without one, stderr tells that it begins.
// Errors are those of ports, outputs and RealDriver.
absl::StatusOr<LiveRun> RunPorts(const RunRequest& options,
                                 FirstInterrupt& interrupt,
                                 Daemon* daemon = nullptr);

// Writes the report. Returns the exit code, or the error that ended the run.
absl::StatusOr<ExitCode> ReportOf(const RunRequest& options,
                                  const LiveRun& live);

// Lists ports: "inside=lan0, outside=wan0".
std::string ListOf(const std::vector<PortSpec>& ports);

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LIVE_RUN_H_
