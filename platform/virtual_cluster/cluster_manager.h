// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_MANAGER_H_
#define SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_MANAGER_H_

#include "platform/cluster/manager_host.h"
#include "platform/cluster/unit_hosts.h"
#include "platform/virtual_cluster/cluster_unit.h"

namespace snf {

// The resource manager of some units, with these. Owner-thread only.
class ClusterManager : public ManagerHost {
 public:
  using ManagerHost::ManagerHost;
  UnitHosts<ClusterUnit>& units() { return units_; }

 private:
  UnitHosts<ClusterUnit> units_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_MANAGER_H_
