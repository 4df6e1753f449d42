// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/config/config_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "platform/control/daemon_command.h"
#include "platform/daemon/address_notes.h"
#include "platform/daemon/planned_daemon.h"
#include "platform/options/config.h"
#include "platform/ports/port_notes.h"
#include "platform/process/command_group.h"

namespace snf {
namespace {

// Returns each error of the file, without checks of flags against each other.
std::vector<std::string> WhatIsWrong(const std::string& file,
                                     const std::string& text,
                                     PlannedDaemon& daemon) {
  std::vector<std::string> wrong;
  const absl::Status parsed =
      daemon.Parse({.command_line = {}, .file = file, .text = text}, &wrong);
  if (!parsed.ok() && wrong.empty()) {
    wrong.emplace_back(parsed.message());
  }
  std::vector<std::string> of_chains;
  const auto config = ParseConfig(text, file, {}, &of_chains);
  for (std::string& line : of_chains) {
    if (std::ranges::count(wrong, line) == 0) wrong.push_back(std::move(line));
  }
  return wrong;
}

class CheckCommand final : public FlagCommand {
 public:
  CheckCommand()
      : FlagCommand({.summary = "tell what is wrong in a configuration file",
                     .usage = "snf config check FILE",
                     .about =
                         "Prints the errors of a file for snf up --config: "
                         "a line for each, with line and column. Nothing "
                         "is started, and neither a daemon nor root is needed. "
                         "What is missing on this machine, as an interface, is "
                         "told as well, but is no error of the file."}) {
    flags().Argument("FILE", file_);
  }

 private:
  absl::Status Run() override {
    const auto text = ReadConfigFile(file_);
    if (!text.ok()) return text.status();
    PlannedDaemon daemon;
    const std::vector<std::string> wrong = WhatIsWrong(file_, *text, daemon);
    for (const std::string& line : wrong) {
      if (&line == &wrong.back()) return absl::DataLossError(line);
      PrintOnStderr("{}: {}\n", name(), line);
    }
    absl::Status status = daemon.Check();
    if (!status.ok()) {
      const std::string message(status.message());
      return absl::DataLossError(
          message.starts_with(file_) ? message : file_ + ": " + message);
    }
    TellNotes(daemon);
    fmt::print("{}: nothing is wrong; {} between {}.\n", file_,
               Printable(daemon.options().nf), daemon.ports());
    return absl::OkStatus();
  }
  // The file may be for another machine.
  void TellNotes(const PlannedDaemon& daemon) const {
    for (const std::string& note : AddressNotes(daemon.options())) {
      fmt::print(stderr, "{}: {}: {}\n", name(), file_, note);
    }
    if (daemon.makes_ports()) return;
    for (const std::string& note : NotesOnMachine(daemon.options().ports)) {
      fmt::print(stderr, "{}: on this machine: {}\n", name(), note);
    }
  }

  std::string file_;
};

class ShowCommand final : public DaemonCommand {
 public:
  ShowCommand()
      : DaemonCommand(
            {.summary = "print the configuration in force, as a file",
             .usage = "snf config show [--config=FILE] [--name=NAME]",
             .about = "Prints ports, chain and all settings of a daemon as a "
                      "file by which another would be the same. Settings that "
                      "have their default are comments. With --config, of the "
                      "daemon that snf up would start with FILE; then no "
                      "daemon is needed."}) {
    flags().Text("config", file_, "FILE", "what a daemon would have by FILE");
  }

 private:
  absl::Status Run() override {
    if (!file_.empty()) return ShowFile();
    proto::SetRequest request;
    request.set_tell_config(true);
    const auto reply = Ask(request);
    if (!reply.ok()) return reply.status();
    fmt::print("# Daemon \"{}\", as it runs.\n{}", daemon(), reply->config());
    return absl::OkStatus();
  }
  absl::Status ShowFile() const {
    PlannedDaemon planned;
    absl::Status status = planned.Parse({.command_line = {}, .file = file_});
    if (status.ok()) status = planned.Check();
    if (!status.ok()) return status;
    fmt::print("# A daemon of {}.\n{}", file_, planned.Text());
    return absl::OkStatus();
  }

  std::string file_;
};

// Lets a daemon look at a file of its host.
class FileCommand : public DaemonCommand {
 protected:
  explicit FileCommand(Text text) : DaemonCommand(std::move(text)) {
    flags().Argument("FILE", file_);
  }
  const std::string& file() const { return file_; }
  absl::StatusOr<proto::SetReply> Send(bool only_plan) {
    std::error_code error;
    const auto path = std::filesystem::absolute(file_, error);
    proto::SetRequest request;
    request.set_config_file(error ? file_ : path.string());
    request.set_only_plan(only_plan);
    return Ask(request);
  }

 private:
  std::string file_;
};

std::string TextOf(const proto::ConfigChange& change) {
  const auto shown = [](const std::string& value) {
    return value.empty() ? std::string("none") : Printable(value);
  };
  return fmt::format("{}: {} -> {}", change.name(), shown(change.before()),
                     shown(change.after()));
}

class DiffCommand final : public FileCommand {
 public:
  DiffCommand()
      : FileCommand({.summary = "tell what a file would change in a daemon",
                     .usage = "snf config diff FILE [--name=NAME]",
                     .about =
                         "Compares a daemon that runs with the daemon that its "
                         "command line would start with FILE, and tells what "
                         "snf config apply would change, and what wants a "
                         "restart. Nothing changes."}) {}

 private:
  absl::Status Run() override {
    const auto reply = Send(true);
    if (!reply.ok()) return reply.status();
    if (reply->change().empty()) fmt::print("Nothing differs.\n");
    for (const bool live : {true, false}) {
      for (const proto::ConfigChange& change : reply->change()) {
        if (change.why_not().empty() != live) continue;
        fmt::print("{}{}\n", TextOf(change),
                   live ? ""
                        : fmt::format("  (wants a restart: {})",
                                      Printable(change.why_not())));
      }
    }
    return absl::OkStatus();
  }
};

class ApplyCommand final : public FileCommand {
 public:
  ApplyCommand()
      : FileCommand(
            {.summary = "let a daemon take a configuration file",
             .usage = "snf config apply FILE [--name=NAME]",
             .about =
                 "Changes settings and the chain of a daemon to FILE's "
                 "own while packets are processed, as snf set and snf "
                 "chain set do: everything that differs or, if any of "
                 "it cannot change while the daemon runs, nothing. Settings "
                 "that the file leaves out go back to what the command "
                 "line of the daemon says, or to their default. "
                 "SIGHUP lets a daemon take its file again."}) {}

 private:
  absl::Status Run() override {
    const auto reply = Send(false);
    if (!reply.ok()) return reply.status();
    for (const proto::ConfigChange& change : reply->change()) {
      fmt::print("{}\n", TextOf(change));
    }
    fmt::print("\"{}\" runs as {} says.\n", daemon(), file());
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> CreateConfigCommand() {
  return std::make_unique<CommandGroup>(
      "check, show and apply the configuration file of a daemon",
      "Looks at the configuration file of a daemon, and lets a running daemon "
      "take it.",
      CommandTable{{"check", CreateCommand<CheckCommand>},
                   {"show", CreateCommand<ShowCommand>},
                   {"diff", CreateCommand<DiffCommand>},
                   {"apply", CreateCommand<ApplyCommand>}});
}

}  // namespace snf
