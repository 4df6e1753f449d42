// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/up/up_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/commands/up/several_controllers.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/daemon/daemon.h"
#include "platform/daemon/live_run.h"
#include "platform/daemon/live_upgrade.h"
#include "platform/process/clean_interrupt.h"
#include "platform/service/background.h"
#include "resource_manager/launch/container_method.h"

namespace snf {
namespace {

// Returns what came of the run, in a line.
std::string EndOf(const RunResult& result) {
  return fmt::format(
      "{} came in, {} released, {} passed through, {} dropped or consumed: {}",
      Plural(result.packets_in, "packet"), result.packets_released,
      result.packets_passed_through,
      result.packets_ended() - result.packets_released -
          result.packets_passed_through,
      result.packets_begun() == result.packets_ended() ? "all accounted for"
                                                       : "some are missing");
}

}  // namespace

UpCommand::UpCommand()
    : FlagCommand(
          {.summary = "start a daemon that runs live traffic",
           .usage = "snf up [--port inside=INTERFACE --port outside=INTERFACE] "
                    "[--FLAG=VALUE…]",
           .about =
               "Does what snf run does, in the background: returns once "
               "packets are taken. snf status, units, flows and top look at "
               "it, snf set and snf drain steer it, snf down ends it, as "
               "SIGTERM does: no packet is taken any more, and what is under "
               "way still leaves. It wants root, or CAP_NET_RAW and "
               "CAP_NET_ADMIN. Without --port it makes two network namespaces, "
               "snf-client and snf-server, runs between these, and removes "
               "them in the end; its units are in containers then, unless "
               "--isolation says otherwise."}),
      run_flags_(flags(), RunFlags::Input::kPorts) {
  flags().Heading("The daemon");
  AddDaemonName(flags(), daemon_);
  flags().Count("controllers", controllers_, 1, ControllerOf::kMost,
                "daemons that share the ports, NAME.0 and so on, each with "
                "--controller; daemons that run already are left alone");
  flags().Count("units", units_, 0, kMaxUnits,
                "units of a resource manager, NAME, which is started with "
                "--controllers. Each unit has --unit_capacity, and the daemons "
                "lease them by their load; 0: each has --max_units of its "
                "own");
  tls_.AddTo(flags(),
             "serve the control service also there, over TCP, for clients with "
             "a certificate that the authority of --tls has signed");
  flags().Text("manager", manager_, "NAME",
               "lease units of the resource manager of that name, which snf "
               "manager has started, as the load needs. Its --units and "
               "--unit_capacity are this daemon's");
  flags().Switch("upgrade", upgrade_,
                 "take the place of the daemon of this name, with the same "
                 "--port, while packets go through. Flows stay with the daemon "
                 "that they began with, and the predecessor ends with the last "
                 "of its flows. With --controllers: of each daemon, one after "
                 "the other");
  flags().DurationOrInfinity("within", within_, Nanos{},
                             "with --upgrade: flows that the predecessor still "
                             "has after so long begin "
                             "anew");
  flags().Duration(
      "keep", keep_, Nanos{}, Seconds(3'600),
      "if the daemon is killed, the processes of its units and loggers wait so "
      "long for the next snf up with the same flags. It takes over their flows "
      "and the chains that were set; 0s: they end with the daemon");
  flags().Switch("foreground", foreground_,
                 "stay in the foreground, and tell systemd when it is ready");
  flags().Text("log", log_, "FILE",
               "append the log to FILE (- is stderr). If not given, it is "
               "stderr in the foreground; else a file beside the control "
               "socket, which the daemon removes if it ends well");
  flags().Switch("log_json", log_json_, "each line of the log is JSON");
  flags().Choice("log_level", log_level_,
                 {{"debug", "also starts of units"},
                  {"info", "what is asked of the daemon"},
                  {"warning", "what is wrong"},
                  {"error", "what ends it"}},
                 "what is logged:");
}

absl::Status UpCommand::ChoosePorts() {
  if (flags().given("port")) return absl::OkStatus();
  auto names = DaemonNetwork::Names::Of(daemon_);
  if (!names.ok()) return names.status();
  network_ = *std::move(names);
  flags().Give("port",
               {"inside=" + network_->inside, "outside=" + network_->outside});
  if (flags().given("isolation")) return absl::OkStatus();
  const absl::Status containers = ContainerMethod::Check();
  no_containers_ = std::string(containers.message());
  flags().Give("isolation", {containers.ok() ? "lxc" : "process"});
  return absl::OkStatus();
}

absl::Status UpCommand::Settle() {
  if (absl::Status s = ChoosePorts(); !s.ok()) return s;
  if (membership_.has_value()) {
    if (absl::Status s = membership_->Settle(flags(), upgrade_); !s.ok()) {
      return s;
    }
  }
  if (absl::Status s = run_flags_.Settle(); !s.ok()) return s;
  if (absl::Status s = CheckTogether(); !s.ok()) return s;
  absl::StatusOr<std::optional<TlsEndpoint>> tcp =
      tls_.Endpoint(TlsEnd::kServer);
  if (!tcp.ok()) return tcp.status();
  tcp_ = *std::move(tcp);
  return absl::OkStatus();
}

absl::Status UpCommand::CheckTogether() const {
  if (units_ > 0) {
    return absl::InvalidArgumentError(
        "--units: only --controllers has that; a single daemon has "
        "--max_units");
  }
  if (flags().given("within") && !upgrade_) {
    return absl::InvalidArgumentError("--within: only --upgrade has that");
  }
  const RunRequest& options = run_flags_.options();
  if (keep_.ns > 0 && options.real.isolation == Isolation::kThread) {
    return absl::InvalidArgumentError(
        "--keep: wants --isolation=process or lxc: threads end with the "
        "daemon");
  }
  if (keep_.ns > 0 && !options.run.loggers) {
    return absl::InvalidArgumentError("--keep: wants --loggers=on");
  }
  const bool is_of_several = options.controller.count > 1;
  if (is_of_several && network_.has_value()) {
    return absl::InvalidArgumentError(
        "--controller: wants --port, which controllers share");
  }
  if (keep_.ns > 0 && upgrade_) {
    return absl::InvalidArgumentError("--keep: is not for --upgrade");
  }
  if (foreground_) return absl::OkStatus();
  const auto refuse = [](const char* flag) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a daemon in the background has no terminal; with "
                    "--foreground it has",
                    flag));
  };
  if (run_flags_.options().watch) return refuse("--watch");
  if (log_ == "-") return refuse("--log=-");
  for (const std::string& file :
       {run_flags_.options().json, run_flags_.options().out}) {
    if (file == "-") return refuse("a file named -");
  }
  return absl::OkStatus();
}

LogOptions UpCommand::LogOf(const DaemonFiles& files) const {
  LogOptions log = {.file = log_,
                    .json = log_json_,
                    .level = LogLevel{static_cast<uint8_t>(log_level_)}};
  if (log.file.empty()) log.file = foreground_ ? "-" : files.log;
  return log;
}

absl::Status UpCommand::Run() {
  if (run_flags_.options().json_schema) {
    return absl::InvalidArgumentError("--json_schema: snf run tells it");
  }
  if (controllers_ > 1) {
    return StartSeveral({.flags = flags(),
                         .options = run_flags_.options(),
                         .name = daemon_,
                         .controllers = controllers_,
                         .units = units_,
                         .upgrade = upgrade_});
  }
  if (!manager_.empty()) membership_.emplace(manager_, daemon_);
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(daemon_);
  if (!files.ok()) return files.status();
  if (absl::Status s = Settle(); !s.ok()) return s;
  if (foreground_) return Serve(*files);
  const absl::StatusOr<std::optional<int>> begun = Background::Begin();
  if (!begun.ok()) return begun.status();
  if (!begun->has_value()) return Serve(*files);
  set_exit_code(ExitCode{**begun});
  if (**begun != kExitOk) return absl::OkStatus();  // it has said why
  TellReady(*files);
  return absl::OkStatus();
}

// In the parent of a daemon in the background.
void UpCommand::TellReady(const DaemonFiles& files) const {
  const absl::StatusOr<pid_t> pid = PidOf(files);
  const std::string name =
      files.name == "default" ? "" : " --name=" + files.name;
  const RunRequest& options = run_flags_.options();
  fmt::print("\"{}\" runs {} between {}, as process {}{}.\n", files.name,
             Printable(options.nf), ListOf(options.ports), pid.ok() ? *pid : 0,
             options.real.isolation == Isolation::kContainer
                 ? ", with units in containers"
                 : "");
  if (!no_containers_.empty()) {
    fmt::print("Its units are in processes: {}.\n", no_containers_);
  }
  if (network_.has_value()) {
    fmt::print(
        "Its ends are the network namespaces {} and {}, which were made for "
        "it; to send something:\n"
        "  ip netns exec {} ping {}\n",
        network_->client, network_->server, network_->client,
        DaemonNetwork::kServerAddress);
  }
  fmt::print(
      "snf status{0}, units, flows and top show it, snf down{0} ends it; its "
      "log is {1}.\n",
      name, LogOf(files).file);
}

absl::Status UpCommand::Serve(const DaemonFiles& files) {
  static FirstInterrupt interrupt;
  const LogOptions log = LogOf(files);
  EndCleanlyWhenInterrupted(name(), &interrupt, [file = log.file] {
    ReopenLog();
    Background::ReopenErrors(file);
  });
  std::optional<DaemonLock> lock;
  std::unique_ptr<LiveSuccessor> successor;
  if (upgrade_) {
    const absl::StatusOr<pid_t> pid = PidOf(files);
    if (!pid.ok()) return pid.status();
    if (*pid == 0) return NoDaemon(files.name);
    auto listens = LiveSuccessor::Listen(
        fmt::format("{}/{}.{}", files.directory, files.name, getpid()));
    if (!listens.ok()) return listens.status();
    successor = *std::move(listens);
  } else {
    absl::StatusOr<DaemonLock> taken = DaemonLock::Take(files);
    if (!taken.ok()) return taken.status();
    lock.emplace(*std::move(taken));
  }
  std::optional<DaemonNetwork> network;
  if (network_.has_value() && !upgrade_) {
    interrupt.is_awaited = true;  // it is to be removed
    auto made = DaemonNetwork::Make(*network_, files.network);
    if (!made.ok()) return made.status();
    network.emplace(*std::move(made));
  }
  if (absl::Status s = OpenLog(log); !s.ok()) return s;
  RunRequest options = run_flags_.options();
  options.real.failed_packets = files.failed;
  if (keep_.ns > 0) {
    options.real.KeepBy({.socket = files.keep, .patience = keep_});
  }
  std::unique_ptr<DaemonLeases> leases;
  if (membership_.has_value()) {
    auto joined = membership_->Join(options);
    if (!joined.ok()) return joined.status();
    leases = *std::move(joined);
    options.run.controller.leased = true;
    if (keep_.ns > 0) {
      options.real.lease_finder = &leases->finder();
      options.real.keep->settle = [&leases](RealDriver& driver) {
        leases->set_driver(driver);
      };
    }
    options.real.warm_pool.reset();  // units are not started by need
  }
  // Processes of units keep what they are given.
  if (options.real.isolation != Isolation::kThread) {
    Background::SendErrorsTo(log.file);
  }
  Daemon daemon(files, tcp_, options, log, interrupt, lock);
  if (leases != nullptr) daemon.LeaseBy(*leases);
  if (successor != nullptr) daemon.Succeed(std::move(successor), within_);
  if (keep_.ns > 0) {
    if (absl::Status s = daemon.Keep(*options.real.keep); !s.ok()) return s;
  } else if (!upgrade_) {
    EndWaiting(files);
  }
  const absl::StatusOr<LiveRun> live = RunPorts(options, interrupt, &daemon);
  Background::TakeErrorsBack();
  const int signal = interrupt.signal;
  if (signal != 0) {
    LogLine(LogLevel::kInfo, fmt::format("ends by {}", NameOfSignal(signal)));
  }
  if (upgrade_ && lock.has_value() && network_.has_value()) {
    network.emplace(DaemonNetwork::Adopt(files.network));
  }
  const bool has_handed_on = daemon.has_handed_on();
  if (has_handed_on) {
    lock->GiveAway();
    if (network.has_value()) network->GiveAway();
  }
  const absl::StatusOr<ExitCode> exit_code =
      live.ok() ? ReportOf(options, *live) : live.status();
  if (live.ok()) LogLine(LogLevel::kInfo, EndOf(live->replayed.run.result));
  if (!exit_code.ok()) {
    LogLine(LogLevel::kError, std::string(exit_code.status().message()));
  }
  // Another signal is no request of an operator: the log stays.
  const bool was_asked = signal == 0 || signal == SIGTERM || signal == SIGINT;
  const bool is_well = exit_code.ok() && *exit_code == kExitOk && was_asked;
  const bool was_told = !live.ok() && !Background::is_ready();
  if ((is_well || was_told) && log.file == files.log && lock.has_value() &&
      !has_handed_on) {
    unlink(files.log.c_str());
  }
  if (!exit_code.ok()) return exit_code.status();
  set_exit_code(*exit_code);
  return absl::OkStatus();
}

}  // namespace snf
