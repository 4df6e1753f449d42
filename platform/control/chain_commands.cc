// SPDX-License-Identifier: Apache-2.0
#include "platform/control/chain_commands.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "platform/control/control_text.h"
#include "platform/control/daemon_cluster.h"
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
    flags().Switch("json", json_,
                   "as a JSON object, on one line; of several controllers, "
                   "each on a line");
  }
  absl::Status Send(proto::ChainRequest& request) {
    if (within_ != Nanos::max()) request.set_within_ns(within_.ns);
    if (!is_remote()) {
      const auto members = AllMembersOf(daemon());
      if (!members.ok()) return members.status();
      if (!members->empty()) return SendToAll(*members, request);
    }
    const auto reply = Ask(request);
    if (!reply.ok()) return reply.status();
    Print(*reply, "");
    return absl::OkStatus();
  }

 private:
  // Ends at the first one that refuses it. What a chain can be refused for is
  // the same for all, but for what one has of older ones.
  absl::Status SendToAll(const std::vector<ClusterMember>& members,
                         const proto::ChainRequest& request) const {
    std::string changed;
    for (const ClusterMember& member : members) {
      const std::string name = fmt::format("\"{}\"", member.files.name);
      const auto reply = SetChain(member, request);
      if (!reply.ok() && changed.empty()) return reply.status();
      if (!reply.ok()) {
        return absl::Status(
            reply.status().code(),
            fmt::format("{}; {} had it before, and it stays there",
                        std::string(reply.status().message()), changed));
      }
      Print(*reply, name + ": ");
      changed += (changed.empty() ? "" : ", ") + name;
    }
    return absl::OkStatus();
  }
  void Print(const proto::ChainReply& reply, const std::string& whose) const {
    if (json_) {
      fmt::print("{}\n", JsonOf(reply));
    } else if (reply.is_new()) {
      fmt::print(
          "{}Chain {}, {}, has the flows that begin; older ones keep {}.\n",
          whose, reply.number(), Printable(reply.nf()),
          Plural(reply.older_flows(), "flow"));
    } else {
      fmt::print(
          "{1}{0} is known now; the chain has no {0}. snf chain set names "
          "another.\n",
          Printable(reply.module_nf()), whose);
    }
  }

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
                 "as it was. Of several that share ports (snf up "
                 "--controllers), gives it to one after the other. NAME is "
                 "that of the chain in the file."}) {
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
