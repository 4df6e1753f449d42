// SPDX-License-Identifier: Apache-2.0
#include "platform/up/up_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/quantity.h"
#include "platform/control/background.h"
#include "platform/control/control_desk.h"
#include "platform/control/control_server.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/version.h"
#include "platform/replay/live_chain_setter.h"
#include "platform/replay/live_run.h"
#include "platform/replay/live_settings.h"
#include "platform/text/wording.h"
#include "platform/up/several_controllers.h"
#include "platform/upgrade/live_upgrade.h"
#include "resource_manager/live/container_method.h"

namespace snf {
namespace {

// Logs what happens to units.
class UnitLog final : public RunObserver {
 public:
  void on_unit_up(Instant /*now*/, UnitId unit) override {
    LogLine(LogLevel::kDebug, fmt::format("unit {} starts", value(unit)));
  }
  void on_unit_down(Instant /*now*/, UnitId unit) override {
    LogLine(LogLevel::kDebug, fmt::format("unit {} is parked", value(unit)));
  }
};

proto::StatusReply AboutOf(const DaemonFiles& files,
                           const ReplayOptions& options) {
  proto::StatusReply about;
  about.set_name(files.name);
  about.set_version(kVersion);
  about.set_pid(getpid());
  about.set_nf(options.nf);
  about.set_policy(options.policies.front());
  if (options.controller.count > 1) {
    about.set_controller(options.controller.id);
    about.set_controllers(options.controller.count);
  }
  const auto& keep = options.real.keep;
  if (keep.has_value()) about.set_keep_ns(keep->patience.ns);
  return about;
}

// Serves the control service for a run.
class Daemon final : public LiveSteering {
 public:
  Daemon(const DaemonFiles& files, const std::optional<TlsEndpoint>& tcp,
         const ReplayOptions& options, const LogOptions& log,
         FirstInterrupt& interrupt, std::optional<DaemonLock>& lock)
      : files_(files),
        lock_(lock),
        interrupt_(interrupt),
        tcp_(tcp),
        options_(options),
        log_(log.file),
        settings_(options, log.level),
        chains_(settings_, options.real.program, files.modules),
        desk_(AboutOf(files, options), settings_, interrupt.came) {}

  // Lets it take the place of the daemon of its name.
  void Succeed(std::unique_ptr<LiveSuccessor> successor, Nanos within) {
    successor_ = std::move(successor);
    within_ = within;
  }
  bool has_handed_on() const { return upgrade_.has_handed_on(); }
  // Its units are leased; the leases must outlive it.
  void LeaseBy(DaemonLeases& leases) {
    leases_ = &leases;
    chains_.Refuse(
        "--manager: its leases are of one chain all along; start it anew with "
        "the other chain");
  }
  // Lets its chains outlive it if it is killed.
  absl::Status Keep(const RealOptions::Keep& keep) {
    return chains_.Keep(keep, files_.chains);
  }
  absl::StatusOr<std::optional<Kept>> NextKept() override {
    return chains_.NextKept();
  }

  absl::Status Begin(LiveTraffic& traffic, LiveChains& chains,
                     const StartDriver& start,
                     const LiveBoard& board) override {
    const UpgradePorts ports = UpgradePorts::Of(options_.ports);
    if (successor_ != nullptr) {
      absl::Status taken = TakeOver(ports, traffic, chains);
      if (!taken.ok()) return taken;
    }
    chains_.Begin(chains, start, upgrade_);
    if (leases_ != nullptr) {
      leases_->set_driver(chains.newest());
      chains.LeaseBy(*leases_);
    }
    desk_.Begin(chains_, board, chains.inherited_flows());
    upgrade_.Begin(
        traffic, chains, ports,
        successor_ != nullptr ? successor_->lock_file() : lock_->file(),
        {.close_server = [this] { server_.reset(); },
         .open_server = [this] { ListenAgain(); },
         .end = [this] { interrupt_.came = true; }});
    if (absl::Status s = Listen(); !s.ok()) return s;
    if (successor_ != nullptr) {
      lock_.emplace(
          DaemonLock::Adopt(files_, successor_->TakeLock().Release()));
      successor_->Attend(chains, desk_.mailbox());
    }
    for (const std::string& note : traffic.notes()) {
      LogLine(LogLevel::kInfo, note);
    }
    LogLine(LogLevel::kInfo,
            fmt::format("runs {} between {}", Printable(options_.nf),
                        ListOf(options_.ports)));
    Background::SayReady(log_);
    NotifySystemd(fmt::format("MAINPID={}\nREADY=1", getpid()).c_str());
    return absl::OkStatus();
  }
  bool is_successor() const override { return successor_ != nullptr; }
  Mailbox& mailbox() override { return desk_.mailbox(); }
  RunObserver* observer() override { return &unit_log_; }
  void Notice(std::string_view line) override {
    LogLine(LogLevel::kWarning, line);
  }
  void on_chain_ended(const std::string& line) override {
    LogLine(LogLevel::kInfo, line);
  }
  void End(LiveChains& chains) override {
    if (has_handed_on()) {
      upgrade_.End(chains);
      return;
    }
    NotifySystemd("STOPPING=1");
    server_.reset();
  }

 private:
  absl::Status Listen() {
    auto server = ControlServer::Start(files_.socket, tcp_, desk_);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  }
  // Who was to take the place of this one has ended.
  void ListenAgain() {
    lock_->WritePid();
    const absl::Status status = Listen();
    if (!status.ok()) Notice(std::string(status.message()));
  }
  absl::Status TakeOver(const UpgradePorts& ports, LiveTraffic& traffic,
                        LiveChains& chains) {
    const auto client = ControlClient::Connect(files_.socket);
    absl::Status taken =
        successor_->TakeOver(*client, ports, within_, traffic, chains);
    if (!taken.ok()) {
      return absl::FailedPreconditionError(
          fmt::format("\"{}\": {}", files_.name, std::string(taken.message())));
    }
    LogLine(LogLevel::kInfo,
            fmt::format("has the place of the daemon before, which keeps {}",
                        Plural(successor_->older_flows(), "flow")));
    return absl::OkStatus();
  }

  const DaemonFiles& files_;
  std::optional<DaemonLock>& lock_;
  FirstInterrupt& interrupt_;
  const std::optional<TlsEndpoint>& tcp_;
  const ReplayOptions& options_;
  const std::string log_;
  LiveSettings settings_;
  LiveChainSetter chains_;
  ControlDesk desk_;
  UnitLog unit_log_;
  std::unique_ptr<ControlServer> server_;
  LivePredecessor upgrade_;
  std::unique_ptr<LiveSuccessor> successor_;
  Nanos within_ = Nanos::max();
  DaemonLeases* leases_ = nullptr;
};

// What ended, in a line.
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
      run_flags_(flags(), ReplayFlags::Input::kPorts) {
  flags().Heading("The daemon");
  AddDaemonName(flags(), daemon_);
  flags().Count("controllers", controllers_, 1, ControllerOf::kMost,
                "start so many daemons that share the ports, NAME.0 and so on, "
                "each with --controller; or those of them that do not run");
  flags().Count("units", units_, 0, kMaxUnits,
                "with --controllers: start a resource manager, NAME, of so "
                "many units of --unit_capacity, which they lease by their "
                "load; 0: each has --max_units of its own");
  tls_.AddTo(flags(),
             "answer also there, over TCP, those who show a certificate that "
             "the authority of --tls has signed");
  flags().Text("manager", manager_, "NAME",
               "lease units of the resource manager of that name, which snf "
               "manager has started, as much as the load needs: its --units "
               "and --unit_capacity are this daemon's");
  flags().Switch("upgrade", upgrade_,
                 "take the place of the daemon of this name, with the same "
                 "--port, while packets go through: flows stay with the "
                 "program that they began with, and the old one ends with "
                 "the last of them; with --controllers, of each, one after "
                 "the other");
  flags().DurationOrInfinity(
      "within", within_, Nanos{},
      "with --upgrade: flows that the old one still has by then begin anew");
  flags().Duration(
      "keep", keep_, Nanos{}, Seconds(3'600),
      "if the daemon is killed, its units and loggers, which are processes, "
      "wait so long for the next snf up with the same flags, which goes on "
      "with their flows, and with the chains that were set; 0s: they end with "
      "it");
  flags().Switch("foreground", foreground_,
                 "stay in the foreground, and tell systemd when it is ready");
  flags().Text("log", log_, "FILE",
               "append the log to FILE (- is stderr). Without it, stderr in "
               "the foreground; else a file beside the control socket, which "
               "the daemon removes if it ends well");
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
        "--units: only --controllers has that; alone, it is --max_units");
  }
  if (flags().given("within") && !upgrade_) {
    return absl::InvalidArgumentError("--within: only --upgrade has that");
  }
  const ReplayOptions& options = run_flags_.options();
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
  const ReplayOptions& options = run_flags_.options();
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
  EndCleanlyWhenInterrupted(name(), &interrupt);
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
  const LogOptions log = LogOf(files);
  if (absl::Status s = OpenLog(log); !s.ok()) return s;
  ReplayOptions options = run_flags_.options();
  if (keep_.ns > 0) {
    options.real.keep = {.socket = files.keep, .patience = keep_};
    options.real.warm_pool.reset();  // processes that are kept stay
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
  const bool is_well = exit_code.ok() && *exit_code == kExitOk;
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
