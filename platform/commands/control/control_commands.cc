// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/control/control_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/messages/controller_counts.h"
#include "base/text/terminal.h"
#include "base/text/wording.h"
#include "platform/bypass/bypass_state.h"
#include "platform/control/control_figures.h"
#include "platform/control/control_text.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/options/config_settings.h"
#include "platform/process/standard_streams.h"
#include "platform/report/watch/live_view.h"
#include "platform/run/figures/live_board.h"

namespace snf {
namespace {

// A command that asks one question and prints the answer.
template <typename Request>
class AskCommand : public DaemonCommand {
 protected:
  explicit AskCommand(Text text) : DaemonCommand(std::move(text)) {
    flags().Switch("json", json_, "print a JSON object on one line");
  }
  // Adds --watch, for what changes by itself.
  void MayWatch() {
    flags().Switch("watch", watch_,
                   "repeat every second until the daemon ends or Ctrl-C; on a "
                   "terminal, redraw in place");
  }
  virtual absl::Status Fill(Request& /*request*/) { return absl::OkStatus(); }
  bool watches() const { return watch_; }
  using Reply = decltype(std::declval<ControlClient>().Ask(Request()));
  virtual Reply Answer(const Request& request) { return this->Ask(request); }

 private:
  absl::Status Run() override {
    Request request;
    if (absl::Status s = Fill(request); !s.ok()) return s;
    auto reply = Answer(request);
    if (!reply.ok()) return reply.status();
    const bool wipes = watch_ && !json_ && isatty(STDOUT_FILENO) != 0;
    do {
      fmt::print("{}{}", wipes ? "\033[H\033[2J" : "",
                 json_ ? JsonOf(*reply) + "\n" : TextOf(*reply));
      if (absl::Status s = FlushStdout(); !s.ok()) return s;
      if (!watch_) break;
      std::this_thread::sleep_for(std::chrono::seconds(1));
      reply = Answer(request);
    } while (reply.ok());
    return absl::OkStatus();
  }

  bool json_ = false;
  bool watch_ = false;
};

class StatusCommand final : public AskCommand<proto::StatusRequest> {
 public:
  StatusCommand()
      : AskCommand(
            {.summary = "print the state of a daemon",
             .usage = "snf status [--json] [--watch] [--name=NAME]",
             .about =
                 "Prints the figures of a daemon started by snf up, at most "
                 "half a second old: packets, flows, units, ports. If several "
                 "controllers share ports (snf up --controllers), prints one "
                 "line for each and the sums."}) {
    MayWatch();
  }

 private:
  Reply Answer(const proto::StatusRequest& request) override {
    if (is_remote()) return Ask(request);
    const auto members = MembersOf(daemon());
    if (!members.ok()) return members.status();
    if (members->empty()) return Ask(request);
    return StatusOfAll(daemon(), *members);
  }
};

class UnitsCommand final : public AskCommand<proto::UnitsRequest> {
 public:
  UnitsCommand()
      : AskCommand({.summary = "list the compute units of a daemon",
                    .usage = "snf units [--chain=CHAIN] [--json] [--watch] "
                             "[--name=NAME]",
                    .about =
                        "Lists all compute units that were ever started: the "
                        "flows whose newest state is at each unit, its open "
                        "flowlets, and the packets that have left it."}) {
    flags().Text("chain", chain_, "CHAIN",
                 "of several chains with rules, only units of CHAIN");
    MayWatch();
  }

 private:
  absl::Status Fill(proto::UnitsRequest& request) override {
    request.set_chain(chain_);
    return absl::OkStatus();
  }

  std::string chain_;
};

absl::StatusOr<uint32_t> ParseUnit(const std::string& text) {
  uint32_t unit = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, unit);
  if (parsed.ec == std::errc() && parsed.ptr == end) return unit;
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not the number of a unit", text));
}

class FlowsCommand final : public AskCommand<proto::FlowsRequest> {
 public:
  FlowsCommand()
      : AskCommand(
            {.summary = "list the flows of a daemon",
             .usage =
                 "snf flows [FILTER…] [--limit=COUNT] [--unit=UNIT] [--delete] "
                 "[--json] [--watch]",
             .about = "Lists the flows with the most recent packets. The "
                      "filter is in the language of tcpdump, as \"host "
                      "10.0.0.5 and tcp port 443\", and selects flows in both "
                      "directions by the addresses and ports of their first "
                      "packets, or of their alias: the outside end that a NAT "
                      "gave. A flow as listed, as \"tcp 10.0.0.5:4000\", is a "
                      "filter too. The clock of a flow counts "
                      "its packets, including packets that SNF generated for "
                      "it; the rate is the one expected of its flowlet.\n"
                      "With --delete, the selected flows end at once: what "
                      "NFs hold for them, as a NAT's port, is free again, and "
                      "the next packet of each begins a new flow. Lists at "
                      "most --limit of the deleted flows."}) {
    flags().Arguments("FILTER", words_, 0);
    flags().Count("limit", limit_, 1, 10'000, "most flows to list");
    flags().Text("unit", unit_, "UNIT", "only flows whose state is at UNIT");
    flags().Switch("delete", deletes_,
                   "delete the flows of FILTER or UNIT, one is required");
    MayWatch();
  }

 private:
  absl::Status Fill(proto::FlowsRequest& request) override {
    request.set_limit(limit_);
    request.set_filter(absl::StrJoin(words_, " "));
    request.set_deletes(deletes_);
    if (deletes_ && watches()) {
      return absl::InvalidArgumentError("--delete deletes once: no --watch");
    }
    if (unit_.empty()) return absl::OkStatus();
    const absl::StatusOr<uint32_t> unit = ParseUnit(unit_);
    if (unit.ok()) request.set_unit(*unit);
    return unit.status();
  }

  std::vector<std::string> words_;
  uint32_t limit_ = 20;
  std::string unit_;
  bool deletes_ = false;
};

class RulesCommand final : public AskCommand<proto::RulesRequest> {
 public:
  RulesCommand()
      : AskCommand(
            {.summary = "list the rules of a daemon, with their hits",
             .usage = "snf rules [--json] [--watch] [--name=NAME]",
             .about = "Lists the rules of the NFs of the newest chains that "
                      "count them, as firewall(counts=1000): how often a rule "
                      "was the first to match, the packets and bytes that it "
                      "decided, and when the last of these packets came. "
                      "Figures sum up all units, at most about a second old; "
                      "with counts=N, of the N rules with most "
                      "packets."}) {
    MayWatch();
  }
};

class SetCommand final : public AskCommand<proto::SetRequest> {
 public:
  SetCommand()
      : AskCommand(
            {.summary = "change settings of a daemon while it runs",
             .usage = "snf set [NAME=VALUE…] [--save] [--json] [--name=NAME]",
             .about =
                 "Changes settings while packets are processed: either all "
                 "that are given or, if one of them is refused, none. A "
                 "setting means the same as the flag of snf up with its name. "
                 "Without arguments, lists all settings that can be changed, "
                 "with their values. If several controllers share ports (snf "
                 "up --controllers), changes all controllers or none."}) {
    flags().Arguments("NAME=VALUE", values_, 0);
    flags().Switch("save", save_,
                   "also write the values into the configuration file that "
                   "the daemon runs by; everything else in it stays");
  }

 private:
  absl::Status Fill(proto::SetRequest& request) override {
    for (const std::string& text : values_) {
      const size_t equals = text.find('=');
      if (equals == 0 || equals == std::string::npos) {
        return absl::InvalidArgumentError(
            fmt::format("\"{}\" is not NAME=VALUE", Printable(text)));
      }
      const std::string name = text.substr(0, equals);
      if (request.value().contains(name)) {
        return absl::InvalidArgumentError(
            fmt::format("{} is given twice", Printable(name)));
      }
      (*request.mutable_value())[name] = text.substr(equals + 1);
    }
    return absl::OkStatus();
  }
  Reply Answer(const proto::SetRequest& request) override {
    if (is_remote()) {
      if (!save_) return Ask(request);
      return absl::InvalidArgumentError(
          "--save: only on the host of the daemon");
    }
    const auto members = AllMembersOf(daemon());
    if (!members.ok()) return members.status();
    Reply reply = members->empty() ? Ask(request) : SetAll(*members, request);
    if (!reply.ok() || !save_) return reply;
    absl::Status saved = Save(request, reply->config_file());
    return saved.ok() ? std::move(reply) : Reply(saved);
  }
  absl::Status Save(const proto::SetRequest& request,
                    const std::string& file) const {
    if (file.empty()) {
      return absl::FailedPreconditionError(fmt::format(
          "--save: \"{}\" has taken the values, but runs by no file",
          daemon()));
    }
    const absl::Status saved =
        SaveSettings(file, {request.value().begin(), request.value().end()});
    if (saved.ok()) return saved;
    return absl::Status(saved.code(),
                        fmt::format("--save: \"{}\" has taken the values; {}",
                                    daemon(), std::string(saved.message())));
  }

  std::vector<std::string> values_;
  bool save_ = false;
};

class DrainCommand final : public DaemonCommand {
 public:
  DrainCommand()
      : DaemonCommand(
            {.summary = "move all flows away from a compute unit",
             .usage = "snf drain UNIT [--chain=CHAIN] [--undo] [--name=NAME]",
             .about = "Assigns no more flowlets to a unit. When the last open "
                      "flowlet has ended, the flows move to other units and "
                      "the unit stops, without losing a packet. The unit is "
                      "not used again until --undo."}) {
    flags().Argument("UNIT", unit_);
    flags().Switch("undo", undo_, "allow the unit to be used again");
    flags().Text("chain", chain_, "CHAIN",
                 "the unit's chain, required with several chains");
  }

 private:
  absl::Status Run() override {
    const absl::StatusOr<uint32_t> unit = ParseUnit(unit_);
    if (!unit.ok()) return unit.status();
    proto::DrainRequest request;
    request.set_unit(*unit);
    request.set_undo(undo_);
    request.set_chain(chain_);
    const auto reply = Ask(request);
    if (!reply.ok()) return reply.status();
    if (undo_) {
      fmt::print("Unit {} may be used again.\n", *unit);
    } else {
      fmt::print("Unit {} gets no more flowlets; {} still to move away.\n",
                 *unit, Plural(reply->flows(), "flow"));
    }
    return absl::OkStatus();
  }

  std::string unit_;
  std::string chain_;
  bool undo_ = false;
};

class KillCommand final : public DaemonCommand {
 public:
  KillCommand()
      : DaemonCommand(
            {.summary = "kill the process of a unit or of the loggers",
             .usage = "snf kill UNIT|loggers|controller I [--chain=CHAIN] "
                      "[--name=NAME]",
             .about =
                 "Sends SIGKILL to a process, to test recovery. UNIT kills the "
                 "process that runs this unit, with all its units; loggers "
                 "kills the process of all output loggers. Both require a "
                 "daemon with --isolation=process or lxc and --loggers=on; "
                 "other processes take over, and no packet is lost. controller "
                 "I kills one of several daemons that share ports (snf up "
                 "--controllers); the others take over its flows."}) {
    flags().Arguments("UNIT|loggers|controller I", words_, 1);
    flags().Text("chain", chain_, "CHAIN",
                 "the chain of UNIT or loggers, required with several chains");
  }

 private:
  absl::Status Run() override {
    if (words_.front() == "controller") return KillController();
    if (words_.size() > 1) {
      return absl::InvalidArgumentError(fmt::format(
          "\"{}\" is one argument too many: kill one process at a time",
          words_[1]));
    }
    const std::string& victim = words_.front();
    proto::KillRequest request;
    request.set_chain(chain_);
    if (victim == "loggers") {
      request.set_loggers(true);
    } else {
      const absl::StatusOr<uint32_t> unit = ParseUnit(victim);
      if (!unit.ok()) return unit.status();
      request.set_unit(*unit);
    }
    const auto reply = Ask(request);
    if (!reply.ok()) return reply.status();
    std::string units;
    for (const uint32_t unit : reply->unit()) {
      units +=
          fmt::format("{}{}", units.empty() ? ", with units " : ", ", unit);
    }
    fmt::print("Killed process {}{}.\n", reply->pid(),
               request.has_unit() ? units : " of the loggers");
    return absl::OkStatus();
  }

  absl::Status KillController() {
    if (words_.size() != 2) {
      return absl::InvalidArgumentError(
          "controller: want the number of the controller, as in snf kill "
          "controller 1");
    }
    if (is_remote()) {
      return absl::InvalidArgumentError(
          "controller: only controllers on this machine can be killed");
    }
    const auto members = MembersOf(daemon());
    if (!members.ok()) return members.status();
    for (const ClusterMember& member : *members) {
      if (std::to_string(member.id) != words_[1]) continue;
      if (kill(member.pid, SIGKILL) != 0) {
        return absl::PermissionDeniedError(
            fmt::format("process {} cannot be killed", member.pid));
      }
      WaitForEnd(member.files, Seconds(5));
      fmt::print("Killed process {}, controller {} of \"{}\".\n", member.pid,
                 member.id, daemon());
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(fmt::format(
        "\"{}\" has no running controller {}", daemon(), words_[1]));
  }

  std::vector<std::string> words_;
  std::string chain_;
};

// Shows the live view of another process until that ends, or this one does.
class TopCommand final : public DaemonCommand {
 public:
  TopCommand()
      : DaemonCommand(
            {.summary = "show a daemon live",
             .usage = "snf top [--name=NAME]",
             .about = "Shows the live figures of a daemon started by snf up: "
                      "as a screen if stdout is a terminal, otherwise as one "
                      "line every 2 s. Ends with the daemon or by Ctrl-C."}) {}

 private:
  absl::Status Run() override {
    Terminal terminal = Terminal::Of(STDOUT_FILENO);
    auto reply = Ask(proto::StatusRequest());
    if (!reply.ok()) return reply.status();
    LiveBoard board([](uint64_t) { return std::nullopt; });
    const LiveView view(
        board, {.title = fmt::format("{}: {} under policy {}", daemon(),
                                     Printable(reply->nf()), reply->policy()),
                .terminal =
                    [&terminal] {
                      terminal.Measure(STDOUT_FILENO);
                      return terminal;
                    },
                .write =
                    [](std::string_view text) {
                      std::fwrite(text.data(), 1, text.size(), stdout);
                    }});
    const int32_t pid = reply->pid();
    Nanos shown{-1};
    while (reply.ok() && reply->pid() == pid) {
      if (absl::Status s = FlushStdout(); !s.ok()) return s;
      LiveFigures figures = FiguresOf(*reply);
      if (figures.elapsed != shown) {
        shown = figures.elapsed;
        board.Publish(std::move(figures));
      }
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(LiveBoard::kPeriod.ns));
      reply = Ask(proto::StatusRequest());
    }
    return absl::OkStatus();
  }
};

class DownCommand final : public DaemonCommand {
 public:
  DownCommand()
      : DaemonCommand(
            {.summary = "end a daemon",
             .usage = "snf down [--name=NAME]",
             .about = "Stops a daemon started by snf up, and waits for its "
                      "end: the daemon accepts no more packets, and packets "
                      "under way still leave. A daemon on this machine that "
                      "does not end in time is killed. After a kill of a "
                      "daemon with --keep, ends the processes that wait for "
                      "its successor, with --bypass the guard that lets "
                      "packets pass. If several controllers share ports (snf "
                      "up --controllers), stops all of them."}) {
    flags().Duration("patience", patience_, Milliseconds(1), Seconds(3'600),
                     "time after which the daemon is killed");
  }

 private:
  absl::Status Run() override {
    if (const auto client = Connect(); is_remote() && !client.ok()) {
      return client.status();
    }
    return is_remote() ? EndRemote() : EndHere();
  }

  // Stops a daemon on another machine, which cannot be killed from here.
  absl::Status EndRemote() {
    if (const auto reply = Ask(proto::DownRequest()); !reply.ok()) {
      return reply.status();
    }
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::nanoseconds(patience_.ns);
    while (!HasEnded()) {
      if (std::chrono::steady_clock::now() >= end) {
        return absl::InternalError(
            fmt::format("\"{}\" did not end in time", daemon()));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    fmt::print("\"{}\" has stopped.\n", daemon());
    return absl::OkStatus();
  }

  // Stops a daemon, or all that share ports under the name and the manager that
  // they lease from.
  absl::Status EndHere() {
    const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(daemon());
    if (!files.ok()) return files.status();
    const auto members = MembersOf(daemon());
    if (!members.ok()) return members.status();
    absl::Status ended;
    for (const ClusterMember& member : *members) {
      ended.Update(EndDaemon(member.files, member.pid, patience_));
    }
    bool has_any = !members->empty();
    for (uint32_t id = 0; id < kMostAtPorts; ++id) {
      const auto of = DaemonFiles::Of(ClusterMember::NameOf(daemon(), id));
      has_any |= of.ok() && RemoveRemains(*of);
    }
    const absl::StatusOr<pid_t> pid = PidOf(*files);
    if (!pid.ok()) return pid.status();
    if (*pid == 0) {
      has_any |= EndGuard(*files);
      if (RemoveRemains(*files) || has_any) return ended;
      return NoDaemon(daemon());
    }
    ended.Update(EndDaemon(*files, *pid, patience_));
    EndGuard(*files);
    if (!ended.ok()) RemoveRemains(*files);
    return ended;
  }

  // Ends the guard of a daemon that is gone. Returns true if there was one.
  static bool EndGuard(const DaemonFiles& files) {
    if (!EndBypass(files)) return false;
    fmt::print("Packets of \"{}\" pass unprocessed no more.\n", files.name);
    return true;
  }

  // Removes the remains of a killed daemon. Returns true if there were
  // processes that waited for another daemon.
  static bool RemoveRemains(const DaemonFiles& files) {
    if (access(files.lock.c_str(), F_OK) != 0) return false;
    const auto lock = DaemonLock::Take(files);
    if (!lock.ok() || !EndWaiting(files)) return false;
    fmt::print(
        "The processes that waited for another daemon \"{}\" have ended.\n",
        files.name);
    return true;
  }

  Nanos patience_ = Seconds(30);
};

}  // namespace

std::unique_ptr<Command> CreateStatusCommand() {
  return std::make_unique<StatusCommand>();
}
std::unique_ptr<Command> CreateUnitsCommand() {
  return std::make_unique<UnitsCommand>();
}
std::unique_ptr<Command> CreateFlowsCommand() {
  return std::make_unique<FlowsCommand>();
}
std::unique_ptr<Command> CreateRulesCommand() {
  return std::make_unique<RulesCommand>();
}
std::unique_ptr<Command> CreateTopCommand() {
  return std::make_unique<TopCommand>();
}
std::unique_ptr<Command> CreateSetCommand() {
  return std::make_unique<SetCommand>();
}
std::unique_ptr<Command> CreateDrainCommand() {
  return std::make_unique<DrainCommand>();
}
std::unique_ptr<Command> CreateKillCommand() {
  return std::make_unique<KillCommand>();
}
std::unique_ptr<Command> CreateDownCommand() {
  return std::make_unique<DownCommand>();
}

}  // namespace snf
