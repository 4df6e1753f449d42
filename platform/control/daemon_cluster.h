// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_DAEMON_CLUSTER_H_
#define SNF_PLATFORM_CONTROL_DAEMON_CLUSTER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/service/daemon_files.h"
#include "proto/control.pb.h"

namespace snf {

// One of the daemons that share ports: controller I of NAME is the daemon
// NAME.I.
struct ClusterMember {
  uint32_t id = 0;
  DaemonFiles files;
  pid_t pid = 0;

  static std::string NameOf(const std::string& name, uint32_t id);
};

// Returns the members of that name that run, by their ids. Errors: those of
// DaemonFiles and PidOf.
absl::StatusOr<std::vector<ClusterMember>> MembersOf(const std::string& name);

// Asks a daemon how it stands. Error: it has not answered in time.
absl::StatusOr<proto::StatusReply> StatusOf(const DaemonFiles& files);

// Returns how the members stand: counts, drops and ports are sums, `member` has
// what each says, and `controllers` is how many there are to be. Of one that
// does not run, or does not answer, `member` has the id alone, or also the pid.
proto::StatusReply StatusOfAll(const std::string& name,
                               const std::vector<ClusterMember>& members);

// Returns the members of that name, if there are any, each of which is to be
// asked. Errors: those of MembersOf; FailedPrecondition, one does not run or
// does not answer, and would be left out.
absl::StatusOr<std::vector<ClusterMember>> AllMembersOf(
    const std::string& name);

// Changes settings of all members, or of none; returns what they are then.
// Without values it changes nothing. Errors name the member: those of the
// service; FailedPrecondition, it has another value than the first one; or also
// those before have the change, and did not let it be taken back.
absl::StatusOr<proto::SetReply> SetAll(
    const std::vector<ClusterMember>& members,
    const proto::SetRequest& request);

// Gives a member another chain. Errors: those of the service.
absl::StatusOr<proto::ChainReply> SetChain(const ClusterMember& member,
                                           const proto::ChainRequest& request);

// Begins StatusReply.nf of a resource manager. A manager that does not lead
// adds the reason.
inline constexpr char kManagerNf[] = "a resource manager";
// Returns true if the process that answered is a resource manager.
bool IsManager(const proto::StatusReply& reply);

// Lets a daemon of this machine come to its end, waits for it, and says so on
// stdout. Error: Internal, it did not end in time, and was killed.
absl::Status EndDaemon(const DaemonFiles& files, pid_t pid, Nanos patience);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_DAEMON_CLUSTER_H_
