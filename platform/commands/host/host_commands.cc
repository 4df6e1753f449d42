// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/host/host_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/quantity.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "base/version.h"
#include "platform/commands/host/host_command.h"
#include "platform/control/control_text.h"
#include "platform/drivers/loops/host_agent.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/hosts/host_place.h"
#include "platform/hosts/host_stream.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/command_group.h"
#include "platform/process/exit_code.h"
#include "platform/service/background.h"
#include "resource_manager/etcd/host_follower.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

class HostJoinCommand final : public HostCommand {
 public:
  HostJoinCommand()
      : HostCommand(
            {.summary = "make this machine a host of a cluster",
             .usage = "snf host join NAME --etcd=HOST:PORT,… "
                      "--address=ADDRESS:PORT [--units=COUNT]",
             .about =
                 "Enters this machine into the cluster's hosts, and renews the "
                 "entry until Ctrl-C, SIGTERM or snf host leave. If this "
                 "command is killed, or no longer reaches etcd, the entry ends "
                 "after --term. A second host of the same name is refused, and "
                 "a host of another version of SNF than the others."}) {
    flags().Argument("NAME", name_of_host_);
    AddEtcd();
    flags().Text("address", address_, "ADDRESS:PORT",
                 "address at which other hosts reach this host's agent, as "
                 "--listen of snf host serve says");
    capacity_.AddTo(flags(),
                    "the host's agent runs with --geneve, so that daemons with "
                    "--host_wire=geneve may use the host");
  }

 private:
  absl::Status Run() override {
    if (address_.empty()) {
      return absl::InvalidArgumentError(
          "--address: is missing; as --address=192.0.2.1:7000");
    }
    if (absl::Status s = CheckEntry(name_of_host_, "address", address_);
        !s.ok()) {
      return s;
    }
    // Before etcd's client has threads.
    static FirstInterrupt interrupt;
    EndCleanlyWhenInterrupted(name(), &interrupt);
    absl::StatusOr<HostRegistry> registry = Registry();
    if (!registry.ok()) return registry.status();
    interrupt.is_awaited = true;
    proto::Host host;
    host.set_name(name_of_host_);
    host.set_address(address_);
    host.set_version(kVersion);
    host.set_units(capacity_.units);
    host.set_unit_capacity_bps(capacity_.unit_capacity_bps);
    host.set_pid(getpid());
    host.set_geneve(capacity_.geneve);
    auto joined = registry->Join(host, capacity_.term);
    if (!joined.ok()) return joined.status();
    Tell(fmt::format("host \"{}\" has joined cluster \"{}\", with {} of {}",
                     name_of_host_, cluster(), Plural(capacity_.units, "unit"),
                     FormatBitRate(capacity_.unit_capacity_bps)));
    NotifySystemd("READY=1");
    return Stay(**joined, interrupt.came);
  }

  absl::Status Stay(JoinedHost& host, const std::atomic<bool>& ends) {
    Instant due = RealClock::Monotonic() + host.beat();
    bool is_lost = false;
    while (!ends.load()) {
      if (RealClock::Monotonic() < due) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      due = RealClock::Monotonic() + host.beat();
      const absl::StatusOr<JoinedHost::State> state = host.Beat();
      if (!state.ok() && !absl::IsUnavailable(state.status())) {
        return state.status();
      }
      if (state.ok() && *state == JoinedHost::State::kRemoved) {
        Tell(fmt::format("host \"{}\" was removed from cluster \"{}\"",
                         name_of_host_, cluster()));
        return absl::OkStatus();
      }
      if (!state.ok() && !std::exchange(is_lost, true)) {
        Tell(fmt::format("retries: {}", std::string(state.status().message())));
      } else if (state.ok() && std::exchange(is_lost, false)) {
        Tell("etcd answers again");
      }
      if (state.ok() && *state == JoinedHost::State::kJoinedAgain) {
        Tell(fmt::format("host \"{}\" was silent for {}, and has joined again",
                         name_of_host_, FormatDuration(host.term())));
      }
    }
    NotifySystemd("STOPPING=1");
    return host.Leave();
  }

  static void Tell(const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  std::string name_of_host_;
  std::string address_;
  HostCapacity capacity_;
};

class HostLeaveCommand final : public HostCommand {
 public:
  HostLeaveCommand()
      : HostCommand({.summary = "remove a host from a cluster",
                     .usage = "snf host leave NAME --etcd=HOST:PORT,…",
                     .about = "Removes a host from the cluster's hosts. The "
                              "snf host join of that host then ends."}) {
    flags().Argument("NAME", name_of_host_);
    AddEtcd();
  }

 private:
  absl::Status Run() override {
    absl::StatusOr<HostRegistry> registry = Registry();
    if (!registry.ok()) return registry.status();
    const absl::Status removed = registry->Remove(name_of_host_);
    if (absl::IsNotFound(removed)) {
      return absl::FailedPreconditionError(removed.message());
    }
    return removed;
  }

  std::string name_of_host_;
};

class HostListCommand final : public HostCommand {
 public:
  HostListCommand()
      : HostCommand(
            {.summary = "list the hosts of a cluster",
             .usage = "snf host list --etcd=HOST:PORT,… [--json] [--follow]",
             .about = "Lists the hosts of a cluster: name, address, version, "
                      "capacity, and the time since the last heartbeat by "
                      "etcd's clock. With --follow: a line for each of these "
                      "hosts, and for each host that joins or leaves, until "
                      "Ctrl-C or SIGTERM."}) {
    AddEtcd();
    flags().Switch("json", json_, "print a JSON object on one line");
    flags().Switch("follow", follow_,
                   "go on, with a line for each host that joins or leaves");
  }

 private:
  absl::Status Run() override {
    if (follow_) return Follow();
    absl::StatusOr<HostRegistry> registry = Registry();
    if (!registry.ok()) return registry.status();
    const absl::StatusOr<proto::HostList> list = registry->List();
    if (!list.ok()) return list.status();
    if (json_) {
      fmt::print("{}\n", JsonOf(*list));
      return absl::OkStatus();
    }
    if (list->host_size() == 0) {
      fmt::print("cluster \"{}\" has no hosts\n", cluster());
      return absl::OkStatus();
    }
    fmt::print("{:<16} {:<24} {:<10} {:>5}  {:<12} {:<12} {}\n", "host",
               "address", "version", "units", "of", "wires", "heard");
    for (const proto::ListedHost& listed : list->host()) Print(listed);
    return absl::OkStatus();
  }

  absl::Status Follow() {
    // Before etcd's client has threads.
    static FirstInterrupt interrupt;
    EndCleanlyWhenInterrupted(name(), &interrupt);
    absl::StatusOr<HostRegistry> registry = Registry();
    if (!registry.ok()) return registry.status();
    // A watch tries again for ever, without a word: the list names what is
    // wrong.
    if (const auto list = registry->List(); !list.ok()) return list.status();
    interrupt.is_awaited = true;
    std::atomic<int> failure = 0;  // of the output
    HostFollower follower([this, &failure](const HostFollower::Change& change) {
      if (failure.load() == 0) failure.store(Tell(change));
    });
    const auto watch = client().Watch(registry->prefix(), follower);
    while (!interrupt.came.load() && failure.load() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (failure.load() == 0) return absl::OkStatus();
    return absl::DataLossError(
        fmt::format("stdout: {}", std::strerror(failure.load())));
  }

  // Returns errno if the output fails, else 0.
  int Tell(const HostFollower::Change& change) const {
    if (!change.host.ok()) {
      PrintOnStderr("snf host list: {}\n",
                    std::string(change.host.status().message()));
      return 0;
    }
    if (json_) {
      proto::Host host = *change.host;
      host.set_name(change.name);
      fmt::print("{{\"{}\":{}}}\n", change.is_joined ? "joined" : "left",
                 JsonOf(host));
    } else if (change.is_joined) {
      fmt::print("host \"{}\" has joined, at {}, with {} of {}\n",
                 Printable(change.name), Printable(change.host->address()),
                 Plural(change.host->units(), "unit"),
                 FormatBitRate(change.host->unit_capacity_bps()));
    } else {
      fmt::print("host \"{}\" has left\n", Printable(change.name));
    }
    return std::fflush(stdout) == 0 ? 0 : errno;
  }

  static void Print(const proto::ListedHost& listed) {
    const proto::Host& host = listed.host();
    fmt::print("{:<16} {:<24} {:<10} {:>5}  {:<12} {:<12} {} s ago\n",
               Printable(host.name()), Printable(host.address()),
               Printable(host.version()), host.units(),
               FormatBitRate(host.unit_capacity_bps()),
               host.geneve() ? "tcp, geneve" : "tcp", listed.heard_s_ago());
  }

  bool json_ = false;
  bool follow_ = false;
};

// Runs the agent of this host.
class HostServeCommand final : public FlagCommand {
 public:
  HostServeCommand()
      : FlagCommand(
            {.summary = "run units for daemons of other hosts",
             .usage = "snf host serve --listen=ADDRESS:PORT "
                      "[--from=ADDRESS,…] [--tls=DIRECTORY | --geneve]",
             .about =
                 "Starts processes of units for daemons that name this host "
                 "with --host, until Ctrl-C or SIGTERM. Each process ends with "
                 "its daemon, or if the daemon is silent for 1.5 s. Files that "
                 "an NF names are read on this host, under the same path. The "
                 "daemon must run the same program. Without --tls the "
                 "connection is not encrypted, and any user at an address of "
                 "--from may run NFs here, as this user."}) {
    flags().Text("listen", listen_, "ADDRESS:PORT",
                 "address at which daemons connect; port 0 is any free one, "
                 "which is printed");
    flags().Text("from", from_, "ADDRESS,…",
                 "addresses of the daemons' hosts; all others are refused");
    flags().Text("tls", tls_, "DIRECTORY",
                 "encrypt: with ca.crt, server.crt and server.key of this "
                 "directory, as snf cert --host=ADDRESS makes them; daemons "
                 "need a certificate with the role admin");
    flags().Switch("geneve", geneve_,
                   "let daemons ask for wire=geneve, or --host_wire=geneve: "
                   "opens UDP port 6081 at the address of --listen. Nothing is "
                   "encrypted then");
  }

 private:
  absl::Status Run() override {
    if (listen_.empty()) {
      return absl::InvalidArgumentError(
          "--listen: is missing; as --listen=192.0.2.2:7000");
    }
    const auto from = ReadFrom(from_);
    if (!from.ok()) return from.status();
    if (geneve_ && !tls_.empty()) {
      return absl::InvalidArgumentError(
          "--geneve: does not go with --tls, since GENEVE encrypts nothing");
    }
    if (!tls_.empty()) {
      const auto files = ReadTlsFiles(tls_, TlsEnd::kServer);
      if (!files.ok()) return files.status();
    }
    return HostAgent({.listen = listen_,
                      .from = *from,
                      .geneve = geneve_,
                      .tls = tls_})
        .Serve([this](int socket, int memories) {
          return Session(socket, memories);
        });
  }

  // Reads the certificates again, since they may have been renewed.
  int Session(int socket, int memories) const {
    if (tls_.empty())
      return ServeHostSession(socket, memories, nullptr, geneve_);
    const auto files = ReadTlsFiles(tls_, TlsEnd::kServer);
    if (files.ok()) {
      return ServeHostSession(socket, memories, &*files, geneve_);
    }
    PrintOnStderr("daemon at {} was refused: {}\n",
                  HostStream::AddressOf(socket, true),
                  std::string(files.status().message()));
    std::fflush(stderr);
    return kExitUnavailable;
  }

  std::string listen_;
  std::string from_ = "127.0.0.1";
  std::string tls_;
  bool geneve_ = false;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadFrom(const std::string& from) {
  auto addresses = HostAgent::ParseFrom(from);
  if (addresses.ok()) return addresses;
  return absl::InvalidArgumentError(
      fmt::format("--from: {}", std::string(addresses.status().message())));
}

absl::Status CheckEntry(const std::string& name, const char* flag,
                        const std::string& address) {
  if (absl::Status s = HostPlace::CheckName(name); !s.ok()) return s;
  const absl::Status s = HostPlace::CheckAddress(address);
  if (s.ok()) return s;
  return absl::InvalidArgumentError(
      fmt::format("--{}: {}", flag, std::string(s.message())));
}

std::unique_ptr<Command> CreateHostCommand() {
  return std::make_unique<CommandGroup>(
      "join, leave, list, serve as and launch the hosts of a cluster",
      "Keeps the hosts of a cluster in etcd, runs units of other hosts, and "
      "launches hosts by LXD.",
      CommandTable{{"join", CreateCommand<HostJoinCommand>},
                   {"leave", CreateCommand<HostLeaveCommand>},
                   {"list", CreateCommand<HostListCommand>},
                   {"serve", CreateCommand<HostServeCommand>},
                   {"run", CreateHostRunCommand},
                   {"image", CreateHostImageCommand},
                   {"launch", CreateHostLaunchCommand},
                   {"launched", CreateHostLaunchedCommand},
                   {"stop", CreateHostStopCommand}});
}

}  // namespace snf
