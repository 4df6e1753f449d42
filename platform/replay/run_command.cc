// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/run_command.h"

#include <fmt/format.h>

#include "absl/status/statusor.h"
#include "platform/process/clean_interrupt.h"
#include "platform/replay/live_run.h"
#include "platform/report/report.h"

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
               "To hosts at both ends it is a piece of wire: ARP and all that "
               "is not IP goes through untouched. It runs until it is "
               "interrupted (Ctrl-C), and then reports as snf replay does. It "
               "wants root, or CAP_NET_RAW and CAP_NET_ADMIN."}),
      run_flags_(flags(), ReplayFlags::Input::kPorts) {}

absl::Status RunCommand::Run() {
  if (run_flags_.options().json_schema) {
    fmt::print("{}", JsonSchema());
    return absl::OkStatus();
  }
  static FirstInterrupt interrupt;
  EndCleanlyWhenInterrupted(name(), &interrupt);
  if (absl::Status s = run_flags_.Settle(); !s.ok()) return s;
  const ReplayOptions& options = run_flags_.options();
  const absl::StatusOr<LiveRun> live = RunPorts(options, interrupt);
  if (!live.ok()) return live.status();
  const absl::StatusOr<ExitCode> exit_code = ReportOf(options, *live);
  if (!exit_code.ok()) return exit_code.status();
  set_exit_code(*exit_code);
  return absl::OkStatus();
}

}  // namespace snf
