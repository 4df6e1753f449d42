// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LXD_HOST_LAUNCH_H_
#define SNF_RESOURCE_MANAGER_LXD_HOST_LAUNCH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "resource_manager/lxd/lxd_client.h"

namespace snf {

// Theory of operation. A host of a cluster is an ephemeral container of LXD,
// whose first process is `snf host run`. LXD places the container on a member
// and starts it, once: nothing is started again by LXD. A host that dies is
// seen by etcd, whose lease ends, and by daemons. Its container is removed by
// LXD; a second launch of that name makes a new one, on a member that LXD
// chooses. So a launch may be repeated at any time: hosts that run are left
// alone.
//
// The containers of a cluster have the key user.snf.cluster. Instances without
// that key, or with another cluster's name, are never changed.
//
// Worked example: a, b and c are launched for cluster "default", and c's member
// loses its power. etcd removes c after its term; units of c are started on a
// and b. Once that member is back, or is no member any more, launching a, b and
// c makes a new container for c, and leaves a and b alone.
//
// Owner-thread only. The client must outlive the launcher.
class HostLauncher {
 public:
  static constexpr char kClusterKey[] = "user.snf.cluster";
  static constexpr char kAddressKey[] = "user.snf.address";
  // The property that images of `snf host image` have.
  static constexpr char kImageProperty[] = "snf.version";

  struct Options {
    std::string cluster;
    std::string image;                  // alias
    std::string target;                 // a member, @GROUP, or "": LXD decides
    std::vector<std::string> profiles;  // of LXD, the last one counts most
    Nanos removal = Seconds(20);  // for LXD to remove a container that ended
  };

  struct Host {
    std::string name;
    std::string address;               // of the first network interface, IPv4
    uint32_t prefix_bits = 0;          // of that address's network
    std::string gateway;               // "": none
    std::vector<std::string> command;  // the first process, with its arguments
  };

  struct Launched {
    bool is_new = false;   // false: the host ran already
    std::string location;  // member of LXD's cluster; "none" without one
  };

  HostLauncher(LxdClient& client, Options options)
      : client_(&client), options_(std::move(options)) {}

  // Gives LXD an image, with this SHA-256 sum in hexadecimal, under a name.
  // Returns false if that name has that image already. Other clients may do the
  // same meanwhile: the name has the last one's image. Errors:
  // FailedPrecondition, the name is of an image that is none of SNF's; errors
  // of LXD.
  static absl::StatusOr<bool> GiveImage(LxdClient& client,
                                        const std::string& file,
                                        const std::string& fingerprint,
                                        const std::string& name);

  // Returns InvalidArgument if LXD or LXC could not take such a host.
  static absl::Status Check(const Host& host);

  // Looks for LXD, the image, the profiles and the target: call before Launch.
  // Error: FailedPrecondition, names what LXD does not have; errors of LXD.
  absl::Status Prepare();

  // Makes a host run. Errors: FailedPrecondition, an instance of that name is
  // not of this cluster, or runs with other flags; errors of LXD.
  absl::StatusOr<Launched> Launch(const Host& host);

  // Ends a host: its processes have `patience` to leave the cluster, and are
  // killed then. Returns false if there is no such instance. Errors:
  // FailedPrecondition, the instance is not of this cluster; errors of LXD.
  absl::StatusOr<bool> Stop(const std::string& name, Nanos patience);

  // Returns the instances of this cluster, in the order of their names.
  absl::StatusOr<std::vector<LxdInstance>> List();

 private:
  absl::Status CheckTarget();
  absl::Status CheckOwn(const LxdInstance& instance) const;
  // Removes an instance that has ended, unless LXD has done so.
  absl::Status Remove(const std::string& name);
  absl::StatusOr<bool> AwaitRemoval(const std::string& name);

  LxdClient* client_;
  const Options options_;
  std::string fingerprint_{};  // of the image, once prepared
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LXD_HOST_LAUNCH_H_
