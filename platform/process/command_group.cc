// SPDX-License-Identifier: Apache-2.0
#include "platform/process/command_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "base/text/stderr_line.h"
#include "platform/process/exit_code.h"
#include "platform/process/standard_streams.h"

namespace snf {
namespace {

using Arguments = std::span<const std::string>;

std::string ListOf(const CommandTable& commands) {
  std::string list;
  for (const CommandRow& row : commands) {
    list += fmt::format("  {:<10} {}\n", row.name, row.create()->summary());
  }
  return list;
}

bool AsksForHelp(Arguments arguments) {
  return !arguments.empty() &&
         (arguments[0] == "--help" || arguments[0] == "-h");
}

int RunOneOf(const CommandTable& commands, const std::string& name,
             Arguments arguments) {
  const auto refuse = [&name](const std::string& why) {
    PrintOnStderr("{0}: {1} (see {0} --help)\n", name, why);
    return kExitUsage;
  };
  if (arguments.empty()) return refuse("which command?");
  const std::string& command = arguments[0];
  if (command.starts_with('-')) {
    return refuse("The following argument was not expected: " + command);
  }
  const auto row = std::ranges::find(commands, command, &CommandRow::name);
  if (row == commands.end()) {
    return refuse(fmt::format("there is no command \"{}\"", command));
  }
  return row->create()->Main(name + " " + command, arguments.subspan(1));
}

int Run(const Program& program, Arguments arguments) {
  if (AsksForHelp(arguments)) {
    fmt::print(R"({}

Usage: {} COMMAND [ARGUMENT…]

{}  --version  print the version

{} COMMAND --help explains a command and every flag of it.
)",
               program.about, program.name, ListOf(program.commands),
               program.name);
    return kExitOk;
  }
  if (!arguments.empty() && arguments[0] == "--version") {
    fmt::print("{} {}\n", program.name, program.version);
    return kExitOk;
  }
  return RunOneOf(program.commands, program.name, arguments);
}

// Returns the exit code also if a command throws.
int RunGuarded(const Program& program, Arguments arguments) {
  try {
    return Run(program, arguments);
  } catch (const std::bad_alloc&) {
    PrintOnStderr("{}: not enough memory for these limits\n", program.name);
    return kExitUnavailable;
  } catch (const std::exception& error) {
    const bool is_of_stdout = std::ferror(stdout) != 0;
    PrintOnStderr("{}: {}{}\n", program.name, is_of_stdout ? "stdout: " : "",
                  error.what());
    if (!is_of_stdout) return kExitInternal;
    FlushStdout().IgnoreError();  // its error is told
    return kExitIo;
  }
}

}  // namespace

CommandGroup::CommandGroup(std::string summary, std::string about,
                           CommandTable commands)
    : summary_(std::move(summary)),
      about_(std::move(about)),
      commands_(std::move(commands)) {}

int CommandGroup::Main(const std::string& name, Arguments arguments) {
  if (!AsksForHelp(arguments)) return RunOneOf(commands_, name, arguments);
  fmt::print(R"(Usage: {} COMMAND [ARGUMENT…]

{}

{}
{} COMMAND --help explains a command.
)",
             name, about_, ListOf(commands_), name);
  return kExitOk;
}

int RunProgram(const Program& program, int argc, char** argv) {
  OccupyStandardStreams();
  const int exit_code = RunGuarded(
      program, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  const absl::Status printed = FlushStdout();
  if (printed.ok()) return exit_code;
  PrintOnStderr("{}: {}\n", program.name, std::string(printed.message()));
  return exit_code == kExitOk ? kExitIo : exit_code;
}

}  // namespace snf
