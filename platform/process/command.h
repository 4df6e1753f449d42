// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_COMMAND_H_
#define SNF_PLATFORM_PROCESS_COMMAND_H_

#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "platform/process/exit_code.h"
#include "platform/process/flags.h"

namespace snf {

// Something that a program does by name, as `snf replay` or `snf trace info`.
// Owner-thread only.
class Command {
 public:
  virtual ~Command() = default;

  // Returns what the command does, in a line for the help of the program or of
  // the group (command_group.h) that it belongs to.
  virtual const std::string& summary() const = 0;

  // Does what the arguments behind `name`, as in "snf trace info", ask for. An
  // error is one line on stderr that begins with the name. Returns the exit
  // code. Call once.
  virtual int Main(const std::string& name,
                   std::span<const std::string> arguments) = 0;
};

// Returns a new command of a class, for tables of commands.
template <typename OneCommand>
std::unique_ptr<Command> CreateCommand() {
  return std::make_unique<OneCommand>();
}

// The base of a command that has flags. A derived class adds its flags and
// arguments in its constructor; parsing fills the variables that they are bound
// to, and Run does the work.
class FlagCommand : public Command {
 public:
  FlagCommand(const FlagCommand&) = delete;
  FlagCommand& operator=(const FlagCommand&) = delete;

  const std::string& summary() const final { return text_.summary; }
  int Main(const std::string& name,
           std::span<const std::string> arguments) final;

 protected:
  struct Text {
    std::string summary;  // a line in the help of the command's group
    std::string usage;    // "snf trace info FILE… [--FLAG=VALUE…]"
    std::string about;    // the paragraph of the command's own help
  };
  explicit FlagCommand(Text text);

  // Returns the name that Main was given, with which every line on stderr
  // begins.
  const std::string& name() const { return name_; }
  FlagSet& flags() { return flags_; }
  const FlagSet& flags() const { return flags_; }
  // Sets the exit code of the process if Run succeeds; kExitOk by default.
  void set_exit_code(ExitCode exit_code) { exit_code_ = exit_code; }

 private:
  // Does the work, and prints. The message of an error is one line, and its
  // code decides about the exit code (exit_code.h).
  virtual absl::Status Run() = 0;

  const Text text_;
  std::string name_;
  FlagSet flags_;
  ExitCode exit_code_ = kExitOk;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_COMMAND_H_
