// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_COMMAND_GROUP_H_
#define SNF_PLATFORM_PROCESS_COMMAND_GROUP_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "platform/process/command.h"

namespace snf {

// A table of commands has a row for each, in the order of the help. A command
// is created only when it is called, or when the help lists it.
struct CommandRow {
  std::string name;  // "replay"
  std::unique_ptr<Command> (*create)();
};
using CommandTable = std::vector<CommandRow>;

// A command that has commands of its own, as `snf trace`.
class CommandGroup final : public Command {
 public:
  // `about` is the sentence of the group's own help.
  CommandGroup(std::string summary, std::string about, CommandTable commands);

  const std::string& summary() const override { return summary_; }
  int Main(const std::string& name,
           std::span<const std::string> arguments) override;

 private:
  const std::string summary_;
  const std::string about_;
  const CommandTable commands_;
};

// The whole of a program that does nothing but run commands.
struct Program {
  std::string name;     // "snf"
  std::string version;  // "0.1.0"
  std::string about;    // the first sentence of its help
  CommandTable commands;
};

// Runs the command that the arguments of `main` name. An exception, which can
// come only from a lack of memory or from a bug, is one line on stderr, too. So
// is what stdout did not take, as on a full disk: then 0 becomes kExitIo.
// Returns the exit code (exit_code.h).
int RunProgram(const Program& program, int argc, char** argv);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_COMMAND_GROUP_H_
