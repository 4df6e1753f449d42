// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/manager/manager_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "base/version.h"
#include "platform/control/control_handler.h"
#include "platform/control/control_server.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/process/clean_interrupt.h"
#include "platform/service/background.h"
#include "platform/service/client_role.h"
#include "platform/service/tls_endpoint.h"
#include "platform/service/tls_files.h"
#include "resource_manager/etcd/leadership.h"
#include "resource_manager/live/etcd_notes.h"
#include "resource_manager/live/lease_server.h"
#include "resource_manager/live/manager_desk.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr uint32_t kMostUnits = 1'024;
constexpr int64_t kLeastCapacity = 1'000;
constexpr int64_t kMostCapacity = 1'000'000'000'000;

void LogNotice(bool is_warning, const std::string& line) {
  LogLine(is_warning ? LogLevel::kWarning : LogLevel::kInfo, line);
}

std::vector<UnitHost> UnitHostsOf(const HostSource& source) {
  std::vector<UnitHost> hosts;
  for (const HostPlace& host : source.Hosts()) {
    hosts.push_back({.name = host.name.data(),
                     .address = host.address.data(),
                     .units = host.processes});
  }
  return hosts;
}

// Answers the control service as far as a resource manager has what that asks
// for: so snf status and snf down know it.
class ManagerControl final : public ControlHandler {
 public:
  ManagerControl(std::string name, std::atomic<bool>& down)
      : name_(std::move(name)), down_(down), began_(RealClock::Monotonic()) {}

  absl::Status Status(Deadline /*deadline*/,
                      const proto::StatusRequest& /*request*/,
                      proto::StatusReply& reply) override {
    reply.set_name(name_);
    reply.set_version(kVersion);
    reply.set_pid(getpid());
    const std::scoped_lock lock(mutex_);
    reply.set_nf(waits_.empty() ? kManagerNf
                                : fmt::format("{} that does not lead: {}",
                                              kManagerNf, waits_));
    reply.set_policy("leases");
    reply.set_elapsed_ns((RealClock::Monotonic() - began_).ns);
    return absl::OkStatus();
  }
  // Takes the latest line of Leadership. Any thread.
  void TakePart(const std::string& line) {
    std::string_view why = line;
    if (why == Leadership::kLeads) why = {};
    for (const std::string_view what : {"waits: ", "no longer leads: "}) {
      if (why.starts_with(what)) why.remove_prefix(what.size());
    }
    const std::scoped_lock lock(mutex_);
    waits_ = why;
  }
  absl::Status Down(Deadline /*deadline*/,
                    const proto::DownRequest& /*request*/,
                    proto::DownReply& /*reply*/) override {
    LogLine(LogLevel::kInfo, "is told to stop");
    down_.store(true);
    return absl::OkStatus();
  }

#define SNF_NONE(name)                                                   \
  absl::Status name(Deadline /*deadline*/,                               \
                    const proto::name##Request& /*request*/,             \
                    proto::name##Reply& /*reply*/) override {            \
    return absl::FailedPreconditionError(                                \
        "a resource manager has no packets, flows or settings; see snf " \
        "leases");                                                       \
  }
  SNF_NONE(Units)
  SNF_NONE(Flows)
  SNF_NONE(Rules)
  SNF_NONE(Capture)
  SNF_NONE(Set)
  SNF_NONE(Drain)
  SNF_NONE(Kill)
  SNF_NONE(Chain)
  SNF_NONE(Upgrade)
#undef SNF_NONE

 private:
  const std::string name_;
  std::atomic<bool>& down_;
  const Instant began_;
  std::mutex mutex_;
  std::string waits_ ABSL_GUARDED_BY(mutex_);  // "": it leads
};

}  // namespace

StartManagerCommand::StartManagerCommand()
    : FlagCommand(
          {.summary = "start a resource manager for several daemons",
           .usage = "snf manager [--units=COUNT] [--unit_capacity=RATE] "
                    "[--name=NAME]",
           .about =
               "Starts a resource manager in the background. Daemons "
               "that are started with snf up --manager=NAME lease "
               "parts of its units, as their loads require. snf leases lists "
               "all leases. If the manager is killed, daemons keep their "
               "leases, and the next snf manager with the same flags recovers "
               "the leases from the daemons. snf down --name=NAME stops the "
               "manager and leaves the daemons running. With --etcd, several "
               "managers elect a leader, and another manager takes over if the "
               "leader dies or stands still. With --listen, daemons and "
               "managers are on several machines."}) {
  AddDaemonName(flags(), name_of_manager_);
  flags().Count("units", units_, 1, kMostUnits, "units that can be leased");
  flags().BitRate("unit_capacity", unit_capacity_bps_, kLeastCapacity,
                  kMostCapacity,
                  "rate that a unit of this machine can process");
  etcd_.AddTo(flags(),
              "servers of etcd, by which this manager and others of the same "
              "--cluster elect a leader, for daemons of snf up "
              "--manager=NAME,NAME. If not given, this manager leads");
  flags().Switch("hosts", hosts_,
                 "with --etcd: units run on the hosts that have joined the "
                 "cluster there (snf host join), on each as many as its own "
                 "--units, for daemons of snf up --etcd. --units is then the "
                 "most in all");
  flags().Text("listen", listen_, "tcp:HOST:PORT",
               "also serve daemons of other machines there, over TCP, which "
               "have certificates for the role admin that the authority of "
               "--tls has signed");
  flags().Text("tls", tls_, "DIRECTORY",
               "with --listen: directory with the certificates of both ends, "
               "made by snf cert");
  flags().Duration("member_term", member_term_, Seconds(3), Seconds(3'600),
                   "a daemon of another machine that is not heard of for this "
                   "time counts as dead: its leases end");
  flags().Duration("leader_term", leader_term_, Seconds(1), Seconds(60),
                   "time without a renewal after which another manager leads; "
                   "etcd rounds the time up to whole seconds, 2s at least by "
                   "its defaults");
  flags().Switch(
      "foreground", foreground_,
      "stay in the foreground, and notify systemd once the manager is ready");
  flags().Text("log", log_, "FILE",
               "append the log to FILE (- is stderr). Without this flag: "
               "stderr with --foreground, otherwise a file beside the control "
               "socket, which is removed at a normal end");
  flags().Switch("log_json", log_json_, "write each line of the log as JSON");
  flags().Choice("log_level", log_level_,
                 {{"debug", "all"},
                  {"info", "joins and leaves of daemons"},
                  {"warning", "problems"},
                  {"error", "errors that end the manager"}},
                 "what is logged:");
}

LogOptions StartManagerCommand::LogOf(const DaemonFiles& files) const {
  LogOptions log = {.file = log_,
                    .json = log_json_,
                    .level = LogLevel{static_cast<uint8_t>(log_level_)}};
  if (log.file.empty()) log.file = foreground_ ? "-" : files.log;
  return log;
}

absl::Status StartManagerCommand::Run() {
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(name_of_manager_);
  if (!files.ok()) return files.status();
  if (!foreground_ && log_ == "-") {
    return absl::InvalidArgumentError(
        "--log=- needs --foreground: a manager in the background has no "
        "terminal");
  }
  for (const char* const flag : {"leader_term", "cluster", "etcd_user",
                                 "etcd_password_file", "etcd_tls"}) {
    if (etcd_.is_given() || !flags().given(flag)) continue;
    return absl::InvalidArgumentError(fmt::format("--{}: wants --etcd", flag));
  }
  if (absl::Status s = CheckFlags(); !s.ok()) return s;
  if (foreground_) return Serve(*files);
  const absl::StatusOr<std::optional<int>> begun = Background::Begin();
  if (!begun.ok()) return begun.status();
  if (!begun->has_value()) return Serve(*files);
  set_exit_code(ExitCode{**begun});
  if (**begun == kExitOk) TellReady(*files);
  return absl::OkStatus();
}

absl::Status StartManagerCommand::CheckFlags() const {
  if (hosts_ && !etcd_.is_given()) {
    return absl::InvalidArgumentError("--hosts: wants --etcd");
  }
  if (hosts_ && units_ > RealOptions::kMaxUnitProcesses) {
    return absl::InvalidArgumentError(
        fmt::format("--units={}: with --hosts at most {}, for a daemon has a "
                    "process for each unit",
                    units_, RealOptions::kMaxUnitProcesses));
  }
  return Port().status();
}

absl::StatusOr<std::optional<LeasePort>> StartManagerCommand::Port() const {
  if (listen_.empty() && tls_.empty()) return std::nullopt;
  if (listen_.empty())
    return absl::InvalidArgumentError("--tls: wants --listen");
  const auto address = ParseTcpAddress(listen_);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--listen: {}", std::string(address.status().message())));
  }
  if (tls_.empty()) {
    return absl::InvalidArgumentError(
        "--listen: over TCP both ends need certificates: add --tls=DIRECTORY, "
        "made by snf cert");
  }
  auto files = ReadTlsFiles(tls_, TlsEnd::kServer);
  if (!files.ok()) return files.status();
  return LeasePort{
      .address = {.target = address->text(),
                  .tls = LeaseTls{.authority = std::move(files->authority),
                                  .certificate = std::move(files->certificate),
                                  .key = std::move(files->key)}},
      .may_call = [](std::span<const std::string> uris) {
        return RoleOf(uris) == ClientRole::kAdmin;
      }};
}

absl::StatusOr<std::unique_ptr<HostWatch>> StartManagerCommand::WatchHosts()
    const {
  auto client = etcd_.Client();
  if (!client.ok()) return client.status();
  return HostWatch::Start(
      *std::move(client),
      {.cluster = etcd_.cluster(), .version = kVersion, .notice = LogNotice});
}

// In the parent of a manager in the background.
void StartManagerCommand::TellReady(const DaemonFiles& files) const {
  const absl::StatusOr<pid_t> pid = PidOf(files);
  fmt::print(
      "\"{0}\" is a resource manager of {1} of {2}, as process {3}.\n"
      "To lease units: snf up --manager={0} --name=OTHER …; to list the "
      "leases: snf leases --name={0}; to stop it: snf down --name={0}\n",
      files.name, Plural(units_, "unit"), FormatBitRate(unit_capacity_bps_),
      pid.ok() ? *pid : 0);
}

absl::Status StartManagerCommand::Serve(const DaemonFiles& files) {
  static FirstInterrupt interrupt;
  const LogOptions log = LogOf(files);
  EndCleanlyWhenInterrupted(name(), &interrupt, [file = log.file](int) {
    ReopenLog();
    Background::ReopenErrors(file);
  });
  interrupt.is_awaited = true;
  absl::StatusOr<DaemonLock> lock = DaemonLock::Take(files);
  if (!lock.ok()) return lock.status();
  if (absl::Status s = OpenLog(log); !s.ok()) return s;
  ManagerControl control(files.name, interrupt.came);
  auto control_server =
      ControlServer::Start(files.socket, std::nullopt, control);
  if (!control_server.ok()) return control_server.status();
  const auto say_ready = [&log] {
    Background::SayReady(log.file);
    NotifySystemd(fmt::format("MAINPID={}\nREADY=1", getpid()).c_str());
  };
  const absl::Status served =
      etcd_.is_given()
          ? Stand(
                files, interrupt.came,
                [&control](const std::string& line) { control.TakePart(line); },
                say_ready)
          : Lead(files, {}, say_ready, [] { return !interrupt.came.load(); });
  if (!served.ok()) return served;
  NotifySystemd("STOPPING=1");
  control_server->reset();
  const int signal = interrupt.signal;
  LogLine(LogLevel::kInfo,
          signal == 0 ? "has ended"
                      : fmt::format("has ended, by {}", NameOfSignal(signal)));
  if (log.file == files.log) unlink(files.log.c_str());
  return absl::OkStatus();
}

// Serves while `goes_on`.
absl::Status StartManagerCommand::Lead(const DaemonFiles& files,
                                       const Election& election,
                                       const std::function<void()>& say_ready,
                                       const std::function<bool()>& goes_on) {
  auto desk = ManagerDesk::Start({.name = files.name,
                                  .units = units_,
                                  .unit_capacity_bps = unit_capacity_bps_,
                                  .member_term = member_term_,
                                  .follows_hosts = hosts_,
                                  .file = files.members,
                                  .notes = election.notes,
                                  .may_serve = election.may_serve,
                                  .notice = LogNotice});
  if (!desk.ok()) return desk.status();
  const auto port = Port();
  if (!port.ok()) return port.status();
  auto server = LeaseServer::Start(files.leases, **desk, *port);
  if (!server.ok()) return server.status();
  std::unique_ptr<HostWatch> watch;
  if (hosts_) {
    auto watches = WatchHosts();
    if (!watches.ok()) return watches.status();
    watch = *std::move(watches);
  }
  LogLine(LogLevel::kInfo,
          fmt::format("manages {} of {} bit/s", Plural(units_, "unit"),
                      unit_capacity_bps_));
  say_ready();
  uint64_t version = 0;  // of hosts, as the desk knows them
  while (goes_on()) {
    if (watch != nullptr && watch->version() != version) {
      version = watch->version();
      (*desk)->SetHosts(UnitHostsOf(*watch));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  server->reset();
  desk->reset();
  return absl::OkStatus();
}

// Leads whenever this manager is elected, until `ends`.
absl::Status StartManagerCommand::Stand(
    const DaemonFiles& files, const std::atomic<bool>& ends,
    const std::function<void(const std::string&)>& tell_part,
    const std::function<void()>& say_ready) {
  auto options = etcd_.Options();
  if (!options.ok()) return options.status();
  // If a renewal fails at one server, another server answers in time.
  options->attempt = {leader_term_.ns / 4};
  options->patience = leader_term_;
  const auto client = EtcdClient::Create(*options);
  if (!client.ok()) return client.status();
  const std::string keys = "/snf/" + etcd_.cluster() + "/manager/";
  tell_part("etcd has not answered yet");
  Leadership leadership(
      **client,
      {.key = keys + "leader",
       .value = fmt::format("{}, process {}, version {}", files.name, getpid(),
                            kVersion),
       .term = leader_term_,
       .notice = [&tell_part](bool is_warning, const std::string& line) {
         tell_part(line);
         LogNotice(is_warning, line);
       }});
  EtcdNotes notes(**client, leadership, keys + "members", files.members);
  say_ready();
  while (!ends.load()) {
    // A manager that is elected again begins again: others may have led.
    const int64_t elected = leadership.condition().mod_revision;
    const auto leads = [&leadership, elected] {
      return leadership.is_leader() &&
             leadership.condition().mod_revision == elected;
    };
    if (!leads()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const absl::Status led = Lead(
        files, {.notes = &notes, .may_serve = leads}, [] {},
        [&] { return !ends.load() && leads(); });
    notes.Remove();
    if (!led.ok() && leads()) return led;
  }
  return absl::OkStatus();
}

}  // namespace snf
