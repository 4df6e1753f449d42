// SPDX-License-Identifier: Apache-2.0
#include "platform/nf_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "platform/exit_code.h"
#include "platform/nf_description.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

constexpr char kHelp[] =
    R"(Usage: snf nf COMMAND [ARGUMENT…]

Tells of network functions, which `snf replay --nf NAME` runs.

  list       all of them, a line each
  show       one: its options, counters and drop reasons, and what it keeps

snf nf COMMAND --help explains a command.
)";

}  // namespace

NfCommand::NfCommand(CLI::App& app)
    : command_(*app.add_subcommand("nf", "tell of network functions")),
      list_(*command_.add_subcommand("list", "all network functions")),
      show_(*command_.add_subcommand("show", "one network function")),
      list_flags_(list_),
      show_flags_(show_) {
  command_.require_subcommand(1);
  command_.formatter_fn([](const CLI::App*, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  list_flags_.Switch("json", json_, "as JSON");
  list_.formatter_fn([this](const CLI::App*, std::string, CLI::AppFormatMode) {
    return list_flags_.Help("snf nf list [--json]",
                            "Prints name and summary of every NF.");
  });
  show_.add_option("NAME", nf_)->required();
  show_flags_.Switch("json", json_, "as JSON");
  show_.formatter_fn([this](const CLI::App*, std::string, CLI::AppFormatMode) {
    return show_flags_.Help(
        "snf nf show NAME [--json]",
        "Prints what an NF is: what it takes for a flow, its options with "
        "values, default and meaning, its labels, drop reasons and counters, "
        "what it keeps of each flow, and its pools.");
  });
}

int NfCommand::Run() {
  const bool list = list_.parsed();
  const absl::Status status = list ? List() : Show();
  if (status.ok()) return kExitOk;
  fmt::print(stderr, "snf nf {}: {}\n", list ? "list" : "show",
             std::string(status.message()));
  return ExitCodeFor(status);
}

absl::Status NfCommand::List() const {
  const std::vector<const NfRegistration*> nfs = ListNfs();
  fmt::print("{}", json_ ? JsonListOf(nfs) : ListOf(nfs));
  return absl::OkStatus();
}

absl::Status NfCommand::Show() const {
  const NfRegistration* const nf = FindNf(nf_);
  if (nf == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("there is no NF \"{}\"; snf nf list names them", nf_));
  }
  fmt::print("{}", json_ ? JsonDescriptionOf(*nf) : DescriptionOf(*nf));
  return absl::OkStatus();
}

}  // namespace snf
