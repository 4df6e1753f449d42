// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/up/up_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/keyed_hash.h"
#include "base/quantity.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "base/text_file.h"
#include "base/version.h"
#include "platform/commands/up/several_controllers.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/daemon/address_notes.h"
#include "platform/daemon/daemon.h"
#include "platform/daemon/live_run.h"
#include "platform/daemon/live_upgrade.h"
#include "platform/process/clean_interrupt.h"
#include "platform/service/background.h"

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

std::string NameOfMachine() {
  std::array<char, 65> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Tells machines and network namespaces apart, by names of the kernel: others
// of one group share the ports here.
absl::StatusOr<std::string> PlaceOfPorts() {
  constexpr char kNetwork[] = "/proc/self/ns/net";
  const auto boot = ReadTextFile("/proc/sys/kernel/random/boot_id", 64);
  if (!boot.ok()) return boot.status();
  struct stat network {};
  if (stat(kNetwork, &network) != 0) {
    return absl::UnavailableError(
        fmt::format("{}: {}", kNetwork, std::strerror(errno)));
  }
  return fmt::format("{}, network {}", boot->substr(0, boot->find('\n')),
                     network.st_ino);
}

// The daemon of this process, for the thread of signals. Thread-safe.
class Running {
 public:
  void Set(Daemon* daemon) {
    const std::scoped_lock lock(mutex_);
    daemon_ = daemon;
  }
  // Opens the files of NFs' logs again, and, if `reloads`, takes the
  // configuration file again.
  void OnHangup(bool reloads) {
    const std::scoped_lock lock(mutex_);
    if (daemon_ == nullptr) return;
    daemon_->ReopenNfLogs();
    if (reloads) daemon_->Reload();
  }

 private:
  std::mutex mutex_;
  Daemon* daemon_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: none runs
};

void TellOfGroup(bool is_warning, const std::string& line) {
  LogLine(is_warning ? LogLevel::kWarning : LogLevel::kInfo, line);
}

// Listens for other members at the same ports, at one port for states (TCP) and
// frames (UDP). Another process may have one of the two.
absl::Status ListenOnMachine(std::unique_ptr<StateLink>& states,
                             std::unique_ptr<GroupLink>& link) {
  constexpr int kTries = 16;
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    auto listens = StateLink::Listen("127.0.0.1:0", TellOfGroup);
    if (!listens.ok()) return listens.status();
    auto opened = GroupLink::Open((*listens)->address());
    status = opened.status();
    if (!status.ok()) continue;
    states = *std::move(listens);
    link = *std::move(opened);
    break;
  }
  return status;
}

}  // namespace

UpCommand::UpCommand()
    : FlagCommand(
          {.summary = "start a daemon that runs live traffic",
           .usage = "snf up [--config=FILE] [--port inside=INTERFACE --port "
                    "outside=INTERFACE] [--FLAG=VALUE…]",
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
      daemon_(flags()) {}

LogOptions UpCommand::LogOf(const DaemonFiles& files) const {
  LogOptions log = {.file = daemon_.log,
                    .json = daemon_.log_json,
                    .level = daemon_.log_level};
  if (log.file.empty()) log.file = daemon_.foreground ? "-" : files.log;
  return log;
}

absl::Status UpCommand::Run() {
  if (daemon_.run.options().json_schema) {
    return absl::InvalidArgumentError("--json_schema: snf run tells it");
  }
  if (absl::Status s = daemon_.run.TakeConfig(); !s.ok()) return s;
  for (const std::string& line : daemon_.run.overridden()) {
    PrintOnStderr("{}: {}\n", name(), line);
  }
  if (daemon_.controllers > 1) {
    if (absl::Status s = daemon_.CheckBypass(); !s.ok()) return s;
    return StartSeveral({.flags = flags(),
                         .run = daemon_.run,
                         .name = daemon_.name,
                         .controllers = daemon_.controllers,
                         .units = daemon_.units,
                         .upgrade = daemon_.upgrade});
  }
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(daemon_.name);
  if (!files.ok()) return files.status();
  if (absl::Status s = daemon_.Settle(); !s.ok()) return s;
  if (daemon_.foreground) return Serve(*files);
  for (const std::string& note : AddressNotes(daemon_.run.options())) {
    fmt::print(stderr, "{}: {}\n", name(), note);
  }
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
  const RunRequest& options = daemon_.run.options();
  fmt::print("\"{}\" runs {} between {}, as process {}{}.\n", files.name,
             Printable(options.nf), ListOf(options.ports), pid.ok() ? *pid : 0,
             options.real.isolation == Isolation::kContainer
                 ? ", with units in containers"
                 : "");
  if (!daemon_.no_containers.empty()) {
    fmt::print("Its units are in processes: {}.\n", daemon_.no_containers);
  }
  if (daemon_.network.has_value()) {
    fmt::print(
        "Its ends are the network namespaces {} and {}, which were made for "
        "it; to send something:\n"
        "  ip netns exec {} ping {}\n",
        daemon_.network->client, daemon_.network->server,
        daemon_.network->client, DaemonNetwork::kServerAddress);
  }
  fmt::print(
      "snf status{0}, units, flows and top show it, snf down{0} ends it; its "
      "log is {1}.\n",
      name, LogOf(files).file);
}

absl::StatusOr<std::unique_ptr<HostWatch>> UpCommand::WatchHosts() const {
  auto client = daemon_.etcd.Client();
  if (!client.ok()) return client.status();
  return HostWatch::Start(*std::move(client),
                          {.cluster = daemon_.etcd.cluster(),
                           .version = kVersion,
                           .wire = daemon_.host_wire,
                           .notice = TellOfGroup});
}

absl::StatusOr<std::unique_ptr<GroupMembership>> UpCommand::FindGroup(
    const DaemonFiles& files, const RunRequest& options,
    const StateLink* states) const {
  auto etcd = daemon_.etcd.Options();
  if (!etcd.ok()) return etcd.status();
  std::string machine;
  if (daemon_.group_address.empty()) {
    auto place = PlaceOfPorts();
    if (!place.ok()) return place.status();
    machine = *std::move(place);
  }
  GatewayGroup::Options member = {
      .self = {.number = options.controller.id,
               .name = fmt::format("{} on {}", files.name, NameOfMachine()),
               .address = daemon_.group_address,
               .incarnation = SecretSeed() | 1,
               .states = states != nullptr ? states->address()
                                           : daemon_.group_address},
      .shape = {.controllers = options.controller.count,
                .program = options.nf + options.steering->blocks_text(),
                .version = kVersion,
                .machine = std::move(machine),
                .silence = daemon_.takeover},
      .key = SecretSeed(),
      .continues = daemon_.upgrade};
  etcd->attempt = GatewayGroup(member).patience();
  etcd->patience = etcd->attempt;
  auto client = EtcdClient::Create(*etcd);
  if (!client.ok()) return client.status();
  return GroupMembership::Start(
      *std::move(client),
      {.cluster = daemon_.etcd.cluster(),
       .group = daemon_.group,
       .member = std::move(member),
       .notice = [](bool is_warning, const std::string& line) {
         LogLine(is_warning ? LogLevel::kWarning : LogLevel::kInfo, line);
       }});
}

absl::Status UpCommand::Serve(const DaemonFiles& files) {
  static FirstInterrupt interrupt;
  const LogOptions log = LogOf(files);
  static Running running;
  EndCleanlyWhenInterrupted(name(), &interrupt, [file = log.file](int came) {
    ReopenLog();
    Background::ReopenErrors(file);
    running.OnHangup(came == SIGHUP);
  });
  std::optional<DaemonLock> lock;
  std::unique_ptr<LiveSuccessor> successor;
  if (daemon_.upgrade) {
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
  if (daemon_.network.has_value() && !daemon_.upgrade) {
    interrupt.is_awaited = true;  // it is to be removed
    auto made = DaemonNetwork::Make(*daemon_.network, files.network);
    if (!made.ok()) return made.status();
    network.emplace(*std::move(made));
  }
  if (absl::Status s = OpenLog(log); !s.ok()) return s;
  RunRequest options = daemon_.run.options();
  options.real.failed_packets = files.failed;
  if (daemon_.keep.ns > 0) {
    options.real.KeepBy({.socket = files.keep, .patience = daemon_.keep});
  }
  std::vector<std::unique_ptr<DaemonLeases>> leases;  // by chain
  if (daemon_.membership.has_value()) {
    auto joined = daemon_.membership->Join(options);
    if (!joined.ok()) return joined.status();
    leases = *std::move(joined);
    options.run.controller.leased = true;
    if (daemon_.keep.ns > 0) {
      DaemonLeases& only = *leases.front();
      options.real.lease_finder = &only.finder();
      options.real.keep->settle = [&only](RealDriver& driver) {
        only.set_driver(driver);
      };
    }
    // Units are not started by need, but on hosts that come and go.
    options.real.warm_pool.reset();
    if (daemon_.places_units()) options.real.warm_pool = 0;
  }
  std::unique_ptr<HostWatch> hosts;
  std::unique_ptr<GroupMembership> group;
  std::unique_ptr<GroupLink> link;
  std::unique_ptr<StateLink> states;
  if (!daemon_.group.empty()) {
    // Members of one machine reach each other at any port. A successor gets the
    // sockets of the daemon before.
    if (daemon_.group_address.empty() && !daemon_.upgrade) {
      if (absl::Status s = ListenOnMachine(states, link); !s.ok()) return s;
    }
    auto found = FindGroup(files, options, states.get());
    if (!found.ok()) return found.status();
    group = *std::move(found);
    if (!daemon_.group_address.empty() && !daemon_.upgrade) {
      auto listens = StateLink::Listen(daemon_.group_address, TellOfGroup,
                                       daemon_.group_tls);
      if (!listens.ok()) return listens.status();
      states = *std::move(listens);
      auto opened = GroupLink::Open(daemon_.group_address);
      if (!opened.ok()) return opened.status();
      link = *std::move(opened);
    }
    // Nothing comes in before it has joined.
    for (PortSpec& port : options.ports) {
      if (port.steering != nullptr) port.steering = port.steering->Among(0);
    }
  }
  if (daemon_.places_units() && !leases.empty()) {
    options.real.host_source = leases.front()->hosts();
    options.real.own_units = 0;
  } else if (daemon_.places_units()) {
    auto watch = WatchHosts();
    if (!watch.ok()) return watch.status();
    hosts = *std::move(watch);
    options.real.host_source = hosts.get();
    options.real.own_units = daemon_.own_units;
  }
  // Processes of units keep what they are given.
  if (options.real.isolation != Isolation::kThread) {
    Background::SendErrorsTo(log.file);
  }
  Daemon daemon(files, daemon_.tcp, options, log, interrupt, lock);
  if (!leases.empty()) daemon.LeaseBy(leases);
  if (group != nullptr && daemon_.upgrade) {
    daemon.ContinueBy(*group, daemon_.group_tls);
  } else if (group != nullptr) {
    daemon.JoinBy(*group, std::move(link), std::move(states));
  }
  if (successor != nullptr)
    daemon.Succeed(std::move(successor), daemon_.within);
  if (daemon_.keep.ns > 0) {
    if (absl::Status s = daemon.Keep(*options.real.keep); !s.ok()) return s;
  } else if (!daemon_.upgrade) {
    EndWaiting(files);
  }
  daemon.BypassAfter(daemon_.bypass);
  running.Set(&daemon);
  const absl::StatusOr<LiveRun> live = RunPorts(options, interrupt, &daemon);
  running.Set(nullptr);
  Background::TakeErrorsBack();
  const int signal = interrupt.signal;
  if (signal != 0) {
    LogLine(LogLevel::kInfo, fmt::format("ends by {}", NameOfSignal(signal)));
  }
  if (daemon_.upgrade && lock.has_value() && daemon_.network.has_value()) {
    network.emplace(DaemonNetwork::Adopt(files.network));
  }
  const bool has_handed_on = daemon.has_handed_on();
  if (has_handed_on) {
    lock->GiveAway();
    if (network.has_value()) network->GiveAway();
  }
  const absl::StatusOr<ExitCode> exit_code =
      live.ok() ? ReportOf(options, *live) : live.status();
  // If a daemon fails, its guard takes its place, as after a kill.
  if (interrupt.came || exit_code.ok()) daemon.EndBypass();
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
