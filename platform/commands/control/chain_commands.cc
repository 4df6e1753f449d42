// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/control/chain_commands.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text/wording.h"
#include "platform/control/control_text.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/process/command_group.h"

namespace snf {
namespace {

// A command that gives a daemon another chain.
class NewChainCommand : public DaemonCommand {
 protected:
  explicit NewChainCommand(Text text) : DaemonCommand(std::move(text)) {
    flags().DurationOrInfinity("within", within_, Nanos{},
                               "after this time, flows still on older chains "
                               "are moved to this one and lose their state");
    flags().Switch("json", json_,
                   "print a JSON object on one line; with several controllers, "
                   "one line for each");
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
  // Stops at the first controller that refuses the chain. A chain is refused
  // for the same reasons by all, unless it conflicts with a controller's older
  // chains.
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
            fmt::format("{}; {} already runs it, and keeps it",
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
      fmt::print("{}Chain {}, {}, takes new flows; older chains keep {}.\n",
                 whose, reply.number(), Printable(reply.nf()),
                 Plural(reply.older_flows(), "flow"));
    } else {
      fmt::print(
          "{1}{0} is loaded, but the chain has no {0}; use it with snf chain "
          "set.\n",
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
            {.summary = "run another chain of NFs for new flows",
             .usage = "snf chain set [NAME] 'NF | NF' [--within=TIME]",
             .about =
                 "Gives all new flows to another chain, written as for --nf of "
                 "snf up; a daemon with --config also knows the names in that "
                 "file. Existing flows stay on their chain, with their state, "
                 "until they end or --within has passed. The new chain is "
                 "tried first: if it is invalid or crashes, nothing changes. "
                 "If several controllers share ports (snf up --controllers), "
                 "they get the chain one after the other. NAME is the name of "
                 "the chain in the file."}) {
    flags().Arguments("[NAME] CHAIN", words_, 1);
  }

 private:
  absl::Status Run() override {
    if (words_.size() > 2) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is one argument too many: quote the chain, as in "
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
            {.summary = "load the module of an NF into a daemon",
             .usage = "snf nf deploy FILE.so [--within=TIME]",
             .about =
                 "Loads the module of an NF into a daemon. If the daemon's "
                 "chain has an NF of that name, a chain with the new one takes "
                 "all new flows, as with snf chain set; otherwise later chains "
                 "may name it. A module is refused if it is missing, was built "
                 "for another version of SNF, or crashes when it is tried. "
                 "FILE is a file on the daemon's machine; changing it "
                 "afterwards has no effect."}) {
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
