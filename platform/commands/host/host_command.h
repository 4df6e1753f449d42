// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_HOST_HOST_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_HOST_HOST_COMMAND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "platform/control/etcd_flags.h"
#include "platform/process/command.h"
#include "resource_manager/etcd/host_registry.h"
#include "resource_manager/lxd/lxd_socket.h"

namespace snf {

// The base of the commands that are clients of etcd.
class HostCommand : public FlagCommand {
 protected:
  explicit HostCommand(Text text) : FlagCommand(std::move(text)) {}
  void AddEtcd() {
    etcd_.AddTo(flags(), "servers of etcd, which keeps the cluster's hosts");
  }
  const std::string& cluster() const { return etcd_.cluster(); }
  // After Registry().
  EtcdClient& client() { return *client_; }
  absl::StatusOr<HostRegistry> Registry() {
    if (!etcd_.is_given()) {
      return absl::InvalidArgumentError(
          "--etcd: is missing; as --etcd=127.0.0.1:2379");
    }
    auto client = etcd_.Client();
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    return HostRegistry::Of(*client_, etcd_.cluster());
  }

 private:
  EtcdFlags etcd_;
  std::unique_ptr<EtcdClient> client_;
};

// The flags of what a host enters about itself.
struct HostCapacity {
  static constexpr uint32_t kMostUnits = 1'024;
  static constexpr int64_t kLeastCapacity = 1'000;
  static constexpr int64_t kMostCapacity = 1'000'000'000'000;

  // `geneve_help` says what the switch is for.
  void AddTo(FlagSet& flags, const std::string& geneve_help) {
    flags.Count("units", units, 1, kMostUnits, "units that the host can run");
    flags.BitRate("unit_capacity", unit_capacity_bps, kLeastCapacity,
                  kMostCapacity, "rate that a unit of the host can process");
    flags.Duration("term", term, HostRegistry::kLeastTerm,
                   HostRegistry::kMostTerm,
                   "time without a heartbeat after which the host is removed, "
                   "in whole seconds");
    flags.Switch("geneve", geneve, geneve_help);
  }

  uint32_t units = 8;
  int64_t unit_capacity_bps = 1'000'000'000;
  Nanos term = Seconds(10);
  bool geneve = false;  // its agent runs with --geneve
};

// The flag of a client of LXD.
struct LxdFlags {
  void AddTo(FlagSet& flags) {
    flags.Text(
        "lxd", socket, "SOCKET",
        "unix socket of LXD; of any member, if LXD is a cluster. Without "
        "this flag: in $LXD_DIR, or of Debian's package or the snap");
  }
  LxdSocket Socket() const {
    return LxdSocket(socket.empty() ? LxdSocket::UsualPath() : socket);
  }

  std::string socket;
};

// The flags of snf host join that snf host run has as well.
inline const std::vector<std::string> kJoinFlags = {
    "etcd",     "cluster", "etcd_user",     "etcd_password_file",
    "etcd_tls", "units",   "unit_capacity", "term",
    "geneve"};

// Reads --from of the command. Errors: as HostAgent::ParseFrom.
absl::StatusOr<std::vector<std::string>> ReadFrom(const std::string& from);
// Returns OK if daemons can use a host of this name at this address, which the
// flag has. Errors: InvalidArgument, naming the flag.
absl::Status CheckEntry(const std::string& name, const char* flag,
                        const std::string& address);

// Returns the flags of a command line that `flags` was given by name, as
// "--units=4", for a command that has the same flags.
std::vector<std::string> GivenFlags(const FlagSet& flags,
                                    const std::vector<std::string>& names);

std::unique_ptr<Command> CreateHostRunCommand();
std::unique_ptr<Command> CreateHostImageCommand();
std::unique_ptr<Command> CreateHostLaunchCommand();
std::unique_ptr<Command> CreateHostLaunchedCommand();
std::unique_ptr<Command> CreateHostStopCommand();

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_HOST_HOST_COMMAND_H_
