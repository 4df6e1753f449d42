// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/up/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "base/text/stderr_line.h"
#include "platform/daemon/live_run.h"
#include "platform/process/clean_interrupt.h"
#include "platform/report/report.h"
#include "platform/service/daemon_files.h"

namespace snf {

RunCommand::RunCommand()
    : FlagCommand(
          {.summary = "run live traffic through flowlets and compute units",
           .usage = "snf run --port inside=INTERFACE --port outside=INTERFACE "
                    "[--FLAG=VALUE…]",
           .about =
               "Takes the packets that come to two interfaces of this machine "
               "through a controller, which cuts their flows into flowlets and "
               "packs these onto compute units, and through an NF on the "
               "units; what the NF lets through leaves at the other interface. "
               "To hosts at both ends it is a piece of wire: ARP and what "
               "else keeps a segment alive goes through untouched, and so do "
               "other frames without IP, but for --unreadable. It runs until "
               "it is "
               "interrupted (Ctrl-C), and then reports as snf replay does. It "
               "wants root, or CAP_NET_RAW and CAP_NET_ADMIN."}),
      run_flags_(flags(), RunFlags::Input::kPorts) {}

absl::Status RunCommand::Run() {
  if (run_flags_.options().json_schema) {
    fmt::print("{}", JsonSchema());
    return absl::OkStatus();
  }
  static FirstInterrupt interrupt;
  EndCleanlyWhenInterrupted(name(), &interrupt);
  if (absl::Status s = run_flags_.TakeConfig(); !s.ok()) return s;
  for (const std::string& line : run_flags_.overridden()) {
    PrintOnStderr("{}: {}\n", name(), line);
  }
  if (absl::Status s = run_flags_.Settle(); !s.ok()) return s;
  RunRequest options = run_flags_.options();
  options.real.failed_packets =
      FailedPacketsOf(fmt::format("snf-run-{}", getpid()));
  const absl::StatusOr<LiveRun> live = RunPorts(options, interrupt);
  if (!live.ok()) return live.status();
  const absl::StatusOr<ExitCode> exit_code = ReportOf(options, *live);
  if (!exit_code.ok()) return exit_code.status();
  set_exit_code(*exit_code);
  return absl::OkStatus();
}

}  // namespace snf
