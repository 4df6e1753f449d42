// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_PLOT_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_PLOT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// The figures of `snf trace info` are drawn by experiments/plot_captures.py, in
// a process of its own: by the Python that SNF_PYTHON names in the environment,
// else by Debian's.

// Checks, within half a second, that there is a Python with matplotlib. Errors:
// FailedPrecondition, which names the Debian package that is missing.
absl::Status CheckPlotting();

// Returns a PNG image of the figures in `json`, which JsonOf returned. Errors:
// Internal, with the last line of the script.
absl::StatusOr<std::string> PlotOf(const std::string& json);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_PLOT_H_
