// SPDX-License-Identifier: Apache-2.0
#include "platform/service/daemon_network.h"

#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <utility>

#include "platform/process/child_program.h"

namespace snf {
namespace {

constexpr const char* kNamespaces = "/run/netns/";
constexpr std::string_view kLink = "link";
constexpr std::string_view kNamespace = "netns";

// Runs commands of ip(8), a line each, in a namespace, or here.
absl::Status RunIp(const std::string& lines, const std::string& space = "",
                   bool goes_on = false) {
  ChildProgram ip = {.words = {"ip"}, .input = lines, .tells_first = true};
  if (!space.empty()) ip.words.insert(ip.words.end(), {"-n", space});
  if (goes_on) ip.words.emplace_back("-force");
  ip.words.insert(ip.words.end(), {"-batch", "-"});
  const absl::Status status = RunChildProgram(ip).status();
  if (absl::IsNotFound(status)) {
    return absl::FailedPreconditionError(
        "the program ip is missing (Debian's package iproute2)");
  }
  const std::string why(status.message());
  for (const char* denied : {"Operation not permitted", "Permission denied"}) {
    if (why.find(denied) == why.npos) continue;
    return absl::PermissionDeniedError(why + "; network namespaces need root");
  }
  return status.ok() ? status : absl::UnavailableError(why);
}

bool IsNamespace(const std::string& name) {
  return access((kNamespaces + name).c_str(), F_OK) == 0;
}

absl::Status CheckFree(const DaemonNetwork::Names& names) {
  const auto taken = [](const char* what, const std::string& name) {
    return absl::FailedPreconditionError(
        fmt::format("{} {} exists, and snf did not make it; with --name=NAME, "
                    "snf up uses other names",
                    what, name));
  };
  for (const std::string& name : {names.client, names.server}) {
    if (IsNamespace(name)) return taken("a network namespace", name);
  }
  for (const std::string& name : {names.inside, names.outside}) {
    if (if_nametoindex(name.c_str()) != 0) return taken("an interface", name);
  }
  return absl::OkStatus();
}

absl::Status Note(const DaemonNetwork::Names& names,
                  const std::string& record) {
  std::ofstream file(record);
  for (const std::string& name : {names.inside, names.outside}) {
    file << kLink << ' ' << name << '\n';
  }
  for (const std::string& name : {names.client, names.server}) {
    file << kNamespace << ' ' << name << '\n';
  }
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(record + ": cannot be written");
}

absl::Status MakeHost(const std::string& space, std::string_view address,
                      std::string_view address6) {
  absl::Status made = RunIp(fmt::format("link set lo up\nlink set eth0 up\n"
                                        "addr add {}/24 dev eth0\n",
                                        address),
                            space);
  if (!made.ok()) return made;
  // A machine may be without IPv6.
  RunIp(fmt::format("addr add {}/64 dev eth0 nodad\n", address6), space)
      .IgnoreError();
  return absl::OkStatus();
}

absl::Status MakeAll(const DaemonNetwork::Names& names) {
  std::string lines;
  for (const auto& [space, link] : {std::pair(names.client, names.inside),
                                    std::pair(names.server, names.outside)}) {
    lines += fmt::format(
        "netns add {0}\n"
        "link add {1} type veth peer name eth0 netns {0}\n"
        "link set {1} addrgenmode none\n"
        "link set {1} up\n",
        space, link);
  }
  absl::Status status = RunIp(lines);
  if (status.ok()) {
    status = MakeHost(names.client, DaemonNetwork::kClientAddress, "fd77::2");
  }
  if (status.ok()) {
    status = MakeHost(names.server, DaemonNetwork::kServerAddress, "fd77::3");
  }
  return status;
}

// Returns true unless the name could be an option or another command of ip.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name[0] != '-' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_';
         });
}

}  // namespace

absl::StatusOr<DaemonNetwork::Names> DaemonNetwork::Names::Of(
    const std::string& daemon) {
  if (daemon == "default") {
    return Names{"snf-client", "snf-server", "snf-lan", "snf-wan"};
  }
  Names names = {fmt::format("snf-{}-client", daemon),
                 fmt::format("snf-{}-server", daemon), daemon + "-lan",
                 daemon + "-wan"};
  if (names.inside.size() < IFNAMSIZ) return names;
  return absl::InvalidArgumentError(
      fmt::format("--name={}: without --port, interfaces are named after the "
                  "daemon: want at most {} characters",
                  daemon, IFNAMSIZ - 1 - std::string_view("-lan").size()));
}

absl::StatusOr<DaemonNetwork> DaemonNetwork::Make(const Names& names,
                                                  const std::string& record) {
  if (geteuid() != 0) {
    return absl::PermissionDeniedError(
        "without --port, snf up makes two network namespaces, which needs "
        "root; to run captures without root: --port inside=file:FILE --port "
        "outside=file:FILE");
  }
  if (absl::Status s = CheckFree(names); !s.ok()) return s;
  if (absl::Status s = Note(names, record); !s.ok()) return s;
  DaemonNetwork network(record);
  if (absl::Status s = MakeAll(names); !s.ok()) return s;
  return network;
}

void DaemonNetwork::Remove(const std::string& record) {
  std::ifstream file(record);
  if (!file.is_open()) return;
  std::string lines;
  for (std::string kind, name; file >> kind >> name;) {
    if (!IsPlainName(name)) continue;
    if (kind == kLink && if_nametoindex(name.c_str()) != 0) {
      lines += fmt::format("link del {}\n", name);
    }
    if (kind == kNamespace && IsNamespace(name)) {
      lines += fmt::format("netns del {}\n", name);
    }
  }
  file.close();
  // An interface that is gone meanwhile does not keep the others from being
  // removed.
  if (!lines.empty()) RunIp(lines, "", true).IgnoreError();
  unlink(record.c_str());
}

DaemonNetwork::DaemonNetwork(std::string record) : record_(std::move(record)) {}

DaemonNetwork::DaemonNetwork(DaemonNetwork&& other) noexcept
    : record_(std::exchange(other.record_, {})) {}

DaemonNetwork::~DaemonNetwork() {
  if (!record_.empty()) Remove(record_);
}

}  // namespace snf
