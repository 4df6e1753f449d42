// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/packet/ip_address_text.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "nlohmann/json.hpp"
#include "platform/commands/host/host_command.h"
#include "resource_manager/lxd/host_launch.h"
#include "resource_manager/lxd/lxd_client.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr uint32_t kMostHosts = 1'000;
// For a container's first process to start, and to join by etcd.
constexpr Nanos kJoinPatience = Seconds(30);
// For etcd to end a lease, after its term.
constexpr Nanos kTermMargin = Seconds(5);
constexpr auto kPause = std::chrono::milliseconds(100);
// snf host run needs 25 s at most to leave, to drain its units and to end.
constexpr Nanos kStopPatience = Seconds(30);

void Tell(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// Consecutive addresses of a network.
class AddressRange {
 public:
  // Reads "10.88.0.11/24".
  absl::Status Read(const std::string& text) {
    const size_t slash = text.find('/');
    const auto first = ParseIpv4(text.substr(0, slash));
    if (!first || slash == std::string::npos ||
        !absl::SimpleAtoi(text.substr(slash + 1), &bits_) || bits_ < 8 ||
        bits_ > 30) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is no IPv4 address with the 8 to 30 bits of its "
                      "network, as 10.88.0.11/24",
                      Printable(text)));
    }
    first_ = first->ipv4().host();
    if ((first_ & hosts()) == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is the network's own address: the first host's is wanted",
          Printable(text)));
    }
    text_ = text;
    return absl::OkStatus();
  }
  const std::string& text() const { return text_; }
  uint32_t bits() const { return bits_; }
  // Error: InvalidArgument, the network has no such address.
  absl::StatusOr<std::string> At(uint32_t index) const {
    if (index + uint64_t{first_ & hosts()} >= hosts()) {
      return absl::InvalidArgumentError(
          fmt::format("--address={}: the network has no {} addresses from "
                      "there on",
                      text_, index + 1));
    }
    return Ipv4Text(IpAddress::FromIpv4(be32(first_ + index)));
  }

 private:
  // Returns the host part of the broadcast address.
  uint32_t hosts() const { return (1U << (32 - bits_)) - 1; }

  std::string text_;
  uint32_t first_ = 0;
  uint32_t bits_ = 0;
};

// The errors of several hosts: a host's error does not keep the next host from
// its turn. All but the last are printed here; the command ends with the last.
class FailedHosts {
 public:
  explicit FailedHosts(std::string command) : command_(std::move(command)) {}
  void Add(absl::Status status) {
    if (status.ok()) return;
    if (!last_.ok()) {
      PrintOnStderr("{}: {}\n", command_, std::string(last_.message()));
    }
    last_ = std::move(status);
  }
  const absl::Status& Last() const { return last_; }

 private:
  const std::string command_;
  absl::Status last_;
};

class HostLaunchCommand final : public HostCommand {
 public:
  HostLaunchCommand()
      : HostCommand(
            {.summary = "let LXD start hosts of a cluster",
             .usage = "snf host launch NAME… --etcd=HOST:PORT,… "
                      "--address=ADDRESS/BITS --from=ADDRESS,… "
                      "[--target=MEMBER|@GROUP] [--profile=NAME,…] "
                      "[--units=COUNT]",
             .about =
                 "Lets LXD make containers of the image of snf host image, in "
                 "each of which only snf host run runs, and waits until "
                 "the hosts have joined. LXD places a container on a member of "
                 "its cluster, and starts it, once. If a host has ended, its "
                 "container is removed. Hosts that run are left alone, so this "
                 "command may be repeated to start what is missing. The entry "
                 "of a host that has crashed ends with its term, for which "
                 "this command waits. An "
                 "instance of LXD that is none of this cluster's is never "
                 "changed."}) {
    flags().Arguments("NAME", names_, 1);
    flags().Heading("The hosts");
    flags().Count("count", count_, 1, kMostHosts,
                  "hosts to launch of one NAME, as NAME-1, NAME-2, …");
    flags().Custom(
        "address", "ADDRESS/BITS",
        "IPv4 address of the first host, with the bits of its network; the "
        "next hosts have the next addresses",
        [this](const std::string& text) { return addresses_.Read(text); },
        [this] { return addresses_.text(); });
    flags().Text("gateway", gateway_, "ADDRESS",
                 "the hosts' way to other networks");
    flags().Port("port", port_, "port at which daemons connect to the hosts");
    flags().Text("from", from_, "ADDRESS,…",
                 "addresses of the daemons' hosts; all others are refused");
    capacity_.AddTo(flags(),
                    "let daemons ask for --host_wire=geneve, as of snf "
                    "host serve");
    flags().Heading("LXD");
    lxd_.AddTo(flags());
    flags().Text("image", image_, "NAME", "image of snf host image");
    flags().Text("profile", profiles_, "NAME,…",
                 "profiles of LXD, which give the containers a network "
                 "interface, a disk and limits; a profile a tier");
    flags().Text("target", target_, "MEMBER|@GROUP",
                 "member of LXD's cluster, or a group of which LXD chooses a "
                 "member. Without this flag: LXD chooses among all");
    flags().Heading("etcd");
    AddEtcd();
  }

 private:
  absl::Status Run() override {
    if (absl::Status s = CheckFlags(); !s.ok()) return s;
    absl::StatusOr<std::vector<HostLauncher::Host>> hosts = Hosts();
    if (!hosts.ok()) return hosts.status();
    absl::StatusOr<HostRegistry> registry = Registry();
    if (!registry.ok()) return registry.status();
    LxdSocket socket = lxd_.Socket();
    LxdClient client(socket);
    HostLauncher launcher(client, {.cluster = cluster(),
                                   .image = image_,
                                   .target = target_,
                                   .profiles = absl::StrSplit(profiles_, ',')});
    if (absl::Status s = launcher.Prepare(); !s.ok()) return s;
    FailedHosts failed(this->name());
    std::vector<HostLauncher::Host> started;
    for (const HostLauncher::Host& host : *hosts) {
      const absl::Status is_free = AwaitTerm(*registry, client, host.name);
      if (!is_free.ok()) {
        failed.Add(is_free);
        continue;
      }
      const auto launched = launcher.Launch(host);
      if (!launched.ok()) {
        failed.Add(launched.status());
        continue;
      }
      Tell(fmt::format("host \"{}\" {} on member {}, at {}", host.name,
                       launched->is_new ? "was launched" : "runs already",
                       Printable(launched->location), host.address));
      started.push_back(host);
    }
    failed.Add(AwaitJoins(*registry, client, std::move(started)));
    return failed.Last();
  }

  absl::Status CheckFlags() const {
    if (addresses_.text().empty()) {
      return absl::InvalidArgumentError(
          "--address: is missing; as --address=10.88.0.11/24");
    }
    if (from_.empty()) {
      return absl::InvalidArgumentError(
          "--from: is missing; as --from=10.88.0.10");
    }
    if (const auto from = ReadFrom(from_); !from.ok()) return from.status();
    if (port_ == 0) {
      return absl::InvalidArgumentError("--port: 0 is no port to connect to");
    }
    if (count_ > 1 && names_.size() > 1) {
      return absl::InvalidArgumentError(fmt::format(
          "--count: goes with one NAME, not with {}", names_.size()));
    }
    for (const char* flag : {"etcd_user", "etcd_password_file", "etcd_tls"}) {
      if (!flags().given(flag)) continue;
      return absl::InvalidArgumentError(fmt::format(
          "--{}: hosts that LXD launches connect to etcd without", flag));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<HostLauncher::Host>> Hosts() const {
    std::vector<std::string> names = names_;
    if (flags().given("count")) {
      names.clear();
      for (uint32_t i = 1; i <= count_; ++i) {
        names.push_back(fmt::format("{}-{}", names_.front(), i));
      }
    }
    std::vector<HostLauncher::Host> hosts;
    for (const std::string& name : names) {
      const auto index = static_cast<uint32_t>(hosts.size());
      const absl::StatusOr<std::string> address = addresses_.At(index);
      if (!address.ok()) return address.status();
      if (std::ranges::count(names, name) > 1) {
        return absl::InvalidArgumentError(
            fmt::format("NAME {} is there twice", Printable(name)));
      }
      HostLauncher::Host host = {
          .name = name,
          .address = *address,
          .prefix_bits = addresses_.bits(),
          .gateway = gateway_,
          .command = {"/usr/bin/snf", "host", "run", name,
                      fmt::format("--listen={}:{}", *address, port_),
                      flags().Printed("from")}};
      for (const std::string& flag : GivenFlags(flags(), kJoinFlags)) {
        host.command.push_back(flag);
      }
      if (absl::Status s = HostLauncher::Check(host); !s.ok()) return s;
      hosts.push_back(std::move(host));
    }
    return hosts;
  }

  // Waits until etcd has no entry of a host that LXD does not run. After a
  // crash the entry stays for its term, and refuses a new host of that name.
  static absl::Status AwaitTerm(HostRegistry& registry, LxdClient& client,
                                const std::string& name) {
    const auto instance = client.Find(name);
    if (!instance.ok()) return instance.status();
    if (*instance && (**instance).is_running()) return absl::OkStatus();
    std::optional<Instant> due;
    while (true) {
      const absl::StatusOr<proto::HostList> list = registry.List();
      if (!list.ok()) return list.status();
      const auto found = std::ranges::find_if(
          list->host(),
          [&name](const auto& listed) { return listed.host().name() == name; });
      if (found == list->host().end()) return absl::OkStatus();
      const std::string where =
          fmt::format("host \"{}\" is listed, at {}, and LXD does not run it",
                      name, Printable(found->host().address()));
      if (!due) {
        due = RealClock::Monotonic() + Seconds(found->term_s()) + kTermMargin;
        Tell(fmt::format("{}: waits for the end of its term, {} s at most",
                         where, found->term_s()));
      } else if (RealClock::Monotonic() > *due) {
        return absl::FailedPreconditionError(
            fmt::format("{}: snf host leave {} removes it", where, name));
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  bool HasJoined(const proto::HostList& list,
                 const HostLauncher::Host& host) const {
    const std::string address = fmt::format("{}:{}", host.address, port_);
    return std::ranges::any_of(list.host(), [&](const auto& listed) {
      return listed.host().name() == host.name &&
             listed.host().address() == address;
    });
  }

  // Waits until etcd has all hosts. If a host's container ends before, the
  // error has the last line that was printed there.
  absl::Status AwaitJoins(HostRegistry& registry, LxdClient& client,
                          std::vector<HostLauncher::Host> hosts) const {
    std::map<std::string, std::string> printed;
    const Instant due = RealClock::Monotonic() + kJoinPatience;
    while (true) {
      const absl::StatusOr<proto::HostList> list = registry.List();
      if (list.ok()) {
        std::erase_if(hosts, [this, &list](const HostLauncher::Host& host) {
          return HasJoined(*list, host);
        });
      } else if (!absl::IsUnavailable(list.status()) ||
                 RealClock::Monotonic() > due) {
        return list.status();
      }
      if (hosts.empty()) return absl::OkStatus();
      for (const HostLauncher::Host& host : hosts) {
        const std::string text = client.Console(host.name);
        if (!text.empty()) printed[host.name] = LastLine(text);
        const auto instance = client.Find(host.name);
        if (!instance.ok()) return instance.status();
        if (*instance && RealClock::Monotonic() < due) continue;
        const std::string& words = printed[host.name];
        return absl::FailedPreconditionError(fmt::format(
            "host \"{}\" {}; its last words: {}", host.name,
            *instance ? fmt::format("has not joined cluster \"{}\" in time",
                                    cluster())
                      : "ended before it joined",
            words.empty() ? "none" : words));
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  static std::string LastLine(const std::string& text) {
    const std::vector<std::string> lines =
        absl::StrSplit(text, absl::ByAnyChar("\r\n"), absl::SkipWhitespace());
    return lines.empty() ? "" : Printable(lines.back());
  }

  std::vector<std::string> names_;
  uint32_t count_ = 1;
  AddressRange addresses_;
  std::string gateway_;
  uint16_t port_ = 7'000;
  std::string from_;
  HostCapacity capacity_;
  LxdFlags lxd_;
  std::string image_ = "snf";
  std::string profiles_ = "default";
  std::string target_;
};

// The base of the commands that ask LXD alone.
class LxdCommand : public FlagCommand {
 protected:
  explicit LxdCommand(Text text) : FlagCommand(std::move(text)) {}
  void AddLxd() {
    lxd_.AddTo(flags());
    flags().Text("cluster", cluster_, "NAME", "name of the cluster");
  }
  const std::string& cluster() const { return cluster_; }

  virtual absl::Status RunWith(HostLauncher& launcher) = 0;

 private:
  absl::Status Run() final {
    LxdSocket socket = lxd_.Socket();
    LxdClient client(socket);
    HostLauncher launcher(
        client,
        {.cluster = cluster_, .image = "", .target = "", .profiles = {}});
    return RunWith(launcher);
  }

  LxdFlags lxd_;
  std::string cluster_ = "default";
};

class HostLaunchedCommand final : public LxdCommand {
 public:
  HostLaunchedCommand()
      : LxdCommand({.summary = "list the hosts that LXD has launched",
                    .usage = "snf host launched [--lxd=SOCKET] "
                             "[--cluster=NAME] [--json]",
                    .about = "Lists the instances of LXD that are hosts of a "
                             "cluster, with the member on which each one is. "
                             "snf host list tells which hosts live."}) {
    AddLxd();
    flags().Switch("json", json_, "print a JSON object on one line");
  }

 private:
  absl::Status RunWith(HostLauncher& launcher) override {
    const auto instances = launcher.List();
    if (!instances.ok()) return instances.status();
    if (json_) {
      Print(*instances);
      return absl::OkStatus();
    }
    if (instances->empty()) {
      fmt::print("LXD has no hosts of cluster \"{}\"\n", cluster());
      return absl::OkStatus();
    }
    fmt::print("{:<16} {:<16} {:<10} {:<16} {}\n", "host", "address", "state",
               "member", "profiles");
    for (const LxdInstance& instance : *instances) {
      fmt::print("{:<16} {:<16} {:<10} {:<16} {}\n", Printable(instance.name),
                 Printable(instance.At(HostLauncher::kAddressKey)),
                 Printable(instance.status), Printable(instance.location),
                 FileList(instance.profiles));
    }
    return absl::OkStatus();
  }

  void Print(const std::vector<LxdInstance>& instances) const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const LxdInstance& instance : instances) {
      list.push_back({{"name", instance.name},
                      {"address", instance.At(HostLauncher::kAddressKey)},
                      {"state", instance.status},
                      {"member", instance.location},
                      {"profiles", instance.profiles}});
    }
    const nlohmann::ordered_json all = {{"cluster", cluster()}, {"host", list}};
    fmt::print("{}\n", all.dump(-1, ' ', false,
                                nlohmann::json::error_handler_t::replace));
  }

  bool json_ = false;
};

class HostStopCommand final : public LxdCommand {
 public:
  HostStopCommand()
      : LxdCommand(
            {.summary = "end hosts that LXD has launched",
             .usage = "snf host stop NAME… | --all [--lxd=SOCKET] "
                      "[--cluster=NAME]",
             .about =
                 "Ends hosts of a cluster that snf host launch has started, "
                 "one after the other: the host leaves the cluster, daemons "
                 "drain its units, and LXD removes the container. A container "
                 "that takes longer than 30 s is killed."}) {
    flags().Arguments("NAME", names_, 0);
    flags().Switch("all", all_, "end all hosts of the cluster");
    AddLxd();
  }

 private:
  absl::Status RunWith(HostLauncher& launcher) override {
    if (all_ == !names_.empty()) {
      return absl::InvalidArgumentError(all_ ? "--all: goes without NAME"
                                             : "NAME or --all is missing");
    }
    if (all_) {
      const auto instances = launcher.List();
      if (!instances.ok()) return instances.status();
      for (const LxdInstance& instance : *instances) {
        names_.push_back(instance.name);
      }
    }
    FailedHosts failed(this->name());
    for (const std::string& name : names_) {
      const absl::StatusOr<bool> was_here = launcher.Stop(name, kStopPatience);
      if (!was_here.ok()) {
        failed.Add(was_here.status());
        continue;
      }
      Tell(fmt::format("host \"{}\" {}", Printable(name),
                       *was_here ? "has ended" : "does not run"));
    }
    return failed.Last();
  }

  std::vector<std::string> names_;
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> CreateHostLaunchCommand() {
  return std::make_unique<HostLaunchCommand>();
}
std::unique_ptr<Command> CreateHostLaunchedCommand() {
  return std::make_unique<HostLaunchedCommand>();
}
std::unique_ptr<Command> CreateHostStopCommand() {
  return std::make_unique<HostStopCommand>();
}

}  // namespace snf
