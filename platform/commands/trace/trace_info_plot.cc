// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_info_plot.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "platform/process/child_program.h"
#include "platform/process/source_tree.h"

namespace snf {
namespace {

std::string Python() {
  const char* const named = std::getenv("SNF_PYTHON");
  return named == nullptr ? "/usr/bin/python3" : named;
}

// Runs Python with these arguments on `input`, and returns its output. Errors:
// Internal, with its last line.
absl::StatusOr<std::string> RunPython(const std::vector<std::string>& arguments,
                                      std::string_view input) {
  ChildProgram python = {.words = {Python()}, .input = input};
  python.words.insert(python.words.end(), arguments.begin(), arguments.end());
  auto output = RunChildProgram(python);
  if (output.ok()) return output;
  return absl::InternalError(output.status().message());
}

}  // namespace

absl::Status CheckPlotting() {
  const auto ran = RunPython({"-c", "import matplotlib"}, "");
  if (ran.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "--plot draws with matplotlib, Debian's package python3-matplotlib: {}",
      std::string(ran.status().message())));
}

absl::StatusOr<std::string> PlotOf(const std::string& json) {
  const std::string script =
      std::string(kSourceDirectory) + "/experiments/plot_captures.py";
  return RunPython({script}, json);
}

}  // namespace snf
