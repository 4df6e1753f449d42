// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_DAEMON_FLAGS_H_
#define SNF_PLATFORM_DAEMON_DAEMON_FLAGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "platform/control/etcd_flags.h"
#include "platform/daemon/manager_membership.h"
#include "platform/hosts/host_place.h"
#include "platform/options/run_flags.h"
#include "platform/process/flags.h"
#include "platform/service/daemon_log.h"
#include "platform/service/daemon_network.h"
#include "platform/service/tls_endpoint.h"

namespace snf {

// The flags of `snf up`: flags of a run of live traffic, and of its daemon. A
// second object tells how a daemon would run with other flags. Owner-thread
// only.
class DaemonFlags {
 public:
  // Adds all flags to `flags`, which must outlive this.
  explicit DaemonFlags(FlagSet& flags);
  DaemonFlags(const DaemonFlags&) = delete;
  DaemonFlags& operator=(const DaemonFlags&) = delete;

  // Checks the flags against each other. Call once, after the parsing and
  // RunFlags::TakeConfig. Errors: as of RunFlags::Settle.
  absl::Status Check();
  // As Check, with what the flags need of this machine: units of a manager, a
  // way to isolate units, keys and certificates.
  absl::Status Settle();
  // Returns true if units run on the hosts that have joined a cluster.
  bool places_units() const;
  // Checks --bypass alone. Error: InvalidArgument.
  absl::Status CheckBypass() const;

  RunFlags run;
  std::string name = "default";
  std::string manager;                          // "": its units are its own
  std::string manager_tls;                      // a directory for ReadTlsFiles
  std::optional<ManagerMembership> membership;  // if there is a manager
  EtcdFlags etcd;                       // of the hosts of units, or the group
  uint32_t own_units = 1;               // if it places units
  HostWire host_wire = HostWire::kTcp;  // the same
  std::string group;                    // of controllers, in etcd; "": none
  std::string group_address;  // for frames from other members; "": none
  std::string group_tls;      // a directory for ReadTlsFiles; "": none
  Nanos takeover = Seconds(1);
  uint32_t controllers = 1;
  uint32_t units = 0;  // of the resource manager of several; 0: none
  std::optional<TlsEndpoint> tcp;
  std::optional<DaemonNetwork::Names> network;  // that is made for it
  std::string no_containers;  // why its units are in none, if they might be
  bool upgrade = false;
  Nanos keep;
  Nanos bypass;
  Nanos within = Nanos::max();
  bool foreground = false;
  std::string log;
  bool log_json = false;
  LogLevel log_level = LogLevel::kInfo;

 private:
  // Asks for the ways to isolate units that this machine has, if `looks` is
  // set.
  absl::Status ChoosePorts(bool looks);
  absl::Status CheckTogether() const;
  absl::Status CheckEtcd() const;
  absl::Status CheckGroup() const;
  absl::Status CheckGroupTls() const;
  absl::Status CheckBackground() const;

  FlagSet& flags_;
  TlsFlags tls_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_DAEMON_FLAGS_H_
