// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/replay/replay_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "base/text/stderr_line.h"
#include "platform/commands/replay/chains_report.h"
#include "platform/commands/replay/replay_run.h"
#include "platform/outcome/run_output.h"
#include "platform/process/clean_interrupt.h"
#include "platform/report/report.h"

namespace snf {
namespace {

constexpr int kExitBySignal = 128;  // and the signal's number

absl::StatusOr<ExitCode> Replay(const std::string& name,
                                const RunRequest& options,
                                const ReplayRun& run) {
  const RunOutput output(options);
  if (!options.has_one_chain()) {
    const absl::StatusOr<ReplayedChains> chains = run.RunChains();
    if (!chains.ok()) return chains.status();
    return WriteChains(options, *chains);
  }
  if (options.policies.size() > 1) {
    absl::StatusOr<std::vector<ReplayedRun>> runs = run.RunUnderEachPolicy();
    if (!runs.ok()) return runs.status();
    return output.WriteComparison(*std::move(runs));
  }
  const absl::StatusOr<ReplayedRun> once = run.RunOnce();
  if (!once.ok()) return once.status();
  absl::StatusOr<ExitCode> written = output.Write(*once);
  const std::string& failure = once->run.result.failure;
  if (!written.ok() || failure.empty()) return written;
  if (once->run.result.nf_failed) {
    PrintOnStderr("{}: {}\n", name, failure);
    return kExitNf;
  }
  return absl::InternalError("the run ended early: " + failure);
}

}  // namespace

ReplayCommand::ReplayCommand()
    : FlagCommand(
          {.summary = "run captures through flowlets and compute units",
           .usage = "snf replay [FILE…] [--FLAG=VALUE…]",
           .about =
               "Runs the packets of captures through a controller, which cuts "
               "their flows into flowlets and packs these onto compute units, "
               "and through an NF on the units. In virtual time: on the "
               "captures' own clock, as fast as this machine can, with the "
               "same result on every machine; or, with --clock=real, by "
               "threads at the speed that is asked for. FILE is pcap or "
               "pcapng, also in gzip or zstd; - is stdin; several files are "
               "merged by time. Without FILE, the small capture that comes "
               "with SNF is replayed on small units."}),
      replay_flags_(flags()) {}

absl::Status ReplayCommand::Run() {
  if (replay_flags_.options().json_schema) {
    fmt::print("{}", JsonSchema());
    return absl::OkStatus();
  }
  static FirstInterrupt interrupt;
  EndCleanlyWhenInterrupted(name(), &interrupt);
  if (absl::Status s = replay_flags_.Settle(); !s.ok()) return s;
  const RunRequest& options = replay_flags_.options();
  const std::string bundled = replay_flags_.bundled_command();
  if (!bundled.empty() && !options.quiet) {
    PrintOnStderr("No FILE given, so this is:\n  {}\n", bundled);
  }
  const absl::StatusOr<ExitCode> exit_code =
      Replay(name(), options, ReplayRun(options, interrupt));
  if (absl::IsCancelled(exit_code.status())) {
    PrintOnStderr("{}: {}\n", name(),
                  std::string(exit_code.status().message()));
  } else if (!exit_code.ok()) {
    return exit_code.status();
  } else if (*exit_code != kExitOk || !interrupt.came) {
    set_exit_code(*exit_code);
    return absl::OkStatus();
  }
  set_exit_code(static_cast<ExitCode>(kExitBySignal + interrupt.signal));
  return absl::OkStatus();
}

}  // namespace snf
