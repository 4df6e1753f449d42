// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_MANAGER_MEMBERSHIP_H_
#define SNF_PLATFORM_DAEMON_MANAGER_MEMBERSHIP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/daemon/daemon_leases.h"
#include "platform/options/run_request.h"
#include "platform/process/flags.h"
#include "resource_manager/live/lease_address.h"

namespace snf {

// Makes a daemon that is to start a member of a resource manager: one of this
// machine, by its name, or of any machine, by its address. Owner-thread only.
class ManagerMembership {
 public:
  struct Options {
    std::string manager;  // or several, of which one leads: "a,tcp:10.0.0.2:7"
    std::string tls;      // a directory for ReadTlsFiles, with addresses
    std::string daemon;
    bool follows_hosts = false;  // units run on the hosts of a cluster
  };
  explicit ManagerMembership(Options options) : options_(std::move(options)) {}

  // Gives the flags the units of the manager, as its file says, or itself at
  // its address. `upgrade` is that flag's value. Before the daemon has threads.
  // Errors: InvalidArgument, flags that are at odds with a manager;
  // FailedPrecondition, none of that name runs, or leads; errors of its files,
  // and of ReadTlsFiles.
  absl::Status Settle(FlagSet& flags, bool upgrade) const;
  // The same for what chains of a file say. Errors: InvalidArgument, a chain
  // with units of its own, or with a name that is too long for the manager.
  absl::Status CheckChains(const RunRequest& options) const;
  // Returns once the manager knows the daemon: as one member, or with rules as
  // one for each chain, "DAEMON.CHAIN", in their order. Errors: as of
  // LeaseMember::Join.
  absl::StatusOr<std::vector<std::unique_ptr<DaemonLeases>>> Join(
      const RunRequest& options) const;

 private:
  struct Units {
    uint32_t count = 0;
    int64_t capacity_bps = 0;
    bool follow_hosts = false;
  };

  absl::Status Refuse(const std::string& why) const;
  absl::Status CheckFlags(const FlagSet& flags, bool upgrade) const;
  // Return none if no manager says which units there are.
  absl::StatusOr<std::optional<Units>> UnitsByFiles() const;
  absl::StatusOr<std::optional<Units>> UnitsByAddress() const;
  absl::StatusOr<std::vector<LeaseAddress>> Addresses() const;
  // Returns the name by which the manager knows one of several chains.
  std::string MemberNameOf(const Config::Chain& chain) const;
  absl::StatusOr<std::unique_ptr<DaemonLeases>> JoinAs(
      const std::string& name, const RunRequest& options) const;

  const Options options_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_MANAGER_MEMBERSHIP_H_
