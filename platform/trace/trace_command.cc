// SPDX-License-Identifier: Apache-2.0
#include "platform/trace/trace_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "platform/process/clean_interrupt.h"
#include "platform/process/exit_code.h"
#include "platform/trace/trace_compose.h"
#include "platform/trace/trace_convert.h"
#include "platform/trace/trace_info.h"
#include "platform/trace/trace_synth.h"

namespace snf {

TraceCommand::TraceCommand(CLI::App& app)
    : command_(*app.add_subcommand("trace", "work on captures")) {
  subcommands_.push_back(std::make_unique<TraceInfo>(command_));
  subcommands_.push_back(std::make_unique<TraceCompose>(command_));
  subcommands_.push_back(std::make_unique<TraceSynth>(command_));
  subcommands_.push_back(std::make_unique<TraceConvert>(command_));
  command_.require_subcommand(1);
  command_.formatter_fn([this](const CLI::App*, std::string,
                               CLI::AppFormatMode) { return Help(); });
}

bool TraceCommand::chosen() const { return command_.parsed(); }

std::string TraceCommand::Help() const {
  std::string list;
  for (const auto& each : subcommands_) {
    list +=
        fmt::format("  {:<10} {}\n", each->text().name, each->text().summary);
  }
  return fmt::format(R"(Usage: snf trace COMMAND [ARGUMENT…]

Tells what is in captures, and makes others of them.

{}
snf trace COMMAND --help explains a command.
)",
                     list);
}

int TraceCommand::Run() {
  for (const auto& each : subcommands_) {
    if (!each->chosen()) continue;
    EndCleanlyWhenInterrupted("snf trace " + each->text().name);
    const absl::Status status = each->Run();
    if (status.ok()) return kExitOk;
    fmt::print(stderr, "snf trace {}: {}\n", each->text().name,
               std::string(status.message()));
    return ExitCodeFor(status);
  }
  return kExitUsage;
}

}  // namespace snf
