// SPDX-License-Identifier: Apache-2.0
#include "platform/process/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "base/text/stderr_line.h"
#include "platform/process/nf_guard.h"

namespace snf {

FlagCommand::FlagCommand(Text text) : text_(std::move(text)) {}

int FlagCommand::Main(const std::string& name,
                      std::span<const std::string> arguments) {
  name_ = name;
  const absl::StatusOr<bool> parsed = flags_.ParseCommandLine(arguments);
  if (!parsed.ok()) {
    PrintOnStderr("{0}: {1} (see {0} --help)\n", name,
                  std::string(parsed.status().message()));
    return kExitUsage;
  }
  if (!*parsed) {
    fmt::print("{}", flags_.Help(text_.usage, text_.about));
    return kExitOk;
  }
  GuardNfCalls(name);
  const absl::Status status = Run();
  if (status.ok()) return exit_code_;
  PrintOnStderr("{}: {}\n", name, std::string(status.message()));
  return ExitCodeFor(status);
}

}  // namespace snf
