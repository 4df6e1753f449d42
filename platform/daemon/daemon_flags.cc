// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/daemon_flags.h"

#include <fmt/format.h>

#include <utility>

#include "absl/status/statusor.h"
#include "base/messages/controller_counts.h"
#include "base/tunnels/geneve.h"
#include "platform/control/daemon_command.h"
#include "platform/daemon/group/group_link.h"
#include "platform/daemon/group/group_membership.h"
#include "platform/ports/steering.h"
#include "platform/service/tls_files.h"
#include "resource_manager/launch/container_method.h"

namespace snf {

DaemonFlags::DaemonFlags(FlagSet& flags)
    : run(flags, RunFlags::Input::kPorts), flags_(flags) {
  flags.Heading("The daemon");
  AddDaemonName(flags, name).is_of_command = true;
  flags
      .Count("controllers", controllers, 1, kMostAtPorts,
             "daemons that share the ports, NAME.0 and so on, each with "
             "--controller; daemons that run already are left alone")
      .is_of_command = true;
  flags
      .Count("units", units, 0, kMaxUnits,
             "units of a resource manager, NAME, which is started with "
             "--controllers. Each unit has --unit_capacity, and the daemons "
             "lease them by their load; 0: each has --max_units of its "
             "own")
      .is_of_command = true;
  tls_.AddTo(flags,
             "serve the control service also there, over TCP, for clients with "
             "a certificate that the authority of --tls has signed");
  flags.Text("manager", manager, "NAME|tcp:HOST:PORT",
             "lease units of the resource manager of that name, which snf "
             "manager has started, or of another machine's, at its --listen, "
             "as the load needs; NAME,NAME: of the leader of several (snf "
             "manager --etcd). Its --units and --unit_capacity are this "
             "daemon's");
  flags.Text("manager_tls", manager_tls, "DIRECTORY",
             "with --manager=tcp:HOST:PORT: directory with the certificates of "
             "both ends, made by snf cert --role=admin");
  etcd.AddTo(flags,
             "servers of etcd: units run on the hosts that have joined the "
             "cluster there (snf host join), in place of --host. Hosts may "
             "join and leave; with --loggers=on and --isolation=process or "
             "lxc. With --manager: units that the manager leases (snf manager "
             "--hosts) run there. With --group: servers that keep the group; "
             "units run on "
             "this host, unless --own_units or --host_wire is given");
  flags.Count("own_units", own_units, 1, RealOptions::kMaxUnitProcesses,
              "with --etcd: units that run on this host; all others run on "
              "hosts that have joined. With --group this flag says that units "
              "run there, and each controller has a part of each host's units");
  flags.Choice("host_wire", host_wire,
               {{"tcp", "a connection for each process of units"},
                {"geneve",
                 "GENEVE over UDP, unencrypted; hosts that have joined without "
                 "--geneve get no units"}},
               "with --etcd: the way on which packets and state go to hosts:");
  flags.Text("group", group, "NAME",
             "with --controller and --etcd: join the group of that name, whose "
             "table in etcd says which controllers live. If one is killed, "
             "stands still or is cut off, the others take over its hosts. All "
             "have the same --nf");
  flags.Text("group_address", group_address, "ADDRESS:PORT",
             "with --group: controllers run on several machines, each with "
             "ports of its own that take all frames. Frames of another "
             "controller's hosts are sent to its address, unencrypted, by "
             "GENEVE over UDP. This flag says where this controller takes "
             "them. Without it the controllers share the ports of one machine");
  flags.Text("group_tls", group_tls, "DIRECTORY",
             "with --group_address: encrypt the states of flows on their way "
             "between members. The directory has ca.crt, and server and client "
             "files of snf cert --role=admin --host=ADDRESS. All members have "
             "it, or none");
  flags.Duration("takeover", takeover, Milliseconds(200), Seconds(60),
                 "with --group: a controller that etcd has not heard of for "
                 "this time loses its hosts to others");
  flags
      .Switch("upgrade", upgrade,
              "take the place of the daemon of this name, with the same "
              "--port, while packets go through. Flows stay with the daemon "
              "that they began with, and the predecessor ends with the last "
              "of its flows. With --controllers: of each daemon, one after "
              "the other. With --group: the flows move to this daemon, and the "
              "predecessor ends at once")
      .is_of_command = true;
  flags
      .DurationOrInfinity(
          "within", within, Nanos{},
          "with --upgrade: after this time, flows that the predecessor "
          "still has restart at this daemon")
      .is_of_command = true;
  flags.Duration(
      "keep", keep, Nanos{}, Seconds(3'600),
      "if the daemon is killed, the processes of its units and loggers wait "
      "for "
      "this time for the next snf up with the same flags. It takes over their "
      "flows and the chains that were set; 0s: they end with the daemon");
  flags.Duration(
      "bypass", bypass, Nanos{}, Seconds(3'600),
      "if the daemon dies without a clean end and no other one has the ports "
      "within this time, packets pass between the ports as they are, without "
      "any NF: no firewall, no translation (fail open). They do until the next "
      "snf up or snf down of the name; 0s: none passes (fail closed). With one "
      "inside and one outside port, both packet sockets without an address");
  flags
      .Switch("foreground", foreground,
              "stay in the foreground, and tell systemd when it is ready")
      .is_of_command = true;
  flags.Text("log", log, "FILE",
             "append the log to FILE (- is stderr). If not given, it is "
             "stderr in the foreground; else a file beside the control "
             "socket, which the daemon removes if it ends well");
  flags.Switch("log_json", log_json, "each line of the log is JSON");
  flags.Choice("log_level", log_level,
               {{"debug", "also starts of units"},
                {"info", "what is asked of the daemon"},
                {"warning", "what is wrong"},
                {"error", "what ends it"}},
               "what is logged:");
}

absl::Status DaemonFlags::ChoosePorts(bool looks) {
  if (flags_.given("port")) return absl::OkStatus();
  auto names = DaemonNetwork::Names::Of(name);
  if (!names.ok()) return names.status();
  network = *std::move(names);
  flags_.Give("port",
              {"inside=" + network->inside, "outside=" + network->outside});
  if (flags_.given("isolation")) return absl::OkStatus();
  const absl::Status containers =
      looks ? ContainerMethod::Check() : absl::OkStatus();
  no_containers = std::string(containers.message());
  flags_.Give("isolation", {containers.ok() ? "lxc" : "process"});
  return absl::OkStatus();
}

absl::Status DaemonFlags::Check() {
  run.HaveOwnPorts(!group_address.empty());
  absl::Status status = ChoosePorts(false);
  if (status.ok()) status = run.Settle();
  if (status.ok()) status = CheckTogether();
  return run.Placed(status);
}

absl::Status DaemonFlags::Settle() {
  run.HaveOwnPorts(!group_address.empty());
  if (!manager.empty()) {
    membership.emplace(
        ManagerMembership::Options{.manager = manager,
                                   .tls = manager_tls,
                                   .daemon = name,
                                   .follows_hosts = places_units()});
  }
  absl::Status status = ChoosePorts(true);
  if (status.ok() && membership.has_value()) {
    status = membership->Settle(flags_, upgrade);
  }
  if (status.ok()) status = run.Settle();
  if (status.ok()) status = CheckTogether();
  if (status.ok()) status = CheckBackground();
  if (!status.ok()) return run.Placed(status);
  auto endpoint = tls_.Endpoint(TlsEnd::kServer);
  if (!endpoint.ok()) return endpoint.status();
  tcp = *std::move(endpoint);
  return absl::OkStatus();
}

absl::Status DaemonFlags::CheckTogether() const {
  if (units > 0) {
    return absl::InvalidArgumentError(
        "--units: only --controllers has that; a single daemon has "
        "--max_units");
  }
  if (flags_.given("within") && !upgrade) {
    return absl::InvalidArgumentError("--within: only --upgrade has that");
  }
  const RunRequest& options = run.options();
  if (!manager_tls.empty() && manager.empty()) {
    return absl::InvalidArgumentError("--manager_tls: wants --manager");
  }
  if (absl::Status s = CheckGroup(); !s.ok()) return s;
  if (absl::Status s = CheckEtcd(); !s.ok()) return s;
  if (absl::Status s = CheckBypass(); !s.ok()) return s;
  if (keep.ns > 0 && options.real.isolation == Isolation::kThread) {
    return absl::InvalidArgumentError(
        "--keep: wants --isolation=process or lxc: threads end with the "
        "daemon");
  }
  if (keep.ns > 0 && !options.run.loggers) {
    return absl::InvalidArgumentError("--keep: wants --loggers=on");
  }
  if (!options.has_one_chain() && controllers > 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: --controllers is for one chain without rules",
                    options.config_file));
  }
  if (membership.has_value()) {
    if (absl::Status s = membership->CheckChains(options); !s.ok()) return s;
    if (!options.has_one_chain() && keep.ns > 0) {
      return absl::InvalidArgumentError(
          "--keep: with --manager only for one chain without rules");
    }
  }
  const bool is_of_several = options.controller.count > 1;
  if (is_of_several && network.has_value()) {
    return absl::InvalidArgumentError(
        "--controller: wants --port, which controllers share");
  }
  if (keep.ns > 0 && upgrade) {
    return absl::InvalidArgumentError(
        "--keep: is not for --upgrade; with --keep=0s an upgrade works, and "
        "flows are then not kept if the new daemon is killed");
  }
  return absl::OkStatus();
}

absl::Status DaemonFlags::CheckBypass() const {
  if (bypass.ns == 0) return absl::OkStatus();
  const auto refuse = [](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("--bypass: {}", why));
  };
  const RunRequest& options = run.options();
  if (controllers > 1 || options.controller.count > 1) {
    return refuse("is not for --controllers, of which each has some frames");
  }
  if (upgrade) {
    return refuse(
        "is not for --upgrade: two daemons have the ports until the "
        "predecessor ends");
  }
  if (network.has_value()) {
    return refuse("wants --port: networks that are made end with the daemon");
  }
  for (const PortSpec& port : options.ports) {
    if (port.kind != PortSpec::Kind::kPacket || port.router.is_routed()) {
      return refuse(fmt::format(
          "--port={}: wants packet sockets without an address", port.text()));
    }
  }
  if (options.ports.size() != 2) {
    return refuse("wants one inside and one outside port");
  }
  return absl::OkStatus();
}

absl::Status DaemonFlags::CheckGroup() const {
  const auto refuse = [](const std::string& why) {
    return absl::InvalidArgumentError(why);
  };
  if (group.empty()) {
    for (const char* const flag : {"group_address", "group_tls", "takeover"}) {
      if (!flags_.given(flag)) continue;
      return refuse(fmt::format("--{}: wants --group", flag));
    }
    return absl::OkStatus();
  }
  if (!etcd.is_given()) return refuse("--group: wants --etcd, which keeps it");
  if (run.options().controller.count < 2) {
    return refuse("--group: wants --controller=I/N, with N of 2 or more");
  }
  if (upgrade && places_units()) {
    return refuse(
        "--upgrade: is not for --group with --own_units or --host_wire; end "
        "the controller, and start the other program");
  }
  if (within != Nanos::max()) {
    return refuse(
        "--within: is not for --group, where all flows go to the new program");
  }
  if (group_address.empty()) {
    for (const PortSpec& port : run.options().ports) {
      if (!port.router.is_routed()) continue;
      return refuse(fmt::format(
          "--group: with --port {}: members share ports without addresses "
          "alone; want --group_address",
          port.text()));
    }
  }
  if (!group_address.empty()) {
    if (absl::Status s = GroupLink::Check(group_address); !s.ok()) {
      return refuse(
          fmt::format("--group_address: {}", std::string(s.message())));
    }
    const bool is_of_hosts =
        group_address.ends_with(fmt::format(":{}", kGenevePort));
    if (is_of_hosts && host_wire == HostWire::kGeneve) {
      return refuse(fmt::format(
          "--group_address: UDP port {} is that of --host_wire=geneve",
          kGenevePort));
    }
  }
  if (absl::Status s = CheckGroupTls(); !s.ok()) return s;
  const absl::Status named = GroupMembership::CheckName(group);
  if (!named.ok()) {
    return refuse(fmt::format("--group: {}", std::string(named.message())));
  }
  return etcd.Options().status();
}

absl::Status DaemonFlags::CheckGroupTls() const {
  if (group_tls.empty()) return absl::OkStatus();
  if (group_address.empty()) {
    return absl::InvalidArgumentError(
        "--group_tls: wants --group_address; members of one machine do not "
        "encrypt");
  }
  for (const TlsEnd end : {TlsEnd::kServer, TlsEnd::kClient}) {
    const auto files = ReadTlsFiles(group_tls, end);
    if (files.ok()) continue;
    return absl::Status(
        files.status().code(),
        fmt::format("--group_tls: {}", std::string(files.status().message())));
  }
  return absl::OkStatus();
}

bool DaemonFlags::places_units() const {
  return etcd.is_given() && (group.empty() || flags_.given("own_units") ||
                             flags_.given("host_wire"));
}

absl::Status DaemonFlags::CheckEtcd() const {
  if (!etcd.is_given()) {
    if (flags_.given("own_units")) {
      return absl::InvalidArgumentError(
          "--own_units: wants --etcd; without it --host says where units run");
    }
    if (flags_.given("host_wire")) {
      return absl::InvalidArgumentError(
          "--host_wire: wants --etcd; without it --host says wire=geneve");
    }
    return absl::OkStatus();
  }
  if (!places_units()) return absl::OkStatus();
  const RunRequest& options = run.options();
  const std::pair<bool, const char*> conflicts[] = {
      {!options.real.hosts.empty(), "--host, which names hosts for good"},
      {options.real.isolation == Isolation::kThread,
       "--isolation=thread: threads stay in one process"},
      {!options.run.loggers,
       "--loggers=off: without loggers, a lost host loses state"},
      {options.controller.count > 1 && group.empty(),
       "--controller without --group: hosts of units are one daemon's"},
      {options.real.pin, "--pin, which pins to CPUs of this host"},
      {flags_.given("threads"), "--threads: then processes do not come and go"},
      {keep.ns > 0, "--keep: then processes do not come and go"},
      {!manager.empty() && options.controller.count > 1,
       "--manager of controllers that share ports"},
      {!manager.empty() && flags_.given("own_units"),
       "--manager: all units of a resource manager run on hosts that have "
       "joined"},
      {!manager.empty() && host_wire == HostWire::kGeneve,
       "--manager and --host_wire=geneve"},
      {!manager.empty() && !options.has_one_chain(),
       "--manager and several chains"}};
  // In a group, --etcd alone places no units.
  const char* const placing =
      group.empty() ? "etcd"
                    : (flags_.given("own_units") ? "own_units" : "host_wire");
  for (const auto& [is_there, why] : conflicts) {
    if (is_there) {
      return absl::InvalidArgumentError(
          fmt::format("--{}: is not for {}", placing, why));
    }
  }
  if (host_wire == HostWire::kGeneve && !options.real.hosts.tls().empty()) {
    return absl::InvalidArgumentError(
        "--host_tls: does not go with --host_wire=geneve, which encrypts "
        "nothing");
  }
  return etcd.Options().status();
}

absl::Status DaemonFlags::CheckBackground() const {
  if (foreground) return absl::OkStatus();
  const auto refuse = [](const char* flag) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a daemon in the background has no terminal; with "
                    "--foreground it has",
                    flag));
  };
  if (run.options().watch) return refuse("--watch");
  if (log == "-") return refuse("--log=-");
  for (const std::string& file : {run.options().json, run.options().out}) {
    if (file == "-") return refuse("a file named -");
  }
  return absl::OkStatus();
}

}  // namespace snf
