// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_command.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "platform/commands/nf/nf_check_rules.h"
#include "platform/commands/nf/nf_description.h"
#include "platform/commands/nf/nf_new.h"
#include "platform/commands/nf/nf_run.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/command_group.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_module.h"

namespace snf {
namespace {

class NfList final : public FlagCommand {
 public:
  NfList()
      : FlagCommand({.summary = "list all NFs, one a line",
                     .usage = "snf nf list [--json]",
                     .about = "Prints the name and summary of every NF."}) {
    flags().Switch("json", json_, "as JSON");
  }

 private:
  absl::Status Run() override {
    EndCleanlyWhenInterrupted(name());
    const std::vector<const NfRegistration*> nfs = ListNfs();
    fmt::print("{}", json_ ? JsonListOf(nfs) : ListOf(nfs));
    return absl::OkStatus();
  }

  bool json_ = false;
};

class NfShow final : public FlagCommand {
 public:
  NfShow()
      : FlagCommand(
            {.summary =
                 "show one NF: its options, counters, drop reasons and state",
             .usage = "snf nf show NAME|FILE.so [--json]",
             .about =
                 "Describes an NF, given by its name or by the file of its "
                 "module: what a flow is to the NF, its options with their "
                 "values, defaults and meanings, its labels, drop reasons and "
                 "counters, the state of each flow, and its pools."}) {
    flags().Argument("NAME", nf_);
    flags().Switch("json", json_, "as JSON");
  }

 private:
  absl::Status Run() override {
    EndCleanlyWhenInterrupted(name());
    absl::StatusOr<const NfRegistration*> nf = FindNf(nf_);
    if (NamesNfModule(nf_)) nf = LoadNfModule(nf_);
    if (!nf.ok()) return nf.status();
    if (*nf == nullptr) {
      return absl::InvalidArgumentError(fmt::format(
          "there is no NF \"{}\"; snf nf list prints all NFs", nf_));
    }
    fmt::print("{}", json_ ? JsonDescriptionOf(**nf) : DescriptionOf(**nf));
    return absl::OkStatus();
  }

  std::string nf_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> CreateNfCommand(CommandTable more) {
  CommandTable commands = {{"list", CreateCommand<NfList>},
                           {"show", CreateCommand<NfShow>},
                           {"new", CreateCommand<NfNew>},
                           {"run", CreateCommand<NfRun>},
                           {"check-rules", CreateNfCheckRulesCommand}};
  commands.insert(commands.end(), more.begin(), more.end());
  return std::make_unique<CommandGroup>(
      "list and describe NFs; write a new one; run one alone",
      "Lists, describes and writes network functions (NFs); runs one alone.",
      std::move(commands));
}

}  // namespace snf
