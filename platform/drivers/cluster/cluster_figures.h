// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_CLUSTER_CLUSTER_FIGURES_H_
#define SNF_PLATFORM_DRIVERS_CLUSTER_CLUSTER_FIGURES_H_

#include <algorithm>

#include "platform/run/run.h"
#include "resource_manager/core/manager_host.h"

namespace snf {

// Adds the counts of the resource managers of some units to the figures of a
// run.
inline void AddCounters(const ManagerCounters& counters,
                        ClusterFigures& figures) {
  figures.asks += counters.asks;
  figures.grants += counters.grants;
  figures.revoked += counters.revoked;
  figures.given_back += counters.given_back;
  figures.gone += counters.gone;
  figures.units_started += counters.units_started;
  figures.units_up_max = std::max(figures.units_up_max, counters.units_up_max);
  figures.refused += counters.refused;
  figures.unheard += counters.unheard;
  figures.managers_failed += counters.failed;
  figures.managers_recovered += counters.recovered;
  figures.manager_recovery_ns_max =
      std::max(figures.manager_recovery_ns_max, counters.recovery_ns_max);
}

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_CLUSTER_CLUSTER_FIGURES_H_
