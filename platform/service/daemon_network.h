// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_DAEMON_NETWORK_H_
#define SNF_PLATFORM_SERVICE_DAEMON_NETWORK_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// Theory of operation. The network of a daemon without ports: two network
// namespaces of its own, as a client's and a server's host, each with a veth
// pair whose other end is here. Hosts have the addresses 10.77.0.2 and .3, and
// fd77::2 and ::3 where the machine has IPv6; the ends here have none.
//
//   snf-client eth0 ── snf-lan [ daemon ] snf-wan ── eth0 snf-server
//
// The names are written into a file before anything is made. So the remains of
// a killed daemon, and nothing else, are removed by the next daemon of its
// name, or by snf down.
//
// Owner-thread only.
class DaemonNetwork {
 public:
  static constexpr std::string_view kClientAddress = "10.77.0.2";
  static constexpr std::string_view kServerAddress = "10.77.0.3";

  // The names: for "default" as above; for "edge" snf-edge-client,
  // snf-edge-server, edge-lan and edge-wan.
  struct Names {
    std::string client, server;   // namespaces
    std::string inside, outside;  // interfaces

    // Error: InvalidArgument, it makes too long a name of an interface.
    static absl::StatusOr<Names> Of(const std::string& daemon);
  };

  // Makes the network, with all up, and notes it in the file `record`. Errors,
  // after which nothing is left: PermissionDenied; FailedPrecondition, one of
  // the names is taken, or there is no ip; Unavailable, with ip's reason.
  static absl::StatusOr<DaemonNetwork> Make(const Names& names,
                                            const std::string& record);
  // Takes over the network that another daemon of the name has made and given
  // away.
  static DaemonNetwork Adopt(const std::string& record) {
    return DaemonNetwork(record);
  }
  void GiveAway() { record_.clear(); }
  // Removes the network that the file names, and the file. Does nothing if
  // there is no file.
  static void Remove(const std::string& record);
  DaemonNetwork(DaemonNetwork&& other) noexcept;
  DaemonNetwork& operator=(DaemonNetwork&&) = delete;
  // Removes it.
  ~DaemonNetwork();

 private:
  explicit DaemonNetwork(std::string record);

  std::string record_;  // "" if moved from
};

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_DAEMON_NETWORK_H_
