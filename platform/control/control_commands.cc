// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "platform/control/control_figures.h"
#include "platform/control/control_text.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/run/live_board.h"
#include "platform/text/terminal.h"
#include "platform/text/wording.h"
#include "platform/watch/live_view.h"

namespace snf {
namespace {

// A command that asks one question and prints the answer.
template <typename Request>
class AskCommand : public DaemonCommand {
 protected:
  explicit AskCommand(Text text) : DaemonCommand(std::move(text)) {
    flags().Switch("json", json_, "as a JSON object, on one line");
  }
  // Adds --watch, for what changes by itself.
  void MayWatch() {
    flags().Switch("watch", watch_,
                   "tell again every second, until the daemon or Ctrl-C ends "
                   "it; on a terminal in the same place");
  }
  virtual absl::Status Fill(Request& /*request*/) { return absl::OkStatus(); }
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
      std::fflush(stdout);
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
      : AskCommand({.summary = "tell how a daemon stands",
                    .usage = "snf status [--json] [--watch] [--name=NAME]",
                    .about = "Tells what a daemon of snf up did so far, at "
                             "most half a second ago: packets, flows, units, "
                             "ports. Of several that share ports (snf up "
                             "--controllers), tells of each in a line, and of "
                             "all in sums."}) {
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
                    .usage = "snf units [--json] [--watch] [--name=NAME]",
                    .about = "Lists the compute units that were ever started: "
                             "the flows whose newest state each has, its open "
                             "flowlets, and what left it so far."}) {
    MayWatch();
  }
};

absl::StatusOr<uint32_t> ParseUnit(const std::string& text) {
  uint32_t unit = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, unit);
  if (parsed.ec == std::errc() && parsed.ptr == end) return unit;
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no number of a unit", text));
}

class FlowsCommand final : public AskCommand<proto::FlowsRequest> {
 public:
  FlowsCommand()
      : AskCommand(
            {.summary = "list the flows of a daemon",
             .usage =
                 "snf flows [--limit=COUNT] [--unit=UNIT] [--json] [--watch]",
             .about = "Lists the flows that had a packet last. The clock of a "
                      "flow counts its packets, with those that SNF made for "
                      "it; its rate is what its flowlet is expected to "
                      "have."}) {
    flags().Count("limit", limit_, 1, 10'000, "flows to list");
    flags().Text("unit", unit_, "UNIT", "only flows whose state is at UNIT");
    MayWatch();
  }

 private:
  absl::Status Fill(proto::FlowsRequest& request) override {
    request.set_limit(limit_);
    if (unit_.empty()) return absl::OkStatus();
    const absl::StatusOr<uint32_t> unit = ParseUnit(unit_);
    if (unit.ok()) request.set_unit(*unit);
    return unit.status();
  }

  uint32_t limit_ = 20;
  std::string unit_;
};

class SetCommand final : public AskCommand<proto::SetRequest> {
 public:
  SetCommand()
      : AskCommand(
            {.summary = "change settings of a daemon while it runs",
             .usage = "snf set [NAME=VALUE…] [--json] [--name=NAME]",
             .about = "Changes settings while packets go through: all that "
                      "are named, or none if one of them cannot be. They mean "
                      "what the flags of snf up mean. Without any, tells of "
                      "all that can be changed, with their values. Of several "
                      "that share ports (snf up --controllers), changes those "
                      "of all, or of none."}) {
    flags().Arguments("NAME=VALUE", values_, 0);
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
            fmt::format("{} is named twice", Printable(name)));
      }
      (*request.mutable_value())[name] = text.substr(equals + 1);
    }
    return absl::OkStatus();
  }
  Reply Answer(const proto::SetRequest& request) override {
    if (is_remote()) return Ask(request);
    const auto members = AllMembersOf(daemon());
    if (!members.ok()) return members.status();
    return members->empty() ? Ask(request) : SetAll(*members, request);
  }

  std::vector<std::string> values_;
};

class DrainCommand final : public DaemonCommand {
 public:
  DrainCommand()
      : DaemonCommand(
            {.summary = "let flows move away from a compute unit",
             .usage = "snf drain UNIT [--undo] [--name=NAME]",
             .about = "Gives a unit no flowlet any more. When its last one has "
                      "ended, the unit stops, and its flows move to others, "
                      "without losing a packet. It is not used again until "
                      "--undo."}) {
    flags().Argument("UNIT", unit_);
    flags().Switch("undo", undo_, "let it be used again");
  }

 private:
  absl::Status Run() override {
    const absl::StatusOr<uint32_t> unit = ParseUnit(unit_);
    if (!unit.ok()) return unit.status();
    proto::DrainRequest request;
    request.set_unit(*unit);
    request.set_undo(undo_);
    const auto reply = Ask(request);
    if (!reply.ok()) return reply.status();
    if (undo_) {
      fmt::print("Unit {} may be used again.\n", *unit);
    } else {
      fmt::print("Unit {} gets no flowlets any more; {} to move away.\n", *unit,
                 Plural(reply->flows(), "flow"));
    }
    return absl::OkStatus();
  }

  std::string unit_;
  bool undo_ = false;
};

class KillCommand final : public DaemonCommand {
 public:
  KillCommand()
      : DaemonCommand(
            {.summary = "kill the process of a unit or of the loggers",
             .usage = "snf kill UNIT|loggers|controller I [--name=NAME]",
             .about =
                 "Sends SIGKILL to the process that runs a unit, with all "
                 "units in it, or to that of all output loggers: to try out "
                 "what happens then. Of a daemon with --isolation=process or "
                 "lxc and --loggers=on, whose others go on with what it had: "
                 "no packet is lost. Or to one of several daemons that share "
                 "ports (snf up --controllers): the others go on."}) {
    flags().Arguments("UNIT|loggers|controller I", words_, 1);
  }

 private:
  absl::Status Run() override {
    if (words_.front() == "controller") return KillController();
    if (words_.size() > 1) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\": one is killed at a time", words_[1]));
    }
    const std::string& victim = words_.front();
    proto::KillRequest request;
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
          "controller: want its number, as in snf kill controller 1");
    }
    if (is_remote()) {
      return absl::InvalidArgumentError(
          "controller: only those of this machine can be killed");
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
        "\"{}\" has no controller {} that runs", daemon(), words_[1]));
  }

  std::vector<std::string> words_;
};

// Shows the live view of another process until that ends, or this one does.
class TopCommand final : public DaemonCommand {
 public:
  TopCommand()
      : DaemonCommand({.summary = "show a daemon as it runs",
                       .usage = "snf top [--name=NAME]",
                       .about = "Shows a daemon of snf up as it runs: as a "
                                "screen where stdout is a terminal, else in a "
                                "line every 2 s. It ends with the daemon, or "
                                "by Ctrl-C."}) {}

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
                      std::fflush(stdout);
                    }});
    const int32_t pid = reply->pid();
    Nanos shown{-1};
    while (reply.ok() && reply->pid() == pid) {
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
             .about = "Lets a daemon of snf up come to its end, and waits for "
                      "it: it takes no packet any more, and what is under way "
                      "still leaves. A daemon of this machine that does not "
                      "end in time is killed. Where one with --keep was "
                      "killed, ends what waits for the next one. Of several "
                      "that share ports (snf up --controllers), ends all."}) {
    flags().Duration("patience", patience_, Milliseconds(1), Seconds(3'600),
                     "a daemon that has not ended by then is killed");
  }

 private:
  absl::Status Run() override {
    if (const auto client = Connect(); is_remote() && !client.ok()) {
      return client.status();
    }
    return is_remote() ? EndRemote() : EndHere();
  }

  // Nobody but its own machine can kill it.
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
    fmt::print("\"{}\" takes no packet any more.\n", daemon());
    return absl::OkStatus();
  }

  // Of several that share ports, all of them, and what they lease from.
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
    for (uint32_t id = 0; id < ClusterMember::kMost; ++id) {
      const auto of = DaemonFiles::Of(ClusterMember::NameOf(daemon(), id));
      has_any |= of.ok() && RemoveRemains(*of);
    }
    const absl::StatusOr<pid_t> pid = PidOf(*files);
    if (!pid.ok()) return pid.status();
    if (*pid == 0) {
      if (RemoveRemains(*files) || has_any) return ended;
      return NoDaemon(daemon());
    }
    ended.Update(EndDaemon(*files, *pid, patience_));
    if (!ended.ok()) RemoveRemains(*files);
    return ended;
  }

  // What a daemon left behind that was killed. Returns true if that were
  // processes that waited for another one.
  static bool RemoveRemains(const DaemonFiles& files) {
    if (access(files.lock.c_str(), F_OK) != 0) return false;
    const auto lock = DaemonLock::Take(files);
    if (!lock.ok() || !EndWaiting(files)) return false;
    fmt::print("What waited for another daemon \"{}\" has ended.\n",
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
