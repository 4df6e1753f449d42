// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_MANAGER_MEMBERSHIP_H_
#define SNF_PLATFORM_DAEMON_MANAGER_MEMBERSHIP_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/daemon/daemon_leases.h"
#include "platform/options/run_request.h"
#include "platform/process/flags.h"
#include "platform/service/daemon_files.h"

namespace snf {

// Makes a daemon that is to start a member of a resource manager of this
// machine. Owner-thread only.
class ManagerMembership {
 public:
  ManagerMembership(std::string manager, std::string daemon)
      : manager_(std::move(manager)), daemon_(std::move(daemon)) {}

  // Gives the flags the units of the manager, as its file says; it is asked
  // once the daemon is in the background. `upgrade` is that flag's value.
  // Errors: InvalidArgument, flags that are at odds with a manager;
  // FailedPrecondition, none of that name runs; errors of its files.
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
  absl::StatusOr<std::vector<DaemonFiles>> Files() const;
  // Returns the name by which the manager knows one of several chains.
  std::string MemberNameOf(const Config::Chain& chain) const;
  absl::StatusOr<std::unique_ptr<DaemonLeases>> JoinAs(
      const std::string& name, const RunRequest& options) const;

  std::string manager_;  // or several, of which one leads: "a,b"
  std::string daemon_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_MANAGER_MEMBERSHIP_H_
