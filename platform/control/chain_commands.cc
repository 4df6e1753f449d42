// SPDX-License-Identifier: Apache-2.0
#include "platform/control/chain_commands.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "platform/control/control_text.h"
#include "platform/control/daemon_command.h"
#include "platform/process/command_group.h"
#include "platform/text/wording.h"

namespace snf {
namespace {

// A command that gives a daemon another chain.
class NewChainCommand : public DaemonCommand {
 protected:
  explicit NewChainCommand(Text text) : DaemonCommand(std::move(text)) {
    flags().DurationOrInfinity(
        "within", within_, Nanos{},
        "flows that older chains still have by then begin anew with this one");
    flags().Switch("json", json_, "as a JSON object, on one line");
  }
  absl::Status Send(proto::ChainRequest& request) {
    if (within_ != Nanos::max()) request.set_within_ns(within_.ns);
    const auto reply = Ask(request);
    if (!reply.ok()) return reply.status();
    if (json_) {
      fmt::print("{}\n", JsonOf(*reply));
    } else if (reply->is_new()) {
      fmt::print(
          "Chain {}, {}, has the flows that begin; older ones keep {}.\n",
          reply->number(), Printable(reply->nf()),
          Plural(reply->older_flows(), "flow"));
    } else {
      fmt::print(
          "{0} is known now; the chain has no {0}. snf chain set names "
          "another.\n",
          Printable(reply->module_nf()));
    }
    return absl::OkStatus();
  }

 private:
  Nanos within_ = Nanos::max();
  bool json_ = false;
};

class ChainSetCommand final : public NewChainCommand {
 public:
  ChainSetCommand()
      : NewChainCommand(
            {.summary = "run another chain of NFs for flows that begin",
             .usage = "snf chain set [NAME] 'NF | NF' [--within=TIME]",
             .about =
                 "Lets another chain, as --nf of snf up names it, have the "
                 "flows that begin from now on; a daemon with --config "
                 "knows the names of that file. Flows that there are stay "
                 "with the chain that they have, and with its state, for "
                 "as long as they live, or --within says. The new chain "
                 "is tried first: if it cannot be, or crashes, all stays "
                 "as it was. NAME is that of the chain in the file."}) {
    flags().Arguments("[NAME] CHAIN", words_, 1);
  }

 private:
  absl::Status Run() override {
    if (words_.size() > 2) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is one word too many: a chain is one word, as in "
                      "'firewall | nat'",
                      Printable(words_[2])));
    }
    proto::ChainRequest request;
    request.set_text(words_.back());
    if (words_.size() == 2) request.set_name(words_.front());
    return Send(request);
  }

  std::vector<std::string> words_;
};

class NfDeployCommand final : public NewChainCommand {
 public:
  NfDeployCommand()
      : NewChainCommand(
            {.summary = "let a daemon load a module, in place of older NFs",
             .usage = "snf nf deploy FILE.so [--within=TIME]",
             .about = "Lets a daemon load the module of an NF. Where its chain "
                      "has an NF of that name, a chain with the new one takes "
                      "the flows that begin from now on, as snf chain set has "
                      "it; else chains may name it. A module that is missing, "
                      "made for another SNF, or crashes when it is tried is "
                      "refused. FILE is one of the daemon's machine, and may "
                      "change afterwards."}) {
    flags().Argument("FILE", file_);
  }

 private:
  absl::Status Run() override {
    std::error_code error;
    const auto path = std::filesystem::absolute(file_, error);
    proto::ChainRequest request;
    request.set_module(error ? file_ : path.string());
    return Send(request);
  }

  std::string file_;
};

}  // namespace

std::unique_ptr<Command> CreateChainCommand() {
  return std::make_unique<CommandGroup>(
      "change the chain of NFs that a daemon runs",
      "Changes the chain of NFs that a daemon runs.",
      CommandTable{{"set", CreateCommand<ChainSetCommand>}});
}

std::unique_ptr<Command> CreateNfDeployCommand() {
  return std::make_unique<NfDeployCommand>();
}

}  // namespace snf
