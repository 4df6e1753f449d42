// SPDX-License-Identifier: Apache-2.0
#include "platform/nf/nf_command.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "platform/control/chain_commands.h"
#include "platform/nf/nf_description.h"
#include "platform/nf/nf_new.h"
#include "platform/nf/nf_run.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/command_group.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_module.h"

namespace snf {
namespace {

class NfList final : public FlagCommand {
 public:
  NfList()
      : FlagCommand({.summary = "all of them, a line each",
                     .usage = "snf nf list [--json]",
                     .about = "Prints name and summary of every NF."}) {
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
                 "one: its options, counters and drop reasons, and what it "
                 "keeps",
             .usage = "snf nf show NAME|FILE.so [--json]",
             .about =
                 "Prints what an NF, by name or of a module, is: what it takes "
                 "for a flow, its options with values, default and meaning, "
                 "its labels, drop reasons and counters, what it keeps of each "
                 "flow, and its pools."}) {
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
      return absl::InvalidArgumentError(
          fmt::format("there is no NF \"{}\"; snf nf list names them", nf_));
    }
    fmt::print("{}", json_ ? JsonDescriptionOf(**nf) : DescriptionOf(**nf));
    return absl::OkStatus();
  }

  std::string nf_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> CreateNfCommand() {
  return std::make_unique<CommandGroup>(
      "tell of network functions; begin a new one; run one alone",
      "Tells of network functions, which `snf replay --nf NAME` runs.",
      CommandTable{{"list", CreateCommand<NfList>},
                   {"show", CreateCommand<NfShow>},
                   {"new", CreateCommand<NfNew>},
                   {"run", CreateCommand<NfRun>},
                   {"deploy", CreateNfDeployCommand}});
}

}  // namespace snf
