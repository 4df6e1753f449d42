// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LXD_LXD_SOCKET_H_
#define SNF_RESOURCE_MANAGER_LXD_LXD_SOCKET_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "resource_manager/lxd/lxd_transport.h"

namespace snf {

// Asks the LXD of this machine, by HTTP over the LXD's unix socket. Each
// request has a connection of its own. A member of a cluster forwards requests
// about other members' instances, so the socket of any member is the cluster's.
class LxdSocket final : public LxdTransport {
 public:
  // A response beyond this is an error.
  static constexpr size_t kMostBytes = 16U << 20U;

  // Returns where LXD listens: in the folder of $LXD_DIR, or where Debian's
  // package or the snap puts the socket.
  static std::string UsualPath();

  explicit LxdSocket(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<LxdResponse> Exchange(const LxdRequest& request) override;

 private:
  const std::string path_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LXD_LXD_SOCKET_H_
