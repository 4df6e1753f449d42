// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MANAGER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MANAGER_H_

#include "platform/drivers/virtual_cluster/cluster_unit.h"
#include "resource_manager/core/manager_host.h"
#include "runtime/leases/unit_hosts.h"

namespace snf {

// Hosts a resource manager and its units. Owner-thread only.
class ClusterManager : public ManagerHost {
 public:
  using ManagerHost::ManagerHost;
  UnitHosts<ClusterUnit>& units() { return units_; }

 private:
  UnitHosts<ClusterUnit> units_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MANAGER_H_
